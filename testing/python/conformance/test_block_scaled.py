"""T.gemm with scale factors: by tensor cores of Blackwell, elsewhere multiplied before."""

from __future__ import annotations

import pytest
import torch
from conformance.running import poison, run

import tilelang
import tilelang.language as T

BLOCK = 32


def atoms(codes: torch.Tensor) -> torch.Tensor:
    """Factors (rows, blocks) in atoms of 128 by 4: the layout of cuBLAS; pads are zero."""
    rows, blocks = codes.shape
    padded = torch.zeros(-(-rows // 128) * 128, -(-blocks // 4) * 4, dtype=torch.uint8)
    padded[:rows, :blocks] = codes
    tiles = padded.view(-1, 4, 32, padded.shape[1] // 4, 4)
    return tiles.permute(0, 3, 2, 1, 4).reshape(*tiles.shape[::3][:1], tiles.shape[3], 32, 16)


def scaled_gemm(m, n, k, tiles, types, transposed=(False, True), stages=2):
    """C = (A * SA) @ (B * SB) in tiles, with one factor a row and 32 of K."""
    bm, bn, bk = tiles
    trans_a, trans_b = transposed
    a_tile = (bk, bm) if trans_a else (bm, bk)
    b_tile = (bn, bk) if trans_b else (bk, bn)
    ra, rb, groups = -(-bm // 128), -(-bn // 128), -(-bk // 128)

    @T.prim_func
    def main(
        A: T.Tensor((k, m) if trans_a else (m, k), types[0]),
        B: T.Tensor((n, k) if trans_b else (k, n), types[1]),
        SA: T.Tensor((T.ceildiv(m, 128), T.ceildiv(k, 128), 32, 16), T.float8_e8m0fnu),
        SB: T.Tensor((T.ceildiv(n, 128), T.ceildiv(k, 128), 32, 16), T.float8_e8m0fnu),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (bx, by):
            a = T.alloc_shared(a_tile, types[0])
            b = T.alloc_shared(b_tile, types[1])
            sa = T.alloc_shared((ra, groups, 32, 16), T.float8_e8m0fnu)
            sb = T.alloc_shared((rb, groups, 32, 16), T.float8_e8m0fnu)
            c = T.alloc_fragment((bm, bn), T.float32)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                if trans_a:
                    T.copy(A[ko * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, ko * bk], a)
                if trans_b:
                    T.copy(B[bx * bn, ko * bk], b)
                else:
                    T.copy(B[ko * bk, bx * bn], b)
                T.copy(SA[by * ra, ko * groups, 0, 0], sa)
                T.copy(SB[bx * rb, ko * groups, 0, 0], sb)
                T.gemm(a, b, c, trans_a, trans_b, scale_A=sa, scale_B=sb)
            T.copy(c, C[by * bm, bx * bn])

    return main


class Case:
    """Random operands of a gemm and what must come out, in float64."""

    def __init__(self, m, n, k, types=("float8_e4m3fn", "float8_e5m2"), transposed=(False, True)):
        a, b = (
            torch.randn(rows, k).to(getattr(torch, kind))
            for rows, kind in zip((m, n), types, strict=True)
        )
        sa, sb = (torch.randint(118, 136, (rows, -(-k // BLOCK))).byte() for rows in (m, n))
        exact_a, exact_b = (self._exact(x, codes) for x, codes in ((a, sa), (b, sb)))
        self.expected = exact_a @ exact_b.T
        # Sums are rounded by the size of their terms, not of themselves.
        self.size = exact_a.abs() @ exact_b.abs().T
        a = a.T.contiguous() if transposed[0] else a
        b = b if transposed[1] else b.T.contiguous()
        self.codes = sa, sb
        scales = (atoms(codes).view(torch.float8_e8m0fnu) for codes in (sa, sb))
        self.c = poison(m, n)
        self.args = [a, b, *scales, self.c]

    @staticmethod
    def _exact(values, codes):
        factors = torch.exp2(codes.double() - 127)
        return values.double() * factors.repeat_interleave(BLOCK, 1)[:, : values.shape[1]]

    def check(self):
        assert bool(((self.c.double() - self.expected).abs() <= 1e-5 * self.size).all())


MIXED = ("float8_e4m3fn", "float8_e5m2")


def test_one_block_of_every_target(target: str) -> None:
    case = Case(128, 128, 128, MIXED)
    run(scaled_gemm(128, 128, 128, (128, 128, 128), MIXED), target, *case.args)
    case.check()


@pytest.mark.every_schedule
@pytest.mark.parametrize("tiles", [(128, 256, 256), (256, 128, 128)])
def test_ragged_extents(tiles: tuple[int, int, int]) -> None:
    """Several atoms along each dimension; the last ones are not full."""
    case = Case(144, 272, 416, MIXED)
    run(scaled_gemm(144, 272, 416, tiles, MIXED), "sm_100a", *case.args)
    case.check()


@pytest.mark.parametrize("transposed", [(True, True), (False, False)])
def test_operands_that_are_not_k_major(transposed: tuple[bool, bool]) -> None:
    types = MIXED[::-1]
    case = Case(128, 96, 288, types, transposed)
    run(scaled_gemm(128, 96, 288, (128, 128, 128), types, transposed), "sm_100a", *case.args)
    case.check()


@pytest.mark.every_schedule
def test_waits_of_the_program() -> None:
    """C in tensor memory, A in tensor memory, threads that load the factors, an mbarrier."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 256), MIXED[0]),
        B: T.Tensor((128, 256), MIXED[1]),
        SA: T.Tensor((1, 2, 512), T.float8_e8m0fnu),
        SB: T.Tensor((1, 2, 512), T.float8_e8m0fnu),
        C: T.Tensor((128, 128), T.float32),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((128, 128), MIXED[0])
            b = T.alloc_shared((128, 128), MIXED[1])
            sa = T.alloc_shared((512,), T.float8_e8m0fnu)
            sb = T.alloc_shared((1, 1, 512), T.float8_e8m0fnu)
            a_tmem = T.alloc_tmem((128, 128), MIXED[0])
            c = T.alloc_tmem((128, 128), T.float32)
            done = T.alloc_barrier(1)
            for k in T.serial(2):
                T.copy(A[0, k * 128], a)
                T.copy(a, a_tmem)
                T.copy(B[0, k * 128], b)
                for i in T.Parallel(512):
                    sa[i] = SA[0, k, i]
                T.copy(SB[0, k, 0], sb)
                T.gemm(a_tmem, b, c, transpose_B=True, clear_accum=k == 0, mbar=done,
                       scale_A=sa, scale_B=sb)  # fmt: skip
                T.mbarrier_wait_parity(done, k % 2)
            T.copy(c, C)

    case = Case(128, 128, 256, MIXED)
    run(main, "sm_100a", *(x.view(1, 2, 512) if x.ndim == 4 else x for x in case.args))
    case.check()


def words(codes: torch.Tensor) -> torch.Tensor:
    """Factors (rows, blocks) as words (blocks / 4, rows) of four blocks, the lowest byte first."""
    padded = torch.zeros(codes.shape[0], -(-codes.shape[1] // 4) * 4, dtype=torch.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded.view(torch.uint32).T.contiguous()


def gemm_of_rows(m, n, k, tiles, packed, threads=128):
    """C = (A * SA) @ (B * SB) of factors (rows, blocks), or in words (blocks / 4, rows)."""
    bm, bn, bk = tiles
    kind = T.uint32 if packed else T.float8_e8m0fnu
    count = -(-k // 128) if packed else k // BLOCK
    step = bk // 128 if packed else bk // BLOCK

    def shape(rows: int, blocks: int) -> tuple[int, int]:
        return (blocks, rows) if packed else (rows, blocks)

    @T.prim_func
    def main(
        A: T.Tensor((m, k), MIXED[0]),
        B: T.Tensor((n, k), MIXED[1]),
        SA: T.Tensor(shape(m, count), kind),
        SB: T.Tensor(shape(n, count), kind),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared((bm, bk), MIXED[0])
            b = T.alloc_shared((bn, bk), MIXED[1])
            sa = T.alloc_shared(shape(bm, step), kind)
            sb = T.alloc_shared(shape(bn, step), kind)
            c = T.alloc_fragment((bm, bn), T.float32)
            T.clear(c)
            for ko in T.Pipelined(T.ceildiv(k, bk), num_stages=2):
                T.copy(A[by * bm, ko * bk], a)
                T.copy(B[bx * bn, ko * bk], b)
                if packed:
                    T.copy(SA[ko * step, by * bm], sa)
                    T.copy(SB[ko * step, bx * bn], sb)
                else:
                    T.copy(SA[by * bm, ko * step], sa)
                    T.copy(SB[bx * bn, ko * step], sb)
                T.gemm(a, b, c, transpose_B=True, scale_A=sa, scale_B=sb)
            T.copy(c, C[by * bm, bx * bn])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("packed", [False, True])
def test_factors_in_rows(packed: bool) -> None:
    """As checkpoints have them, and as DeepGEMM; N and K of a tile are no multiples of an atom."""
    tiles = (128, 96, 128) if packed else (128, 96, 64)
    case = Case(144, 104, 288, MIXED)
    main = gemm_of_rows(144, 104, 288, tiles, packed)
    form = words if packed else (lambda codes: codes.view(torch.float8_e8m0fnu))
    run(main, "sm_100a", *case.args[:2], *map(form, case.codes), case.c)
    case.check()


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_factors_in_rows_elsewhere(target: str) -> None:
    case = Case(128, 128, 128, MIXED)
    main = gemm_of_rows(128, 128, 128, (128, 128, 128), False)
    factors = (codes.view(torch.float8_e8m0fnu) for codes in case.codes)
    run(main, target, *case.args[:2], *factors, case.c)
    case.check()


@pytest.mark.parametrize(
    ("tiles", "threads"), [((128, 96, 160), 128), ((256, 64, 128), 256), ((128, 8, 32), 128)]
)
def test_ragged_extents_by_mma(tiles: tuple[int, int, int], threads: int) -> None:
    """On RTX 50: warps with one and several registers of factors; K of 5 blocks."""
    case = Case(144, 272, 416, MIXED)
    main = gemm_of_rows(144, 272, 416, tiles, False, threads)
    given = [codes.view(torch.float8_e8m0fnu) for codes in case.codes]
    run(main, "sm_120a", *case.args[:2], *given, case.c)
    case.check()


def test_instructions_of_rtx() -> None:
    kernel = tilelang.compile(scaled_gemm(128, 128, 128, (128,) * 3, MIXED), target="sm_120a")
    assert "kind::mxf8f6f4.block_scale" in kernel.get_ptx()
