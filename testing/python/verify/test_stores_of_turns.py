"""Turns of a loop that store to rows of their own wait for their tile alone, not for the tensor."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS = 64, 64
FORMS = {
    "i": lambda i, n: i,
    "3i+1": lambda i, n: 3 * i + 1,
    "n-1-i": lambda i, n: n - 1 - i,
    "digits": lambda i, n: (i % 4) * 2 + i // 4,
    "i//2": lambda i, n: i // 2,
    "min": lambda i, n: T.min(i, 3) if not isinstance(i, int) else min(i, 3),
}
APART = ("i", "3i+1", "n-1-i", "digits")


def stores(form: str, n: int, inner: int = 1):
    """Turn ``i`` stores 64 rows; by an inner loop, in as many pieces."""

    @T.prim_func
    def main(
        X: T.Tensor((ROWS * n, COLUMNS), "float16"),
        Y: T.Tensor((4 * ROWS * n, COLUMNS), "float16"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((2, ROWS // inner, COLUMNS), "float16")
            for i in T.serial(n):
                for j in T.serial(inner):
                    first = j * (ROWS // inner)
                    T.copy(X[i * ROWS + first, 0], tile[i % 2, :, :])
                    T.copy(tile[i % 2, :, :], Y[FORMS[form](i, n) * ROWS + first, 0])

    return main


def waits(ptx: str) -> set[str]:
    return set(re.findall(r"cp\.async\.bulk\.wait_group(?:\.read)? \d+", ptx))


@pytest.mark.every_schedule
@pytest.mark.parametrize("form", FORMS)
def test_rows_of_turns(form):
    n = 8
    kernel = tilelang.compile(stores(form, n), target="sm_90a")
    # In the loop the other slot stays in flight; after it nothing does.
    left = {"0", "1"} if form in APART else {"0"}
    suffix = ".read" if form in APART else ""
    assert waits(kernel.get_ptx()) == {f"cp.async.bulk.wait_group{suffix} {n}" for n in left}
    x = torch.randn(ROWS * n, COLUMNS).half()
    y = torch.full((4 * ROWS * n, COLUMNS), float("nan")).half()
    wanted = y.clone()
    kernel(x, y)
    for i in range(n):
        at = FORMS[form](i, n) * ROWS
        wanted[at : at + ROWS] = x[i * ROWS : (i + 1) * ROWS]
    torch.testing.assert_close(y, wanted, rtol=0, atol=0, equal_nan=True)


def test_two_loops():
    """Pieces of rows follow both variables: no one index tells that they are apart."""
    kernel = tilelang.compile(stores("i", 4, inner=2), target="sm_90a")
    assert "cp.async.bulk.wait_group 0" in waits(kernel.get_ptx())


def test_a_second_store_to_the_tensor():
    @T.prim_func
    def main(X: T.Tensor((ROWS, COLUMNS), "float16"), Y: T.Tensor((1024, COLUMNS), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            T.copy(X, tile)
            for i in T.serial(8):
                T.copy(tile, Y[i * ROWS, 0])
                T.copy(tile, Y[i * ROWS + 128, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    assert "cp.async.bulk.wait_group 0" in waits(kernel.get_ptx())
