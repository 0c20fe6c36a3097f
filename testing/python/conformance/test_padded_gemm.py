"""T.gemm of padded tiles of float6 and float4, beside each other and float8, without factors."""

from __future__ import annotations

import pytest
from conformance.running import poison, run
from conformance.test_block_scaled_mixed import KINDS, SMALL, matrix, tile

import tilelang
import tilelang.language as T


def gemm_of(m, n, k, tiles, kinds, stages=2, ctas=1, threads=128):
    """C = A @ B^T; where both are float8 it is another gemm."""
    bm, bn, bk = tiles
    of_a, of_b = kinds

    @T.prim_func
    def main(A: T.Tensor((m, k), of_a), B: T.Tensor((n, k), of_b), C: T.Tensor((m, n), T.float32)):
        with T.Kernel(
            T.ceildiv(m, bm * ctas) * ctas, T.ceildiv(n, bn), threads=threads, cluster_dims=ctas
        ) as (by, bx):
            a = tile((bm, bk), of_a)
            b = tile((bn // ctas, bk), of_b)
            c = T.alloc_fragment((bm, bn), T.float32)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, ko * bk], a)
                T.copy(B[bx * bn + by % ctas * (bn // ctas), ko * bk], b)
                T.gemm(a, b, c, transpose_B=True, use_2cta=ctas == 2)
            T.copy(c, C[by * bm, bx * bn])

    return main


def check(target, m, n, k, tiles, kinds, **options):
    (a, exact_a), (b, exact_b) = (matrix(x, r, k) for x, r in zip(kinds, (m, n), strict=True))
    c = poison(m, n)
    run(gemm_of(m, n, k, tiles, kinds, **options), target, a, b, c)
    size = exact_a.abs() @ exact_b.abs().T
    assert bool(((c.double() - exact_a @ exact_b.T).abs() <= 1e-5 * size).all())


@pytest.mark.parametrize("of_b", KINDS)
@pytest.mark.parametrize("of_a", SMALL)
def test_types_beside_each_other(of_a: str, of_b: str, target: str) -> None:
    """By bfloat16 where no tensor core has them."""
    check(target, 136, 72, 256, (128, 64, 128), (of_a, of_b))


@pytest.mark.every_schedule
@pytest.mark.parametrize("of_a", KINDS)
@pytest.mark.parametrize("tiles", [(64, 40, 128), (128, 256, 256), (256, 64, 128)])
def test_shapes_of_tcgen05(of_a: str, tiles: tuple[int, int, int]) -> None:
    check("sm_100a", 144, 264, 384, tiles, (of_a, "float6_e3m2fn"))


@pytest.mark.every_schedule
def test_pairs() -> None:
    check("sm_100a", 300, 256, 384, (128, 256, 128), ("float4_e2m1fn", "float8_e5m2"), ctas=2)


def test_instructions() -> None:
    main = gemm_of(128, 64, 256, (128, 64, 128), ("float4_e2m1fn", "float6_e2m3fn"))
    assert "kind::f8f6f4" in tilelang.compile(main, target="sm_100a").get_ptx()
    kernel = tilelang.compile(main, target="sm_120a")
    assert any("converts its padded tiles to bfloat16" in str(r) for r in kernel.remarks)
