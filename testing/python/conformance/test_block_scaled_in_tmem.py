"""Block-scaled gemms on Blackwell whose A, packed float4, lies in tensor memory."""

from __future__ import annotations

import pytest
import torch
from conformance.running import poison, run
from conformance.test_block_scaled_fp4 import BLOCKS, KINDS, Case, value_of

import tilelang
import tilelang.language as T


def gemm_of(m, n, k, tiles, kind, ctas=1):
    """C = (A * SA) @ (B * SB)^T; tiles of A come to tensor memory from shared memory."""
    bm, bn, bk = tiles
    block = BLOCKS[kind]

    @T.prim_func
    def main(
        A: T.Tensor((m, k), T.float4_e2m1fn),
        B: T.Tensor((n, k), T.float4_e2m1fn),
        SA: T.Tensor((m, k // block), kind),
        SB: T.Tensor((n, k // block), kind),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(
            T.ceildiv(m, bm * ctas) * ctas, T.ceildiv(n, bn), threads=128, cluster_dims=ctas
        ) as (by, bx):
            a = T.alloc_shared((bm, bk), T.float4_e2m1fn, packed=True)
            a_tmem = T.alloc_tmem((bm, bk), T.float4_e2m1fn, packed=True)
            b = T.alloc_shared((bn // ctas, bk), T.float4_e2m1fn, packed=True)
            sa = T.alloc_shared((bm, bk // block), kind)
            sb = T.alloc_shared((bn, bk // block), kind)
            c = T.alloc_tmem((bm, bn), T.float32)
            for ko in T.serial(T.ceildiv(k, bk)):
                T.copy(A[by * bm, ko * bk], a)
                T.copy(B[bx * bn + by % ctas * (bn // ctas), ko * bk], b)
                T.copy(SA[by * bm, ko * (bk // block)], sa)
                T.copy(SB[bx * bn, ko * (bk // block)], sb)
                T.copy(a, a_tmem)
                T.gemm(
                    a_tmem, b, c, transpose_B=True, clear_accum=ko == 0, scale_A=sa, scale_B=sb,
                    use_2cta=ctas == 2,
                )  # fmt: skip
            for j in T.unroll(0, bn, 32):
                T.copy(c[:, j : j + 32], C[by * bm, bx * bn + j])

    return main


@pytest.mark.every_schedule
@KINDS
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize(
    ("shape", "tiles"),
    [((128, 64, 256), (128, 64, 256)), ((144, 104, 320), (128, 96, 128)),
     ((300, 72, 768), (256, 64, 768))],
)  # fmt: skip
def test_a_in_tensor_memory(shape, tiles, kind, target) -> None:
    case = Case(*shape, kind)
    run(gemm_of(*shape, tiles, kind), target, case.a, case.b, *case.rows, case.c)
    case.check()


@pytest.mark.every_schedule
@KINDS
def test_pairs(kind) -> None:
    case = Case(300, 128, 384, kind)
    run(gemm_of(300, 128, 384, (128, 128, 128), kind, ctas=2), "sm_100a", case.a, case.b,
        *case.rows, case.c)  # fmt: skip
    case.check()


def test_instructions() -> None:
    kernel = tilelang.compile(
        gemm_of(128, 64, 256, (128, 64, 256), "float8_e8m0fnu"), target="sm_100a"
    )
    assert "tcgen05_mma_scaled_ts<tl::UmmaKind::mxf4>" in kernel.get_kernel_source()
    assert "tcgen05.cp.cta_group::1.128x" in kernel.get_ptx()  # a copy of bytes as they lie


def test_threads_read_it() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 192), T.float4_e2m1fn), C: T.Tensor((128, 192), T.float32)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 192), T.float4_e2m1fn, packed=True)
            a_tmem = T.alloc_tmem((128, 192), T.float4_e2m1fn, packed=True)
            values = T.alloc_fragment((128, 192), T.float32)
            T.copy(A, a)
            T.copy(a, a_tmem)
            T.copy(a_tmem, values)
            T.copy(values, C)

    codes, found = torch.randint(0, 256, (128, 96)).byte(), poison(128, 192)
    run(main, "sm_100a", codes, found)
    assert torch.equal(found.double(), value_of(codes))
