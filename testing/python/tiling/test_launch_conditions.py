"""Blocks that compute tiles in turn, in launches that the host leaves out in some calls."""

from __future__ import annotations

import pytest
import torch
from tiling.gemms import plain_gemm

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count


@pytest.mark.parametrize("depth", [100, 104])
@pytest.mark.parametrize(
    ("target", "sms", "sizes"),
    [("sm_100a", 2, (384, 256)), ("sm_100a", 148, (40, 32)), ("sm_90a", 4, (256, 1280))],
)
def test_rows_of_any_length(target, sms, sizes, depth):
    """Rows of 100 elements are no multiple of 16 bytes, so that TMA cannot load them."""
    options = {"tl.disable_row_realignment": True}
    few = with_sm_count(resolve(target), sms)
    kernel = tilelang.compile(
        plain_gemm(*sizes, T.dynamic("depth"), threads=256, stages=3, dtype="float16"),
        target=few,
        pass_configs=options,
    )
    torch.manual_seed(0)
    a, b = (torch.randn(size, depth).half() for size in sizes)
    c = torch.full(sizes, float("nan")).half()
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2e-3, atol=2e-2)


def test_the_verifier_runs_blocks_that_exist():
    """A kernel for at most 32 rows has one row of blocks, whose loops end after one iteration."""
    rows = T.dynamic("rows")

    @T.prim_func
    def main(
        A: T.Tensor((rows, 24), "bfloat16"),
        B: T.Tensor((24, 128), "bfloat16"),
        C: T.Tensor((rows, 128), "float32"),
    ):
        with T.Kernel(1, T.ceildiv(rows, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 16), "bfloat16")
            b = T.alloc_shared((16, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(T.min(by + 1, 2), num_stages=3):
                T.copy(A[by * 128, k * 16], a)
                T.copy(B[k * 16, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    tilelang.compile(
        main,
        target=with_sm_count(resolve("sm_90a"), 16),
        pass_configs={"tl.verify_synchronization": True},
    )


def test_the_verifier_calls_launches_with_sizes_that_they_are_for():
    """The version for long K loads without conditions, and is for N of a certain rest."""
    N, K = T.dynamic("N"), T.dynamic("K")

    @T.prim_func
    def main(
        A: T.Tensor((192, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((192, N - 5), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, 128), 2, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            c_tile = T.alloc_shared((128, 128), "bfloat16")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=4):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, c_tile)
            T.copy(c_tile, C[by * 128, bx * 128])

    tilelang.compile(
        main,
        target=with_sm_count(resolve("sm_80"), 1),
        pass_configs={"tl.verify_synchronization": True},
    )
