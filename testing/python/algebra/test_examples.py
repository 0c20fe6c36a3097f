"""Examples over the field: their kernels equal their references, which are torch and autograd."""

import pytest
import torch
from examples.running import run

from tilelang.algebra import Algebra, same
from tilelang.tools.example import Example

#: Scripts with arguments that keep them short.
SCRIPTS = (
    "gemm/gemm --m 130 --n 72 --k 136",
    "gemm/gemm_split_k --m 130 --n 72 --k 520",
    "gemm/gemm_stream_k",
    "gemm/grouped_gemm --sizes 7 130 0 57 --n 136 --blocks 4",
    "gemm/grouped_gemm_masked",
    "gemm/gemm_fp8 --m 72 --n 136 --k 256",
    "gemm/gemm_sparse --m 128 --n 136 --k 256",
    "gemm/gemm_nvfp4",
    "gemm_sm100/gemm_mxfp8",
    "gemm_sm100/gemm_fp4",
    "gemm_sm100/gemm_scaled_pairs",
    "gemm_sm100/gemm_persistent_pairs",
    "gemm_sm100/attention",
    "flash_attention/attention_forward --queries 77 --keys 200 --causal",
    "flash_attention/attention_backward --queries 130 --keys 200 --dim 64 --causal",
    "flash_attention/attention_window --queries 130 --keys 130 --window 33 --no_sink",
    "flash_attention/flash_decoding --lengths 130 5 --splits 3",
    "flash_attention/mla_decode",
    "flash_attention/paged_decoding_fp8",
    "convolution/conv2d",
    "epilogue/bias_gelu --m 130 --n 72 --k 136",
    "epilogue/rotary_gemm",
    "epilogue/swiglu_gemm",
    "linear_attention/linear_attention",
    "mamba/chunk_state",
    "moe/expert_gradients",
    "moe/fused_moe",
    "norm/group_norm",
    "norm/group_norm_backward",
    "norm/layer_norm --rows 5",
    "norm/layer_norm_backward",
    "norm/rms_norm --rows 5",
    "norm/rms_norm_backward",
    "reductions/column_sums",
    "reductions/cumsum",
    "reductions/gradients",
    "softmax/cross_entropy",
    "softmax/softmax --rows 5",
    "softmax/softmax_backward",
)  # fmt: skip


@pytest.mark.budget(5)  # each example has rules of its own
@pytest.mark.parametrize("line", SCRIPTS)
def test_example(line, monkeypatch):
    script, *arguments = line.split()
    algebra, compared = Algebra(), []

    def compare(self, name, got, want, tolerance=0):
        assert algebra.has(got) and algebra.has(want), name
        equal = same(algebra.read(got), algebra.read(want))
        assert equal.all(), f"{name}: {int((~equal).sum())} of {equal.size} elements differ"
        compared.append(name)

    monkeypatch.setattr(Example, "check", compare)
    # The draws of torch do not decide the elements, which have a seed of their own.
    with algebra.mode(seed=torch.seed() % 2**32):
        run(monkeypatch, script, *arguments)
    assert compared
