"""Stores rows of float8 and float4 with scale factors, for the scripts in ``examples/``."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from .scaled import ATOM, FORMATS, OF_ROW


def shape_of_factors(rows: int, columns: int, form: str) -> tuple[int, ...]:
    """Returns the shape of the factors of (rows, columns).

    Those of fp8 are (columns / 128, rows): neighbours in memory are rows. The others lie in atoms
    of 128 rows, (ceil(rows / 128), atoms along K, 2, 256), which blocks of rows cover.
    """
    if form == "fp8":
        return columns // FORMATS[form].shared, rows
    return -(-rows // ATOM), -(-columns // FORMATS[form].depth), 2, 256


@T.macro
def _powers_of_two(factor: Any, inverse: Any, most: float) -> None:
    """``factor`` / ``most`` is rounded up to a power of two; ``inverse`` is one over it."""
    for i, j in T.Parallel(*factor.shape):
        bits = T.reinterpret("uint32", factor[i, j] / most) + T.uint32(0x7FFFFF)
        code = T.max(bits >> T.uint32(23), T.uint32(1))
        factor[i, j] = T.reinterpret("float32", code << T.uint32(23))
        inverse[i, j] = T.reinterpret("float32", (T.uint32(254) - code) << T.uint32(23))


@T.macro
def _nearest(factor: Any, inverse: Any, most: float, kind: str) -> None:
    """``factor`` / ``most`` is rounded to ``kind``, not below its least; ``inverse`` as above."""
    for i, j in T.Parallel(*factor.shape):
        wide = T.max(factor[i, j] / most, 2.0**-9 if kind != "float32" else 2.0**-126)
        factor[i, j] = T.cast(T.cast(wide, kind), "float32")
        inverse[i, j] = 1.0 / factor[i, j]


@T.macro
def _store_factors(factor: Any, S: Any, row: Any, column: Any, rows: int, columns: int) -> None:
    """Stores factors from (row, column) on in atoms; beyond the matrix they are zero."""
    for i, j in T.Parallel(*factor.shape):
        r, c = row + i, column + j
        if (r < S.shape[0] * ATOM) & (c < S.shape[1] * OF_ROW):
            S[
                r // ATOM, c // OF_ROW, r % 32 // 16, r % 16 * 16 + r % ATOM // 32 * 4 + c % OF_ROW
            ] = T.if_then_else((r < rows) & (c < columns), factor[i, j], 0.0)


@T.macro
def store_quantised(x: Any, Q: Any, S: Any, form: str, row: Any, column: Any) -> None:
    """Stores the tile ``x``, a float32 fragment, at (row, column) of Q, and its factors.

    Columns of ``x`` and ``column`` are multiples of those that share a factor (of atoms: of 4 times
    as many). Where rows lie in atoms, blocks of rows reach up to a multiple of 128.
    """
    rows, columns = x.shape
    kind = FORMATS[form]
    groups, first = columns // kind.shared, column // kind.shared
    q = T.alloc_fragment((rows, columns), kind.elements)
    factor, inverse = (T.alloc_fragment((rows, groups), "float32") for _ in range(2))
    T.reduce_absmax(T.reshape(x, (rows, groups, kind.shared)), factor, dim=2)
    if form == "mxfp8":
        _powers_of_two(factor, inverse, kind.most)
    else:
        _nearest(factor, inverse, kind.most, "float8_e4m3fn" if form == "nvfp4" else "float32")
    if form == "fp8":
        for i, j in T.Parallel(rows, groups):
            S[first + j, row + i] = factor[i, j]
    else:
        _store_factors(factor, S, row, first, Q.shape[0], Q.shape[1] // kind.shared)
    for i, j in T.Parallel(rows, columns):
        q[i, j] = x[i, j] * inverse[i, j // kind.shared]
    T.copy(q, Q[row, column])
