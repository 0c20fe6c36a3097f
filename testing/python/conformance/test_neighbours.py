"""Elements of fragments beside that of the iteration, under conditions that keep them inside."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors


def test_diagonal_neighbours(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), B: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((16, 64), "float32")
            T.copy(A, f)
            for i, j in T.Parallel(16, 64):
                before = T.if_then_else(j > 0 and i > 0, f[i - 1, j - 1], 0)
                B[i, j] = before + T.if_then_else(j < 63, f[i, j + 1], 0)

    a = normal(16, 64)
    expected = torch.zeros(16, 64)
    expected[1:, 1:] += a[:-1, :-1]
    expected[:, :-1] += a[:, 1:]
    close(run(main, target, a, poison(16, 64)), expected)


def test_causal_convolution(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 128), "float32"), W: T.Tensor((4,), "float32"), B: T.Tensor((8, 128))):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((8, 128), "float32")
            o = T.alloc_fragment((8, 128), "float32")
            T.copy(A, f)
            T.clear(o)
            for k in T.unroll(4):
                for i, j in T.Parallel(8, 128):
                    if j - k >= 0:
                        o[i, j] += f[i, j - k] * W[k]
            T.copy(o, B)

    a, w = normal(8, 128), normal(4)
    padded = torch.nn.functional.pad(a.double(), (3, 0))
    expected = sum(w[k] * padded[:, 3 - k : 131 - k] for k in range(4))
    close(run(main, target, a, w, poison(8, 128)), expected)


def test_either_branch(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), "float32")
            T.copy(A, f)
            for i in T.Parallel(64):
                place = i - 8
                if place < 0 or i == 20:
                    B[i] = -1
                else:
                    B[i] = f[place]

    a = normal(64)
    expected = torch.cat([torch.full((8,), -1.0), a[:-8]])
    expected[20] = -1
    equal(run(main, target, a, poison(64)), expected)


def outside(least: int):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), "float32")
            T.copy(A, f)
            for i in T.Parallel(64):
                B[i] = T.if_then_else(i >= least, f[i - 3], 0)

    return main


def test_condition_that_lets_one_too_many() -> None:
    tilelang.compile(outside(3), target="sm_90a")
    with pytest.raises(errors.ShapeError, match="index -1 of dimension 0 is outside fragment f"):
        tilelang.compile(outside(2), target="sm_90a")


def test_halves_are_added_under_a_condition(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(32):
                if i < 16:
                    tile[i] += tile[i + 16]
            for i in T.Parallel(63):
                if i % 2 == 0:
                    tile[i] += tile[i + 1]
            T.copy(tile, B)
            for i in T.Parallel(32):
                first, last = B[i], B[63 - i]
                B[i] = last
                B[63 - i] = first

    a = normal(64)
    expected = a.double()
    expected[:16] += expected[16:32]
    expected[0::2] += expected[1::2]
    close(run(main, target, a, poison(64)), expected.flip(0))


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_before_that_of_a_loop(transposed: bool, target: str) -> None:
    """Tiles in shared memory whose rows depend on the row before: the loop begins behind it."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), x: T.int32):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            b = T.alloc_shared((64, 64), "float32")
            T.copy(A, a)
            for j in T.Parallel(64):
                b[x - 3, j] = a[j, x - 3] if transposed else a[x - 3, j]
            for i in T.Serial(1, 64):
                for j in T.Parallel(64):
                    b[i, j] = b[i - 1, j] + (a[j, i] if transposed else a[i, j])
            T.copy(b, B)

    a = normal(64, 64)
    given = a.T if transposed else a
    close(run(main, target, a, poison(64, 64), 3), given.double().cumsum(0))


def test_fragments_stored_to_rows_before(target: str) -> None:
    """By instructions that store matrices, where there are some."""

    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), B: T.Tensor((4, 64, 64), "float16")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((64, 64), "float16")
            b = T.alloc_shared((4, 64, 64), "float16")
            for i in T.serial(1, 5):
                T.copy(A[i - 1, :, :], f)
                for r, c in T.Parallel(64, 64):
                    b[i - 1, r, c] = f[r, c] * 2
            T.copy(b, B)

    a = normal(4, 64, 64, dtype="float16")
    equal(run(main, target, a, poison(4, 64, 64, dtype="float16")), a * 2)
