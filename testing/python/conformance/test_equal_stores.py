"""Blocks that store one tile several times, with the same elements."""

from __future__ import annotations

import pytest
from conformance.running import equal, integers, poison, run

import tilelang.language as T
from tilelang import errors


@pytest.mark.parametrize("columns", [64, 24])
def test_a_tile_of_every_block(columns: int, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((48, columns), "int32"), B: T.Tensor((48, columns), "int32")):
        with T.Kernel(4, 3, threads=64) as (_, by):
            tile = T.alloc_shared((16, columns), "int32")
            T.copy(A[by * 16, 0], tile)
            T.copy(tile, B[by * 16, 0])

    a = integers(48, columns)
    equal(run(main, target, a, poison(48, columns, dtype="int32")), a)


def test_tiles_that_differ_are_a_race() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "int32"), B: T.Tensor((16, 64), "int32")):
        with T.Kernel(4, threads=64) as bx:
            tile = T.alloc_shared((16, 64), "int32")
            T.copy(A[bx * 16, 0], tile)
            T.copy(tile, B)

    with pytest.raises(errors.TileLangError, match="nothing orders the two"):
        run(main, "sm_100a", integers(64, 64), poison(16, 64, dtype="int32"))
