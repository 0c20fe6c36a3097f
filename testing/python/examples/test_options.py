"""What newcomers type: a call of a script works, or ends in a sentence that says what to give."""

from __future__ import annotations

import pytest
from examples.running import run

from tilelang import emulator
from tilelang.target import resolve

#: a script's arguments, and what it says of them
REFUSED = {
    "convolution/conv2d --kernel 77": "--kernel reaches beyond the image: give less, or more --pad",
    "convolution/conv2d --stride 0": "--stride is 0: give at least 1",
    "elementwise/add --rows 0": "--rows is 0: give at least 1",
    "elementwise/add --dtype float17": "invalid choice: 'float17'",
    "epilogue/rotary_gemm --dim 77": "argument --dim: invalid choice: 77",
    "flash_attention/attention_backward --dim 77": "--dim is 77: give a multiple of 8, at most 128",
    "flash_attention/attention_backward --keys 1": "--keys is 1, and gradients",
    "flash_attention/attention_forward --dim_v 200": "--dim_v is 200: give at most --dim",
    "flash_attention/attention_forward --heads 3 --kv_heads 2": "2 does not divide 3",
    "flash_attention/attention_persistent --dim 257": "--dim is 257: give at most 256",
    "flash_attention/attention_varlen --lengths 0 0": "--lengths are all 0: give one sequence",
    "flash_attention/attention_varlen --lengths 5 -1": "--lengths has -1: give at least 0",
    "flash_attention/flash_decoding --kv_heads 3": "--kv_heads must divide --heads: 3 does not",
    "flash_attention/mla_decode --latent 77": "--latent is 77: give a multiple of 256",
    "flash_attention/mla_sparse_decode --keys 77": "--k is 128: give at most --keys, 77",
    "flash_attention/mla_sparse_decode --selected 200": "--selected has 200: give at most --k, 128",
    "flash_attention/native_sparse_attention --heads 3": "give a multiple of 32 for --heads",
    "flash_attention/paged_decoding_fp8 --kv_heads 3": "--kv_heads must divide --heads: 3 does not",
    "flash_attention/paged_decoding_fp8 --page 77": "--page is 77: give a multiple of 16",
    "gemm/gemm_dequantize --k 100": "--k is 100: give a multiple of 64",
    "gemm/gemm_fp8 --promote_every 77": "argument --promote_every: invalid choice: 77",
    "gemm/gemm_nvfp4 --k 100": "--k is 100: give a multiple of 32",
    "gemm/gemm_sparse --k 100": "--k is 100: give a multiple of 64",
    "gemm/gemm_stream_k --shared 77": "--shared is 77: give at most the 6 tiles",
    "gemm/grouped_gemm --sizes 0": "--sizes are all 0: give one group a row",
    "gemm/grouped_gemm_masked --counts 300": "--counts has 300: give at most --rows, 200",
    "gemm_sm100/attention --queries 100": "--queries is 100: give a multiple of 128",
    "gemm_sm100/gemm_chained --s 77": "--s is 77: give a multiple of 32",
    "gemm_sm90/gemm_multicast --grid 3": "--grid is 3: give a multiple of --blocks, 2",
    "gemm_sm90/gemm_multicast --m 300": "--m is 300: give a multiple of 256",
    "hadamard/hadamard --n 300": "argument --n: invalid choice: 300",
    "moe/fused_moe --k 9": "--k is 9: give at most --experts",
    "moe/fused_moe_nvfp4 --k 9": "--k is 9: give at most --experts",
    "norm/group_norm --groups 5": "--groups is 5: give a divisor of --channels",
    "norm/group_norm_backward --groups 5": "--groups is 5: give a divisor of --channels",
    "quantize/rms_norm_quantize --columns 20000": "--columns is 20000: give at most 16384",
    "quantize/swiglu_quantize --columns 77": "--columns is 77: give a multiple of 32",
    "reductions/argmax --k 77": "--k is 77: give at most 16",
    "stream/viewer_pyramid --side 77": "--side is 77: give a multiple of 8",
    "topk/sampling --k 3001": "--k is 3001: give at most --vocabulary",
    "topk/sampling --p 2": "--p is 2.0: give a share above 0, up to 1",
    "topk/sampling --temperature 0": "--temperature is 0.0: give a number above 0",
    "topk/topk --k 201": "--k is 201: give at most --columns",
}
#: empty sequences and groups, queries that see no key, gemms of few products
SMALL = [
    "flash_attention/attention_backward --queries 70 --keys 9 --dim 16 --heads 1 --causal",
    "flash_attention/attention_backward_added --queries 70 --keys 9 --dim 16 --heads 1 --causal",
    "flash_attention/attention_forward --queries 300 --keys 9 --dim 16 --heads 1 --causal",
    "flash_attention/attention_persistent --queries 300 --keys 9 --dim 16 --heads 1 --causal",
    "flash_attention/attention_varlen --lengths 0 5 --dim 16 --heads 1",
    "flash_attention/attention_window --queries 300 --keys 9 --dim 16 --heads 1 --no_sink",
    "flash_attention/flash_decoding --lengths 0",
    "flash_attention/flash_decoding --lengths 0 9 --splits 3",
    "flash_attention/mla_decode --lengths 0 9 --heads 1",
    "flash_attention/mla_sparse_decode --selected 0 9 --k 9 --heads 1",
    "flash_attention/paged_decoding_fp8 --lengths 0 9 --dim 16",
    "flash_attention/sparse_indexer --lengths 0 9 --k 3",
    "gemm/gemm_fp8 --m 300 --n 77 --k 128",
    "gemm/gemm_fp8 --m 300 --n 77 --k 32 --promote_every 0",
    "gemm/gemm_fp8_block_scaled --m 300 --n 77 --k 128",
    "gemm/grouped_gemm_masked --counts 0",
    "quantize/rms_norm_quantize --format fp8 --rows 9 --columns 128",
    "stream/memory_over_time --rows 8",
    "topk/sampling --vocabulary 1 --k 1",
]


@pytest.mark.parametrize("call", REFUSED)
def test_options_that_do_not_fit_are_refused(monkeypatch, capsys, call):
    script, *arguments = call.split()
    with pytest.raises(SystemExit) as end:
        run(monkeypatch, script, *arguments, "--device", "cpu")
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert REFUSED[call] in said.splitlines()[-1]


@pytest.mark.parametrize("call", SMALL)
def test_extremes_work(monkeypatch, capsys, call):
    script, *arguments = call.split()
    schedule = ("late", "eager", 1)[SMALL.index(call) % 3]
    with emulator.options(schedule=schedule):
        run(monkeypatch, script, *arguments, "--target", "sm_90a", "--device", "cpu")
    assert capsys.readouterr().out.endswith("correct\n")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit):
        run(monkeypatch, "elementwise/add", "--device", "cuda")
    assert "--device is cuda, but torch finds no GPU: give cpu" in capsys.readouterr().err


def test_a_gpu_that_the_kernel_is_not_for_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("tilelang.tools.example.device_target", lambda: resolve("sm_90a"))
    with pytest.raises(SystemExit):
        run(monkeypatch, "moe/fused_moe_nvfp4", "--device", "cuda")
    refusal = "this GPU is sm_90a and the kernel is for sm_100a: give cpu, the emulator"
    assert refusal in capsys.readouterr().err
