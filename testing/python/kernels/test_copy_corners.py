"""``T.copy(A[i, j], tile)``: the corner takes the tile's extents, those of 1 at their places."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilelang
import tilelang.language as T

SHAPES = [shape for shape in itertools.product((1, 6), (1, 5), (1, 4)) if max(shape) > 1]


def without_ones(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The shape with ones dropped from the left until the rank is right."""
    while len(shape) > rank:
        place = shape.index(1)
        shape = shape[:place] + shape[place + 1 :]
    return shape


@pytest.mark.parametrize("to_tensor", [False, True])
@pytest.mark.parametrize("shape", [s for s in SHAPES if 1 in s])
def test_a_tile_of_higher_rank(shape, to_tensor):
    m, n = without_ones(shape, 2)

    @T.prim_func
    def kernel(A: T.Tensor((9, 9), "int32"), B: T.Tensor((9, 9), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared(shape, "int32")
            matrix = T.alloc_shared((m, n), "int32")
            if to_tensor:
                T.copy(A[2, 3], matrix)
                for i, j in T.Parallel(m, n):
                    if shape[0] == 1:
                        tile[0, i, j] = matrix[i, j]
                    elif shape[1] == 1:
                        tile[i, 0, j] = matrix[i, j]
                    else:
                        tile[i, j, 0] = matrix[i, j]
                T.copy(tile, B[2, 3])
            else:
                T.copy(A[2, 3], tile)
                for i, j, k in T.Parallel(*shape):
                    if shape[0] == 1:
                        matrix[j, k] = tile[i, j, k]
                    elif shape[1] == 1:
                        matrix[i, k] = tile[i, j, k]
                    else:
                        matrix[i, j] = tile[i, j, k]
                T.copy(matrix, B[2, 3])

    a, b = torch.randint(-99, 99, (9, 9)).int(), torch.full((9, 9), -77).int()
    expected = b.clone()
    expected[2 : 2 + m, 3 : 3 + n] = a[2 : 2 + m, 3 : 3 + n]
    tilelang.compile(kernel, target="sm_90a")(a, b)
    assert torch.equal(b, expected)


@pytest.mark.parametrize("step", [8, 4])
def test_columns_counted_in_memory(step):
    """A count that may wrap around, times 8 elements of 16 bits, is a multiple of 16 bytes."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 256), "float16"), B: T.Tensor((64, 256), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            count = T.alloc_var("int32", init=0)
            while count * step < 256:
                T.copy(A[0, (count + 0) * step], tile)
                for i, j in T.Parallel(64, step):
                    B[i, count * step + j] = tile[i, j]
                count += 1

    compiled = tilelang.compile(kernel, target="sm_90a")
    declined = [r for r in compiled.remarks if "multiple of 16 bytes" in r.message]
    assert bool(declined) == (step == 4)
    a, b = torch.randn(64, 256).half(), torch.full((64, 256), float("nan")).half()
    compiled(a, b)
    assert torch.equal(b, a)
