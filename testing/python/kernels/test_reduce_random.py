"""Reductions over random shapes, dimensions, types and numbers of threads, against float64."""

from __future__ import annotations

import functools
import math
import random

import pytest
import torch

import tilelang
import tilelang.language as T

THREADS = [32, 64, 96, 128, 160, 192, 256, 320, 384, 512]
OPERATIONS = ["sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"]


def combine(op: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of float64, or of int64 for operations on bits."""
    plain = op.removeprefix("abs")
    if plain == "sum":
        return a + b
    if plain in ("max", "min"):
        return (torch.maximum if plain == "max" else torch.minimum)(a, b)
    return {"bitand": a & b, "bitor": a | b, "bitxor": a ^ b}[op]


def reference(x: torch.Tensor, op: str, dim: int, start: torch.Tensor | None) -> torch.Tensor:
    wide = torch.int64 if op.startswith("bit") else torch.float64
    rows = list(x.to(wide).movedim(dim, 0))
    if op.startswith("abs"):
        rows = [row.abs() for row in rows]
    if start is not None:
        rows.append(start.to(wide))
    return functools.reduce(functools.partial(combine, op), rows)


def program(shape, dim, op, dtype, threads, clear):
    """Y = the reduction of X, joined to S unless it clears."""
    rest = shape[:dim] + shape[dim + 1 :]

    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), S: T.Tensor(rest, dtype), Y: T.Tensor(rest, dtype)):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment(shape, dtype)
            y = T.alloc_fragment(rest, dtype)
            T.copy(X, x)
            if not clear:
                T.copy(S, y)
            T.reduce(x, y, op, dim, clear)
            T.copy(y, Y)

    return kernel


def sample(seed: int):
    rng = random.Random(seed)
    op = rng.choice(OPERATIONS)
    dtype = "int32" if op.startswith("bit") else rng.choice(["float32", "float16", "int32"])
    rank = rng.choice([2, 2, 2, 3])
    sizes = [1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 40, 64, 72, 80, 100, 128]
    while True:
        shape = tuple(rng.choice(sizes) for _ in range(rank))
        if math.prod(shape) <= 8192:
            break
    clear = rng.random() < 0.7
    return shape, rng.randrange(rank), op, dtype, rng.choice(THREADS), clear


def check(seed: int) -> None:
    shape, dim, op, dtype, threads, clear = sample(seed)
    kernel = tilelang.compile(program(shape, dim, op, dtype, threads, clear), target="sm_100a")
    generator = torch.Generator().manual_seed(seed)
    # Integers whose sums float16 holds exactly.
    x = torch.randint(-8, 8, shape, generator=generator).to(getattr(torch, dtype))
    rest = shape[:dim] + shape[dim + 1 :]
    start = torch.randint(-8, 8, rest, generator=generator).to(x.dtype)
    y = torch.full(rest, 77).to(x.dtype)
    kernel(x, start, y)
    expected = reference(x, op, dim, None if clear else start)
    assert torch.equal(y.to(expected.dtype), expected), sample(seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_reduction(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize(
    ("shape", "threads"), [((64, 72), 384), ((64, 80), 384), ((24, 40), 96), ((100, 24), 160)]
)
def test_columns_on_threads_that_no_power_of_two_divides(shape, threads):
    x = torch.randint(-8, 8, shape).float()
    y = torch.full(shape[1:], 77.0)
    kernel = program(shape, 0, "max", "float32", threads, True)
    tilelang.compile(kernel, target="sm_100a")(x, torch.zeros_like(y), y)
    assert torch.equal(y, x.amax(0))


@pytest.mark.parametrize("op", ["sum", "max", "min", "absmax"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_fragment_reduced_into_itself(op: str, dtype: str) -> None:
    """Over an extent of one: the result lies where the source does."""

    @T.prim_func
    def main(A: T.Tensor((1, 96), dtype), B: T.Tensor((1, 96), dtype)):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((1, 96), dtype)
            T.copy(A, f)
            getattr(T, f"reduce_{op}")(f, f, dim=0)
            T.copy(f, B)

    a = torch.randint(-9, 10, (1, 96)).to(getattr(torch, dtype))
    b = torch.full_like(a, 77)
    tilelang.compile(main, target="sm_90a")(a, b)
    assert torch.equal(b, a.abs() if op.startswith("abs") else a)
