"""Macros: functions that are traced into their callers."""

import pytest
from ir_interpreter import Interpreter

import tilelang.language as T
from tilelang.errors import SemanticsError


def run(func, *args):
    Interpreter(func, *args)
    return args[0]


def test_buffers_by_reference_and_scalars_by_value():
    @T.macro
    def add_twice(X, i, amount):
        X[i] += amount
        amount = amount + 1
        X[i] += amount

    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            step = T.alloc_var("int32", init=n)
            add_twice(A, 0, step)
            add_twice(A, 1, 10)
            A[2] = step

    assert run(main, [100, 200, 0, 0], 5) == [111, 221, 5, 0]


def test_a_value_is_that_at_the_call():
    @T.macro
    def overwrite(X, value):
        X[0] = 1
        X[1] = value

    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            overwrite(A, A[0])

    assert run(main, [7, 0]) == [1, 7]


def test_references():
    @T.macro
    def advance(position: T.Ref, limit):
        position += 3
        if position >= limit:
            position = 0

    @T.prim_func
    def main(A: T.Tensor((3,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            where = T.alloc_var("int32", init=0)
            for _ in range(n):
                advance(where, 7)
                advance(A[1], 100)
            A[0] = where

    assert run(main, [0, 0, 0], 4) == [3, 12, 0]


def test_returned_values_and_nesting():
    @T.macro
    def square(x):
        return x * x

    @T.macro
    def extremes(x, y):
        low = T.min(x, y)
        return low, square(T.max(x, y))

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            low, high = extremes(A[0], A[1])
            A[0] = 0
            A[2] = low
            A[3] = high

    assert run(main, [3, -5, 0, 0]) == [0, -5, -5, 9]


def test_closures_and_defaults():
    factor = 3

    @T.macro
    def scale(x, times=2, *, offset=0):
        return x * factor * times + offset

    @T.prim_func
    def main(A: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=1):

            @T.macro
            def local(x):
                return scale(x, offset=A[2])

            A[0] = local(A[0])
            A[1] = scale(A[1], times=10)

    assert run(main, [1, 1, 7]) == [13, 30, 7]


def test_methods():
    class Tiles:
        def __init__(self, step):
            self.step = step

        @T.macro
        def bump(self, X, i):
            X[i] += self.step

    tiles = Tiles(4)

    @T.prim_func
    def main(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1):
            for i in range(2):
                tiles.bump(A, i)

    assert run(main, [1, 2]) == [5, 6]


@T.macro
def count_down(A, n):
    if n > 0:
        A[n] = A[n] + n
        count_down(A, n - 1)


@T.macro
def even(A, n):
    A[n] = 2
    if n > 0:
        odd(A, n - 1)


@T.macro
def odd(A, n):
    A[n] = 1
    if n > 0:
        even(A, n - 1)


@T.macro
def forever(A, n):
    A[0] = n
    forever(A, n + 1)


@T.macro
def ping(A):
    pong(A)


@T.macro
def pong(A):
    ping(A)


def test_a_macro_may_call_itself():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            count_down(A, 3)

    assert run(main, [10] * 8) == [10, 11, 12, 13, 10, 10, 10, 10]


def test_a_local_macro_may_call_itself():
    @T.macro
    def fill(A, n):
        A[n] = n
        if n:
            fill(A, n - 1)

    @T.prim_func
    def main(A: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=1):
            fill(A, 39)

    assert run(main, [-1] * 40) == list(range(40))


def test_macros_may_call_each_other():
    @T.prim_func
    def main(A: T.Tensor((5,), "int32")):
        with T.Kernel(1, threads=1):
            even(A, 4)

    assert run(main, [0] * 5) == [2, 1, 2, 1, 2]


@pytest.mark.parametrize(("macro", "args"), [(forever, (0,)), (ping, ())])
def test_endless_recursion_is_an_error_with_its_place(macro, args):
    with pytest.raises(SemanticsError, match=r"at a depth of 64 macros") as caught:

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=1):
                macro(A, *args)

    assert caught.value.span.file == __file__
    assert len(caught.value.notes) < 6  # not one for each level

    @T.prim_func
    def after(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            count_down(A, 7)

    assert run(after, [0] * 8)[7] == 7
