"""Python to the end: match, assignment expressions, containers of buffers, closures, partials."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T

N = 64


@pytest.mark.parametrize("mode", ["double", "negate", "other", None])
def test_match_on_python_values(mode: str | None, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            match mode:
                case "double":
                    B[t] = A[t] * 2
                case "negate" | "minus":
                    B[t] = -A[t]
                case None:
                    B[t] = 0
                case name:
                    B[t] = A[t] + len(name)

    a = integers(N)
    expected = {"double": a * 2, "negate": -a, "other": a + 5, None: a * 0}[mode]
    equal(run(main, target, a, poison(N, dtype="int32")), expected)


def test_match_on_values_of_the_kernel(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            match A[t] % 4:
                case 0:
                    B[t] = 100
                case 1 | 2:
                    B[t] = 200
                case _ if t > 30:
                    B[t] = 300
                case _:
                    B[t] = 400

    a, t = integers(N), torch.arange(N)
    expected = torch.where(
        a % 4 == 0, 100, torch.where(a % 4 == 3, torch.where(t > 30, 300, 400), 200)
    )
    equal(run(main, target, a, poison(N, dtype="int32")), expected)


def test_assignment_expressions(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            B[(t := T.get_thread_binding())] = 0
            if (x := A[t] * 2) > 10:
                B[t] = x
            elif (y := x + 7) > 0 and y % 2 == 1:
                B[t] = y

    a = integers(N)
    x = a * 2
    expected = torch.where(x > 10, x, torch.where(x + 7 > 0, x + 7, 0))
    equal(run(main, target, a, poison(N, dtype="int32")), expected)


def test_containers_of_buffers(target: str) -> None:
    factors = {"a": 2, "b": 3}

    @T.prim_func
    def main(A: T.Tensor((2, N), "float32"), B: T.Tensor((2, N), "float32")):
        with T.Kernel(1, threads=N):
            tiles = {name: T.alloc_shared((N,), "float32") for name in factors}
            rows = list(tiles.values())
            for n, row in enumerate(rows):
                T.copy(A[n, :], row)
            for (name, tile), n in zip(tiles.items(), (1, 0), strict=True):
                for i in T.Parallel(N):
                    B[n, i] = tile[i] * factors[name]

    a = normal(2, N)
    close(run(main, target, a, poison(2, N)), torch.stack([a[1] * 3, a[0] * 2]))


def scaled(x: Any, factor: float = 2.0, *, shift: float = 0.0) -> Any:
    return x * factor + shift


def test_closures_partials_and_defaults(target: str) -> None:
    steps = [scaled, functools.partial(scaled, factor=0.5, shift=1.0), lambda x: -x]

    @T.prim_func
    def main(A: T.Tensor((3, N), "float32"), B: T.Tensor((3, N), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            for n, step in enumerate(steps):
                B[n, t] = step(A[n, t])

    a = normal(3, N)
    close(run(main, target, a, poison(3, N)), torch.stack([a[0] * 2, a[1] / 2 + 1, -a[2]]))


def test_chained_comparisons(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = 1 if -10 < A[t] <= 20 != t else 0

    a, t = integers(N), torch.arange(N)
    expected = (a > -10) & (a <= 20) & (t != 20)
    equal(run(main, target, a, poison(N, dtype="int32")), expected)


@T.macro
def power(x, n: int):
    return x if n == 1 else x * power(x, n - 1)


def test_macros_that_call_themselves(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = power(A[t], 3)

    a = integers(N)
    equal(run(main, target, a, poison(N, dtype="int32")), a**3)


def test_starred_assignment(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tiles = [T.alloc_shared((N,), "float32") for _ in range(4)]
            first, *between, last = tiles
            for n, tile in enumerate(tiles):
                T.copy(A[n, :], tile)
            for i in T.Parallel(N):
                value, *others = first[i], between[0][i], between[1][i], last[i]
                for other in others:
                    value = value - other
                B[i] = value

    a = normal(4, N)
    close(run(main, target, a, poison(N)), a[0] - a[1] - a[2] - a[3])


def test_divmod_and_inversion(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), F: T.Tensor((N,), "bool"), B: T.Tensor((6, N), "int32")):
        with T.Kernel(1, threads=N):
            i = T.get_thread_binding()
            B[0, i], B[1, i] = divmod(A[i], 7)
            B[2, i], B[3, i] = divmod(1000, A[i])
            B[4, i] = ~A[i]
            B[5, i] = T.if_then_else(~F[i], 1, 2)

    a, flags = integers(N, low=-50, high=0), torch.rand(N) < 0.5
    rows = [a // 7, a % 7, 1000 // a, 1000 % a, ~a, torch.where(flags, 2, 1)]
    equal(run(main, target, a, flags, poison(6, N, dtype="int32")), torch.stack(rows))
