"""A scalar that takes the name of a tile in a block: the name means the tile again after it."""

from __future__ import annotations

import pytest
from conformance.running import equal, integers, poison, run

import tilelang.language as T
from tilelang import errors


def test_in_a_parallel_loop(target: str) -> None:
    """Also under a condition, and again in the next iteration of a loop around."""

    @T.macro
    def halves(x):
        return x // 2, x % 2

    @T.prim_func
    def main(A: T.Tensor((5, 40), "int32"), B: T.Tensor((5, 40), "int32")):
        with T.Kernel(1, threads=64):
            row = T.alloc_fragment((40,), "int32")
            for k in T.serial(5):
                for i in T.Parallel(40):
                    row[i] = A[k, i]
                for i in T.Parallel(40):
                    if i < 33:
                        A, rest = halves(row[i])
                        B[k, i] = A * 10 + rest
                    else:
                        B[k, i] = row[i]

    a, b = integers(5, 40), poison(5, 40, dtype="int32")
    expected = a.clone()
    expected[:, :33] = a[:, :33].div(2, rounding_mode="floor") * 10 + a[:, :33] % 2
    run(main, target, a, b)
    equal(b, expected)


def test_in_a_branch(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((40,), "int32"), B: T.Tensor((2, 40), "int32"), n: T.int32):
        with T.Kernel(1, threads=64):
            if n > 3:
                A = n * 2
                B[0, 0] = A
            for i in T.Parallel(40):
                B[1, i] = A[i]

    a = integers(40)
    for n in (2, 7):
        b = poison(2, 40, dtype="int32")
        expected = b.clone()
        expected[1] = a
        if n > 3:
            expected[0, 0] = n * 2
        run(main, target, a, b, n)
        equal(b, expected)


def test_other_tiles_are_refused() -> None:
    with pytest.raises(errors.TileLangError, match="`x`"):

        @T.prim_func
        def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32"), n: T.int32):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((32,), "int32")
                y = T.alloc_fragment((32,), "int32")
                T.copy(A, x)
                T.copy(A, y)
                if n > 3:
                    x = y
                T.copy(x, B)

    with pytest.raises(errors.TileLangError, match="used again in its next iteration"):

        @T.prim_func
        def carried(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                for k in T.serial(4):
                    B[k] = A[k]
                    A = k
