"""T.gemm_sp against dense products of what A stands for."""

from __future__ import annotations

import pytest
import torch
from conformance.running import poison, run

import tilelang.language as T
from tilelang.utils.sparse import (
    compress,
    decompress,
    get_e_factor,
    randint_semi_sparse,
    randn_semi_sparse,
)

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8")


def sparse_gemm(m, n, k, tiles, types, meta, transposed=(False, False, True), threads=128,
                stages=2):  # fmt: skip
    """C = A @ B of a sparse A."""
    bm, bn, bk = tiles
    trans_a, trans_e, trans_b = transposed
    e = get_e_factor(types[0], meta)

    def turned(first, second, is_turned):
        return (second, first) if is_turned else (first, second)

    def at(row, column, is_turned):
        return turned(row, column, is_turned)

    @T.prim_func
    def main(
        A: T.Tensor(turned(m, k // 2, trans_a), types[0]),
        E: T.Tensor(turned(m, k // e, trans_e), meta),
        B: T.Tensor(turned(k, n, trans_b), types[1]),
        C: T.Tensor((m, n), types[2]),
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            a = T.alloc_shared(turned(bm, bk // 2, trans_a), types[0])
            meta_tile = T.alloc_shared(turned(bm, bk // e, trans_e), meta)
            b = T.alloc_shared(turned(bk, bn, trans_b), types[1])
            c = T.alloc_fragment((bm, bn), types[2])
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[at(by * bm, i * (bk // 2), trans_a)], a)
                T.copy(E[at(by * bm, i * (bk // e), trans_e)], meta_tile)
                T.copy(B[at(i * bk, bx * bn, trans_b)], b)
                T.gemm_sp(a, meta_tile, b, c, *transposed)
            T.copy(c, C[by * bm, bx * bn])

    return main


def operand(rows, columns, kind, sparse=False):
    if kind in INTEGERS:
        low = -9 if kind == "int8" else 0
        values = randint_semi_sparse(rows, columns, low, 10, kind, "cpu") if sparse else None
        return torch.randint(low, 10, (rows, columns)).to(getattr(torch, kind)) if values is None \
            else values  # fmt: skip
    values = randn_semi_sparse(rows, columns, torch.float32, "cpu") if sparse else None
    if sparse and kind != "float32":
        return randn_semi_sparse(rows, columns, getattr(torch, kind), "cpu")
    return values if sparse else torch.randn(rows, columns).to(getattr(torch, kind))


def check(target, shape, tiles, types, meta, transposed=(False, False, True), **options):
    m, n, k = shape
    a, b = operand(m, k, types[0], sparse=True), operand(k, n, types[1])
    stored, metadata = compress(a, meta)
    stored = stored.T.contiguous() if transposed[0] else stored
    metadata = metadata.T.contiguous() if transposed[1] else metadata
    b_given = b.T.contiguous() if transposed[2] else b
    c = poison(m, n, dtype=types[2])
    run(sparse_gemm(m, n, k, tiles, types, meta, transposed, **options), target, stored, metadata,
        b_given, c)  # fmt: skip
    expected = a.double() @ b.double()
    size = a.double().abs() @ b.double().abs()
    bound = {"float16": 2e-3, "int32": 0.0}.get(types[2], 1e-5)
    if types[0] == "float32":
        bound = 2e-3  # tf32
    elif types[0] in FLOAT8:
        bound = 1e-3  # sums of Hopper
    assert bool(((c.double() - expected).abs() <= bound * size).all())


def test_every_target(target: str) -> None:
    check(target, (128, 64, 128), (128, 64, 64), ("float16", "float16", "float32"), "int16")


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_ragged_extents(target: str) -> None:
    """Metadata beyond the tensor are zero, which has no meaning."""
    types = ("bfloat16", "bfloat16", "float32")
    check(target, (72, 40, 160), (128, 64, 64), types, "int16", threads=256)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("meta", ["uint8", "int32"])
def test_metadata_of_other_sizes(target: str, meta: str) -> None:
    """K of a tile is an odd number of instructions, and 2 of them."""
    for k in (96, 64):
        check(target, (64, 32, 2 * k), (64, 32, k), ("float16",) * 3, meta)


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
@pytest.mark.parametrize("types", [FLOAT8, FLOAT8[::-1], INTEGERS, INTEGERS[::-1]])
def test_types_of_8_bits(target: str, types: tuple[str, str]) -> None:
    c = "int32" if types[0] in INTEGERS else "float32"
    check(target, (64, 32, 256), (64, 32, 128), (*types, c), "int32")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_float32(target: str) -> None:
    check(target, (64, 32, 96), (64, 32, 32), ("float32",) * 3, "int16")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_operands_that_are_not_k_major(target: str) -> None:
    types = ("float16", "float16", "float32")
    check(target, (128, 128, 192), (64, 64, 64), types, "int16", (True, True, False))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_fragments_and_gemms_in_a_row(target: str) -> None:
    """A and E in registers; C that is not cleared, and a condition that clears it."""
    m, n, k = 64, 32, 64
    types = ("float16", "float16", "float32")

    @T.prim_func
    def main(
        A: T.Tensor((m, k // 2), types[0]),
        E: T.Tensor((m, k // 16), "int16"),
        B: T.Tensor((k, n), types[1]),
        C: T.Tensor((m, n), types[2]),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((m, k // 2), types[0])
            e = T.alloc_fragment((m, k // 16), "int16")
            b = T.alloc_shared((k, n), types[1])
            c = T.alloc_fragment((m, n), types[2])
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            for i in T.serial(3):
                T.gemm_sp(a, e, b, c, clear_accum=i == 0)
            T.copy(c, C)

    a, b = operand(m, k, "float16", sparse=True), operand(k, n, "float16")
    c = poison(m, n)
    run(main, target, *compress(a), b, c)
    torch.testing.assert_close(c, 3 * (a.float() @ b.float()), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["float16", "float32", "float8_e4m3fn", "int8"])
@pytest.mark.parametrize("meta", ["int8", "uint8", "int16", "int32"])
def test_compressed_matrices(kind: str, meta: str) -> None:
    dense = operand(24, 128, kind, sparse=True)
    stored, metadata = compress(dense, meta)
    assert torch.equal(decompress(stored, metadata).float(), dense.float())
    turned = compress(dense.T.contiguous(), meta, transposed=True)
    assert torch.equal(turned[0].T.float(), stored.float())
    assert torch.equal(turned[1], metadata)
