"""Programs that update tensors in place, up to an end that is no multiple of a vector."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def squared(shape, tile, threads):
    rows, columns = shape

    @T.prim_func
    def main(A: T.Tensor(shape, "bfloat16")):
        grid = T.ceildiv(columns, tile[1]), T.ceildiv(rows, tile[0])
        with T.Kernel(*grid, threads=threads) as (bx, by):
            for i, j in T.Parallel(*tile):
                row, column = by * tile[0] + i, bx * tile[1] + j
                A[row, column] = A[row, column] * A[row, column]

    return main


# One thread has the elements behind the last vector, in a block that the compiler knows.
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("columns", [1021, 1022, 1023, 2047])
@pytest.mark.parametrize("tile", [(1, 512), (1, 256), (2, 64)])
def test_elements_behind_the_last_vector(columns, tile, target):
    a = torch.randint(-9, 9, (tile[0] + 1, columns)).bfloat16()
    wanted = a * a
    tilelang.compile(squared(tuple(a.shape), tile, 128), target=target)(a)
    assert torch.equal(a, wanted)
    one = a[:1].clone()
    tilelang.compile(squared(tuple(one.shape), (1, tile[1]), 128), target=target)(one)
    assert torch.equal(one, a[:1] * a[:1])
