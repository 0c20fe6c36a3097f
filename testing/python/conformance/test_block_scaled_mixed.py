"""T.gemm with scale factors of float8, float6 and float4 beside each other; mxfp6."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import poison, run
from conformance.small_floats import FORMS, pack, values
from conformance.test_block_scaled import atoms

import tilelang
import tilelang.language as T

SMALL = ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
KINDS = ("float8_e4m3fn", "float8_e5m2", *SMALL)


def matrix(dtype: str, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random elements as they lie in a tensor, and their values in float64."""
    if dtype not in SMALL:
        x = torch.randn(rows, columns).to(getattr(torch, dtype))
        return x, x.double()
    bits = FORMS[dtype][0]
    codes = torch.randint(0, 2**bits, (rows, columns))
    return pack(codes, bits), values(dtype)[codes]


class Case:
    """Random operands of a gemm of rows (m, k), (n, k), and what must come out, in float64."""

    def __init__(self, m: int, n: int, k: int, kinds: tuple[str, str]) -> None:
        factors = [torch.randint(120, 134, (rows, k // 32)).byte() for rows in (m, n)]
        found = [matrix(kind, rows, k) for kind, rows in zip(kinds, (m, n), strict=True)]
        self.elements = [x for x, _ in found]
        self.atoms = [atoms(x).view(torch.float8_e8m0fnu) for x in factors]
        exact = [
            x * torch.exp2(s.double() - 127).repeat_interleave(32, 1)
            for (_, x), s in zip(found, factors, strict=True)
        ]
        self.expected = exact[0] @ exact[1].T
        self.size = exact[0].abs() @ exact[1].abs().T
        self.c = poison(m, n)

    def check(self, tolerance: float = 1e-5) -> None:
        assert bool(((self.c.double() - self.expected).abs() <= tolerance * self.size).all())


def tile(shape: tuple[int, int], dtype: str) -> Any:
    return T.alloc_shared(shape, dtype, padded=dtype in SMALL)


def gemm_of(m, n, k, tiles, kinds, stages=2, ctas=1):
    """C = (A * SA) @ (B * SB)^T of tiles whose small elements are padded."""
    bm, bn, bk = tiles
    of_a, of_b = kinds
    atom = (32, 16)

    @T.prim_func
    def main(
        A: T.Tensor((m, k), of_a),
        B: T.Tensor((n, k), of_b),
        SA: T.Tensor((T.ceildiv(m, 128), T.ceildiv(k, 128), *atom), T.float8_e8m0fnu),
        SB: T.Tensor((T.ceildiv(n, 128), T.ceildiv(k, 128), *atom), T.float8_e8m0fnu),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(
            T.ceildiv(m, bm * ctas) * ctas, T.ceildiv(n, bn), threads=128, cluster_dims=ctas
        ) as (by, bx):
            a = tile((bm, bk), of_a)
            b = tile((bn // ctas, bk), of_b)
            half = by % ctas * (bn // ctas)
            sa = T.alloc_shared((bm // 128, bk // 128, *atom), T.float8_e8m0fnu)
            sb = T.alloc_shared((bn // 128, bk // 128, *atom), T.float8_e8m0fnu)
            c = T.alloc_fragment((bm, bn), T.float32)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, ko * bk], a)
                T.copy(B[bx * bn + half, ko * bk], b)
                T.copy(SA[by * (bm // 128), ko * (bk // 128), 0, 0], sa)
                T.copy(SB[bx * (bn // 128), ko * (bk // 128), 0, 0], sb)
                T.gemm(a, b, c, transpose_B=True, scale_A=sa, scale_B=sb, use_2cta=ctas == 2)
            T.copy(c, C[by * bm, bx * bn])

    return main


# Each pair of types meets with the first target (covering.py), whose tensor core takes both as they
# are; on the others one operand is multiplied like the other.
@pytest.mark.parametrize(
    "target",
    ["sm_100a", "sm_80", "sm_90a", pytest.param("cuda", marks=pytest.mark.requires_cuda)],
)
@pytest.mark.parametrize("of_b", KINDS)
@pytest.mark.parametrize("of_a", KINDS)
def test_types_beside_each_other(of_a: str, of_b: str, target: str) -> None:
    """Each with each; multiplied before the gemm where no tensor core has them."""
    case = Case(128, 128, 256, (of_a, of_b))
    main = gemm_of(128, 128, 256, (128, 128, 128), (of_a, of_b))
    run(main, target, *case.elements, *case.atoms, case.c)
    case.check()


@pytest.mark.parametrize("of_b", KINDS)
@pytest.mark.parametrize("of_a", KINDS)
def test_types_by_mma_sync(of_a: str, of_b: str) -> None:
    """ldmatrix takes elements out of their units."""
    case = Case(136, 128, 384, (of_a, of_b))
    main = gemm_of(136, 128, 384, (128, 128, 128), (of_a, of_b))
    run(main, "sm_120a", *case.elements, *case.atoms, case.c)
    case.check()


def test_the_accelerator_pads() -> None:
    """From Blackwell on, where columns are multiples of 128; threads do it elsewhere."""
    kinds = "float6_e2m3fn", "float4_e2m1fn"
    for target, k, reason in (
        ("sm_100a", 256, None),
        ("sm_120a", 256, None),
        ("sm_100a", 288, "the last extent of A is not known to be a multiple of 128 elements of 6"),
        ("sm_90a", 256, "there are tensor maps of padded elements of 6 bits from sm_100 on"),
    ):
        main = gemm_of(128, 128, k, (128, 128, 128), kinds)
        texts = [str(each) for each in tilelang.lower(main, target=target).remarks]
        copies = [text for text in texts if "T.copy(A[" in text or "T.copy(B[" in text]
        by = "by TMA" if reason is None else "by threads"
        assert len(copies) == 2 and all(by in text for text in copies)
        assert reason is None or reason in copies[0]


@pytest.mark.every_schedule
@pytest.mark.parametrize("kinds", [
    ("float6_e3m2fn", "float6_e2m3fn"), ("float8_e4m3fn", "float4_e2m1fn"),
])  # fmt: skip
@pytest.mark.parametrize("tiles", [(128, 256, 128), (256, 128, 256)])
def test_ragged_extents(tiles: tuple[int, int, int], kinds: tuple[str, str]) -> None:
    """The last tiles reach beyond the rows."""
    case = Case(144, 272, 384, kinds)
    main = gemm_of(144, 272, 384, tiles, kinds)
    run(main, "sm_100a", *case.elements, *case.atoms, case.c)
    case.check()


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("kinds", [
    ("float6_e3m2fn", "float6_e2m3fn"), ("float4_e2m1fn", "float8_e5m2"),
])  # fmt: skip
def test_rows_that_threads_load(kinds: tuple[str, str], target: str) -> None:
    """K is no multiple of what a box of the accelerator holds."""
    case = Case(136, 120, 288, kinds)
    main = gemm_of(136, 120, 288, (128, 128, 128), kinds)
    run(main, target, *case.elements, *case.atoms, case.c)
    case.check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("kinds", [
    ("float6_e2m3fn", "float6_e2m3fn"), ("float8_e5m2", "float6_e3m2fn"),
])  # fmt: skip
def test_pairs(kinds: tuple[str, str]) -> None:
    """Each block of a pair has its rows of A, half of the columns of B, and the factors of all."""
    case = Case(300, 256, 384, kinds)
    main = gemm_of(300, 256, 384, (128, 256, 128), kinds, ctas=2)
    run(main, "sm_100a", *case.elements, *case.atoms, case.c)
    case.check()
