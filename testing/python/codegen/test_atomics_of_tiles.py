"""Atomic operations on tiles act once for each element, whatever the value is."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

OPERATIONS = {
    "atomic_add": lambda a, b: a + b,
    "atomic_max": torch.maximum,
    "atomic_min": torch.minimum,
    "atomic_or": lambda a, b: a | b,
    "atomic_and": lambda a, b: a & b,
    "atomic_xor": lambda a, b: a ^ b,
}


def run(name: str, rows: int, columns: int, first: int, value: str) -> None:
    """Of 128 threads, on ``rows`` rows of a tensor of 8, from row ``first`` on."""
    operation = getattr(T, name)

    @T.prim_func
    def main(A: T.Tensor((8, columns), "int32"), B: T.Tensor((8, columns), "int32")):
        with T.Kernel(1, threads=128):
            if value == "constant":
                operation(B[first : first + rows, :], 5)
            elif value == "element":
                x = T.alloc_local((1,), "int32")
                x[0] = A[0, 0]
                operation(B[first : first + rows, :], x[0])
            elif value == "tile":
                operation(B[first : first + rows, :], A[first : first + rows, :])
            else:
                operation(B[first : first + rows, :], A[first, 0])

    a, b = torch.randint(-99, 99, (2, 8, columns), dtype=torch.int32)
    rows_of = slice(first, first + rows)
    operand = {"constant": torch.tensor(5), "element": a[0, 0]}.get(value, a[rows_of])
    expected = b.clone()
    expected[rows_of] = OPERATIONS[name](b[rows_of], operand.to(torch.int32))
    tilelang.compile(main, target="sm_80")(a, b)
    torch.testing.assert_close(b, expected)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_slice(name: str) -> None:
    run(name, rows=3, columns=19, first=2, value="constant")


@pytest.mark.parametrize("value", ["element", "tile", "corner"])
def test_values(value: str) -> None:
    run("atomic_max", rows=3, columns=19, first=2, value=value)


@pytest.mark.parametrize("value", ["constant", "tile"])
def test_a_slice_of_one_element(value: str) -> None:
    run("atomic_add", rows=1, columns=1, first=7, value=value)


@pytest.mark.parametrize("extent", [1, 64, 100])
def test_a_whole_buffer(extent: int) -> None:
    @T.prim_func
    def main(B: T.Tensor((extent,), "float32"), C: T.Tensor((extent,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((extent,), "float32")
            T.clear(s)
            T.atomic_add(s, 2)
            T.atomic_add(B, 1)
            T.atomic_add(C[0], 1)
            T.atomic_add(C, s)

    b, c = torch.zeros(extent), torch.zeros(extent)
    tilelang.compile(main, target="sm_80")(b, c)
    assert (b == 1).all()
    assert c[0] == 128 + 2
    assert (c[1:] == 2).all()


def test_the_values_before_are_of_elements_only() -> None:
    with pytest.raises(errors.UnsupportedError, match="of a tile cannot return"):

        @T.prim_func
        def main(B: T.Tensor((1,), "float32")):
            with T.Kernel(1, threads=128):
                T.atomic_add(B, 1, return_prev=True)
