"""Runs one row of a script's table on the emulator, beside its peers on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilelang.tools.example import Case, Example

#: a row of each script's table that takes no time
SMALL: dict[str, tuple[int, ...]] = {
    "convolution/conv2d": (2, 5, 6, 64, 24, 3, 2),
    "elementwise/add": (3, 100),
    "elementwise/swiglu": (3, 100),
    "epilogue/bias_gelu": (9, 24, 40),
    "epilogue/quantize_gemm": (9, 144, 40),
    "epilogue/rotary_gemm": (9, 2, 32, 40),
    "epilogue/swiglu_gemm": (9, 24, 40),
    "flash_attention/attention_backward": (1, 20, 30, 2, 1, 64),
    "flash_attention/attention_backward_added": (1, 20, 30, 2, 1, 64),
    "flash_attention/attention_forward": (1, 20, 20, 2, 1, 64, 64),
    "flash_attention/attention_persistent": (1, 20, 20, 2, 1, 64, 64),
    "flash_attention/attention_varlen": (3, 20, 2, 1, 64),
    "flash_attention/attention_window": (1, 20, 2, 1, 64, 7),
    "flash_attention/flash_decoding": (2, 20, 4, 2, 64),
    "flash_attention/mla_decode": (1, 20, 3),
    "flash_attention/mla_sparse_decode": (1, 40, 20, 3),
    "flash_attention/native_sparse_attention": (1, 9, 16, 1, 64, 32, 2),
    "flash_attention/paged_decoding_fp8": (1, 20, 4, 2, 64, 16),
    "flash_attention/sparse_indexer": (1, 50, 32, 64, 7),
    "gemm/gemm": (9, 24, 40),
    "gemm/gemm_dequantize": (9, 24, 64),
    "gemm/gemm_fp8": (16, 32, 48),
    "gemm/gemm_fp8_block_scaled": (16, 32, 144),
    "gemm/gemm_nvfp4": (16, 32, 64),
    "gemm/gemm_sparse": (16, 24, 64),
    "gemm/gemm_split_k": (9, 24, 40),
    "gemm/gemm_stream_k": (9, 24, 40),
    "gemm/grouped_gemm": (3, 20, 24, 40),
    "gemm/grouped_gemm_masked": (3, 20, 24, 40),
    "gemm_sm100/attention": (128, 64, 64),
    "gemm_sm100/gemm_chained": (9, 64, 32, 32),
    "gemm_sm100/gemm_fp4": (16, 32, 64),
    "gemm_sm100/gemm_mxfp8": (16, 32, 64),
    "gemm_sm100/gemm_persistent": (9, 24, 40),
    "gemm_sm100/gemm_persistent_pairs": (9, 24, 40),
    "gemm_sm100/gemm_scaled_pairs": (16, 32, 64),
    "gemm_sm100/gemm_tcgen5mma": (9, 24, 40),
    "gemm_sm100/gemm_tcgen5mma_ts": (9, 24, 40),
    "gemm_sm90/gemm_multicast": (256, 256, 64),
    "hadamard/hadamard": (2, 256),
    "linear_attention/linear_attention": (1, 20, 1, 64, 64),
    "mamba/chunk_scan": (1, 2, 16, 1, 64, 64),
    "mamba/chunk_state": (1, 2, 16, 1, 64, 64),
    "moe/expert_gradients": (20, 2, 64, 64),
    "moe/fused_moe": (5, 3, 2, 64, 64),
    "moe/fused_moe_nvfp4": (5, 3, 2, 64, 64),
    "norm/group_norm": (2, 4, 2, 9),
    "norm/group_norm_backward": (2, 4, 2, 9),
    "norm/layer_norm": (3, 100),
    "norm/layer_norm_backward": (3, 100),
    "norm/rms_norm": (3, 100),
    "norm/rms_norm_backward": (3, 100),
    "quantize/rms_norm_quantize": (3, 128),
    "quantize/swiglu_quantize": (3, 128),
    "reductions/argmax": (3, 100),
    "reductions/column_sums": (30, 10),
    "reductions/cumsum": (3, 100),
    "reductions/gradients": (30, 10),
    "softmax/cross_entropy": (3, 100),
    "softmax/softmax": (3, 100),
    "softmax/softmax_backward": (3, 100),
    "stream/memory_over_time": (9, 17, 33),
    "stream/microscope": (9, 65, 66),
    "stream/viewer_pyramid": (5, 40),
    "topk/sampling": (3, 100),
    "topk/topk": (3, 40, 4),
}
#: in what torch says of peers that it has for GPUs alone, as of types that are mixed
NOT_ON_CPUS = (
    "No viable backend for scaled_dot_product_attention",
    "Could not run",
    "Invalid scaling configuration",
    "expected scalar type",
)

#: of results of small types, beside the largest element
ALLOWED = 0.3


def run_row(
    self: Example,
    shapes: Sequence[tuple[int, ...]],
    case: Callable[..., Case],
    row: tuple[int, ...],
) -> None:
    """Stands for ``Example.table``: runs the case of ``row``, and compares it with its peers.

    Raises:
        AssertionError: there are fewer than five shapes, ``row`` is none, or a peer has something
            else for a result of the same shape.
    """
    assert len(shapes) >= 5
    assert {len(shape) for shape in shapes} == {len(row)}
    outputs: list[torch.Tensor] = []
    made = self.output

    def output(*shape: int, **options: Any) -> torch.Tensor:
        outputs.append(made(*shape, **options))
        return outputs[-1]

    self.output = output  # type: ignore[method-assign]
    line = case(*row)
    line.run()
    assert line.peers and line.moved + line.flops > 0
    for name, peer in line.peers.items():
        try:
            result = peer()
        except (RuntimeError, ValueError) as missing:
            assert any(text in str(missing) for text in NOT_ON_CPUS), f"{name}: {missing}"
            continue
        for got in tensors(result):
            same = [x for x in outputs if x.shape == got.shape and x.is_floating_point()]
            errors = [error(x, got) for x in same]
            assert min(errors, default=0) < ALLOWED, f"{name}: {errors}"


def tensors(result: Any) -> list[torch.Tensor]:
    """Returns the floating-point tensors that a peer returns."""
    several = result if isinstance(result, (list, tuple)) else [result]
    return [x for x in several if isinstance(x, torch.Tensor) and x.is_floating_point()]


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    """Returns the largest difference, of elements that are written, beside the largest of them."""
    written = ~got.isnan()
    difference = (got.double() - want.double())[written].abs().max()
    return (difference / want.double()[written].abs().max()).item()
