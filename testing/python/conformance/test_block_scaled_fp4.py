"""T.gemm of float4_e2m1fn with scale factors: mxfp4 and nvfp4; elsewhere multiplied before."""

from __future__ import annotations

import pytest
import torch
from conformance.running import poison, run
from conformance.test_block_scaled import atoms, words

import tilelang.language as T

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
#: Elements that share a factor, by the type of that.
BLOCKS = {"float8_e8m0fnu": 32, "float8_e4m3fn": 16}
KINDS = pytest.mark.parametrize("kind", BLOCKS, ids=["mxfp4", "nvfp4"])


def value_of(codes: torch.Tensor) -> torch.Tensor:
    """Bytes (rows, K / 2) as floats (rows, K), the low half first."""
    nibbles = torch.stack([codes & 15, codes >> 4], 2).flatten(1).int()
    return E2M1[nibbles & 7] * (1 - 2 * (nibbles >> 3))


class Case:
    """Random operands of a gemm of rows (m, k), (n, k), and what must come out, in float64."""

    def __init__(self, m: int, n: int, k: int, kind: str) -> None:
        block, scale_type = BLOCKS[kind], getattr(torch, kind)
        self.a, self.b = (torch.randint(0, 256, (rows, k // 2)).byte() for rows in (m, n))
        if block == 32:
            codes = [torch.randint(118, 136, (rows, k // block)).byte() for rows in (m, n)]
        else:
            values = [torch.rand(rows, k // block) * 10 for rows in (m, n)]
            codes = [x.to(scale_type).view(torch.uint8) for x in values]
        exact = [
            value_of(x) * factors.view(scale_type).double().repeat_interleave(block, 1)
            for x, factors in zip((self.a, self.b), codes, strict=True)
        ]
        self.rows = [x.view(scale_type) for x in codes]
        self.words = [words(x) for x in codes]
        self.atoms = [atoms(x).view(scale_type) for x in codes]
        self.expected = exact[0] @ exact[1].T
        self.size = exact[0].abs() @ exact[1].abs().T
        self.c = poison(m, n)

    def check(self) -> None:
        assert bool(((self.c.double() - self.expected).abs() <= 1e-5 * self.size).all())


def gemm_of(m, n, k, tiles, kind, form="atoms", stages=2, ctas=1):
    """C = (A * SA) @ (B * SB)^T of packed rows; of ``ctas`` blocks that compute together."""
    bm, bn, bk = tiles
    block = BLOCKS[kind]
    depth, step = 4 * block, bk // (4 * block)
    shapes = {
        "atoms": lambda rows, blocks: (-(-rows // 128), -(-blocks // 4), 32, 16),
        "rows": lambda rows, blocks: (rows, blocks),
        "words": lambda rows, blocks: (-(-blocks // 4), rows),
    }
    shape, dtype = shapes[form], "uint32" if form == "words" else kind

    @T.prim_func
    def main(
        A: T.Tensor((m, k), T.float4_e2m1fn),
        B: T.Tensor((n, k), T.float4_e2m1fn),
        SA: T.Tensor(shape(m, k // block), dtype),
        SB: T.Tensor(shape(n, k // block), dtype),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(
            T.ceildiv(m, bm * ctas) * ctas, T.ceildiv(n, bn), threads=128, cluster_dims=ctas
        ) as (by, bx):
            a = T.alloc_shared((bm, bk), T.float4_e2m1fn, packed=True)
            b = T.alloc_shared((bn // ctas, bk), T.float4_e2m1fn, packed=True)
            half = by % ctas * (bn // ctas)
            sa = T.alloc_shared(shape(bm, bk // block), dtype)
            sb = T.alloc_shared(shape(bn, bk // block), dtype)
            c = T.alloc_fragment((bm, bn), T.float32)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, ko * bk], a)
                T.copy(B[bx * bn + half, ko * bk], b)
                if form == "atoms":
                    T.copy(SA[by * (bm // 128), ko * step, 0, 0], sa)
                    T.copy(SB[bx * (bn // 128), ko * step, 0, 0], sb)
                elif form == "rows":
                    T.copy(SA[by * bm, ko * (bk // block)], sa)
                    T.copy(SB[bx * bn, ko * (bk // block)], sb)
                else:
                    T.copy(SA[ko * (bk // depth), by * bm], sa)
                    T.copy(SB[ko * (bk // depth), bx * bn], sb)
                T.gemm(a, b, c, transpose_B=True, scale_A=sa, scale_B=sb, use_2cta=ctas == 2)
            T.copy(c, C[by * bm, bx * bn])

    return main


@KINDS
def test_one_block_of_every_target(target: str, kind: str) -> None:
    case = Case(128, 128, 256, kind)
    main = gemm_of(128, 128, 256, (128, 128, 256), kind)
    run(main, target, case.a, case.b, *case.atoms, case.c)
    case.check()


@pytest.mark.every_schedule
@KINDS
@pytest.mark.parametrize("tiles", [(128, 256, 256), (256, 128, 128)])
def test_ragged_extents(tiles: tuple[int, int, int], kind: str) -> None:
    """Several atoms along each dimension; the last ones are not full."""
    case = Case(144, 272, 416, kind)
    main = gemm_of(144, 272, 416, tiles, kind)
    run(main, "sm_100a", case.a, case.b, *case.atoms, case.c)
    case.check()


@pytest.mark.parametrize(("kind", "form"), [
    ("float8_e8m0fnu", "rows"), ("float8_e8m0fnu", "words"), ("float8_e4m3fn", "rows"),
])  # fmt: skip
@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_factors_in_rows(kind: str, form: str, target: str) -> None:
    """As checkpoints have them; N of a tile is no multiple of an atom."""
    case = Case(144, 104, 384, kind)
    main = gemm_of(144, 104, 384, (128, 96, 128), kind, form)
    run(main, target, case.a, case.b, *getattr(case, form), case.c)
    case.check()


@pytest.mark.every_schedule
@KINDS
def test_pairs(kind: str) -> None:
    """Each block of a pair has its rows of A, half of the columns of B, and the factors of all."""
    case = Case(300, 256, 640, kind)
    main = gemm_of(300, 256, 640, (128, 256, 256), kind, ctas=2)
    run(main, "sm_100a", case.a, case.b, *case.atoms, case.c)
    case.check()


def test_pairs_with_factors_in_rows() -> None:
    """Threads of both blocks bring them into atoms."""
    case = Case(256, 128, 384, "float8_e4m3fn")
    main = gemm_of(256, 128, 384, (128, 128, 128), "float8_e4m3fn", "rows", ctas=2)
    run(main, "sm_100a", case.a, case.b, *case.rows, case.c)
    case.check()
