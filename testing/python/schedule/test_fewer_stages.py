"""Loops whose stages do not fit shared memory get fewer."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ["sm_80", "sm_90a", "sm_100a"]


def gemm(M: int, N: int, K: int, tile: tuple[int, int, int], stages: int, masked: bool = False):
    bm, bn, bk = tile

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=256) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                if masked:
                    for i, j in T.Parallel(bm, bk):
                        a[i, j] = T.if_then_else(
                            by * bm + i < M and k * bk + j < K, A[by * bm + i, k * bk + j], 0
                        )
                else:
                    T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def check(kernel, M: int, N: int, K: int) -> None:
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    c = torch.full((M, N), float("nan"))
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-2, atol=1e-2)


def fitted(kernel) -> list[str]:
    return [r.message for r in kernel.remarks if "do not fit shared memory" in r.message]


# One stage takes 64 KiB.
TILE = (128, 128, 128)
PLAIN = {"tl.disable_block_fitting": True, "tl.disable_tile_choice": True}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_as_many_stages_as_fit(target, masked):
    M, N, K = 130, 72, 410
    kernel = tilelang.compile(gemm(M, N, K, TILE, 6, masked), target=target, pass_configs=PLAIN)
    left = 2 if target == "sm_80" else 3
    assert any(f"num_stages=6 becomes {left}" in text for text in fitted(kernel))
    check(kernel, M, N, K)


@pytest.mark.parametrize("target", TARGETS)
def test_what_fits_keeps_its_stages(target):
    kernel = tilelang.compile(gemm(130, 72, 410, TILE, 2), target=target, pass_configs=PLAIN)
    assert not fitted(kernel)
    check(kernel, 130, 72, 410)


@pytest.mark.parametrize("target", TARGETS)
def test_kept_stages_are_refused(target):
    configs = {**PLAIN, "tl.keep_stages": True}
    with pytest.raises(errors.ResourceError, match="bytes of shared memory"):
        tilelang.compile(gemm(130, 72, 410, TILE, 6), target=target, pass_configs=configs)


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_too_large_for_one_stage_is_refused(target):
    """The error tells the bytes of the stages that the program asks for."""
    program = gemm(512, 512, 512, (512, 128, 512), 2)
    with pytest.raises(errors.ResourceError, match="bytes of shared memory"):
        tilelang.compile(program, target=target, pass_configs=PLAIN)


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_loop_with_the_most_stages_changes(target):
    rows, columns = 64, 128  # 32 KiB a tile

    @T.prim_func
    def kernel(A: T.Tensor((640, columns), "float32"), B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((rows, columns), "float32")
            y = T.alloc_shared((rows, columns), "float32")
            total = T.alloc_fragment((rows, columns), "float32")
            T.clear(total)
            for k in T.Pipelined(10, num_stages=8):
                T.copy(A[k * rows, 0], x)
                for i, j in T.Parallel(rows, columns):
                    total[i, j] += x[i, j]
            for k in T.Pipelined(10, num_stages=2):
                T.copy(A[k * rows, 0], y)
                for i, j in T.Parallel(rows, columns):
                    total[i, j] += 2 * y[i, j]
            T.copy(total, B)

    compiled = tilelang.compile(kernel, target=target)
    a, b = torch.randint(-8, 8, (640, columns)).float(), torch.full((rows, columns), float("nan"))
    compiled(a, b)
    assert torch.equal(b, 3 * a.view(10, rows, columns).sum(0))
    assert all("num_stages=8 becomes" in text for text in fitted(compiled))
