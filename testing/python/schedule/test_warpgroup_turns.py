"""Warpgroups issue their gemms in turn where functions take long beside the tensor cores."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T

PATH = Path(__file__).parents[3] / "examples" / "flash_attention" / "attention_forward.py"
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
REMARK = "warpgroups issue the gemms of an iteration in turn"


def attention(dim, block_M, block_N, threads, causal=True, configs=None):
    example = runpy.run_path(str(PATH))
    shape = example["Shape"](1, 300, 500, 2, 1, dim, dim)
    function = example["attention"](shape, causal, "bfloat16", block_M, block_N, threads, 2)
    configs = example["PASS_CONFIGS"] | (configs or {})
    return example, tilelang.compile(function, target="sm_90a", pass_configs=configs)


def takes_turns(kernel) -> bool:
    told = any(REMARK in remark.message for remark in kernel.remarks)
    assert told == ("mbarrier_init(turn[1]" in kernel.get_kernel_source())
    return told


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", [(128, 64, 256), (192, 128, 384), (256, 64, 512)], ids=str)
def test_results(tiles, causal, device):
    example, kernel = attention(64, *tiles, causal)
    assert takes_turns(kernel)
    q, k, v = (torch.randn(1, n, h, 64).bfloat16() for n, h in ((300, 2), (500, 1), (500, 1)))
    want, _ = example["reference"](q, k, v, causal)
    out = torch.full(want.shape, float("nan"), device=device).bfloat16()
    lse = torch.full((1, 2, 300), float("nan"), device=device)
    kernel(*(x.to(device) for x in (q, k, v)), out, lse)
    assert (out.cpu().double() - want).norm() < 4e-3 * want.norm()


def test_barriers_stay_uniform():
    """The index of the warp is known to be uniform, that of the thread is not."""
    source = attention(64, 192, 128, 384)[1].get_kernel_source()
    assert "mbarrier_wait(turn[warp >> 2]" in source
    assert "turn[tx" not in source


@pytest.mark.parametrize(
    ("dim", "tiles"),
    [(256, (128, 64, 256)), (64, (64, 64, 128))],
    ids=["the tensor cores have more to do", "one warpgroup"],
)
def test_where_there_are_none(dim, tiles):
    assert not takes_turns(attention(dim, *tiles)[1])


def test_they_can_be_turned_off():
    configs = {tilelang.PassConfigKey.TL_DISABLE_WARPGROUP_TURNS: True}
    assert takes_turns(attention(64, 128, 64, 256)[1])
    assert not takes_turns(attention(64, 128, 64, 256, configs=configs)[1])


def test_gemms_without_functions_between_them_have_none():
    @T.prim_func
    def main(A: T.Tensor((128, 256), "bfloat16"), B: T.Tensor((64, 256), "bfloat16"),
             C: T.Tensor((64, 256), "bfloat16"), D: T.Tensor((128, 64), "float32")):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            b, c = (T.alloc_shared((64, 64), "bfloat16") for _ in range(2))
            d, e = (T.alloc_fragment((128, 64), "float32") for _ in range(2))
            T.clear(d)
            T.clear(e)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.copy(C[0, k * 64], c)
                T.gemm(a, b, d, transpose_B=True)
                T.gemm(a, c, e, transpose_B=True)
            for i, j in T.Parallel(128, 64):
                d[i, j] *= e[i, j]
            T.copy(d, D)

    assert not takes_turns(tilelang.compile(main, target="sm_90a"))


def scores_by_columns(who: str, policy, N: int = 64, steps: int = 3):
    """Sums of exp2 of scores by V; ``who`` says what threads write for the gemms of an iteration.

    "K" and "V": these tiles, from what was loaded; "P": the weights; "shift": a column that they
    read between the gemms; "barrier": nothing, but they meet there; "": nothing.
    """

    @T.prim_func
    def main(
        Q: T.Tensor((128, 64), "bfloat16"), K: T.Tensor((steps * N, 64), "bfloat16"),
        V: T.Tensor((steps * N, 64), "bfloat16"), Out: T.Tensor((128, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=256):
            q, p = (T.alloc_shared((128, 64), "bfloat16") for _ in range(2))
            k, v = (T.alloc_shared((N, 64), "bfloat16") for _ in range(2))
            zeros = T.alloc_shared((128,), "float32")
            scores, out = (T.alloc_fragment((128, 64), "float32") for _ in range(2))
            weights = T.alloc_fragment((128, 64), "bfloat16")
            shift = T.alloc_fragment((128,), "float32")
            T.copy(Q, q)
            T.clear(out)
            T.clear(shift)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(K[step * N, 0], k)
                if who == "K":
                    for i, j in T.Parallel(N, 64):
                        k[i, j] = -k[i, j]
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=policy)
                if who == "shift":
                    T.copy(shift, zeros)
                    for i in T.Parallel(128):
                        shift[i] = zeros[127 - i]
                if who == "barrier":
                    T.sync_threads()
                T.copy(V[step * N, 0], v)
                if who == "V":
                    for i, j in T.Parallel(N, 64):
                        v[i, j] = -v[i, j]
                for i, j in T.Parallel(128, N):
                    scores[i, j] = T.exp2(scores[i, j] * 0.125 - shift[i])
                if who == "P":
                    T.copy(scores, p)
                    T.gemm(p, v, out, policy=policy)
                else:
                    T.copy(scores, weights)
                    T.gemm(weights, v, out, policy=policy)
            T.copy(out, Out)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("policy", list(T.GemmWarpPolicy), ids=lambda policy: policy.name)
@pytest.mark.parametrize("who", ["", "K", "V", "P", "shift", "barrier"])
def test_threads_that_wait_for_each_other_take_no_turns(who, policy, device):
    """They would wait at a barrier within the turn, and those without a turn never come there."""
    kernel = tilelang.compile(scores_by_columns(who, policy), target="sm_90a")
    assert takes_turns(kernel) == (who == "")
    q, k, v = (torch.randn(rows, 64).bfloat16() for rows in (128, 192, 192))
    out = torch.full((128, 64), float("nan"), device=device)
    kernel(*(x.to(device) for x in (q, k, v)), out)
    scores = q.double() @ k.double().T * 0.125
    want = torch.exp2(-scores if who == "K" else scores) @ (v.double() * (-1 if who == "V" else 1))
    assert (out.cpu().double() - want).norm() < 4e-3 * want.norm()
