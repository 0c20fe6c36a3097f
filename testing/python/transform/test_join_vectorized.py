"""T.vectorized in T.Parallel along a fragment: a dimension of the loop, without staging."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS = 128, 96


def scaled(first: int, guarded: bool) -> Any:
    """B = A, whose columns from ``first`` on are multiplied by the row's scale and the column."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, COLUMNS), "float32"),
        S: T.Tensor((ROWS,), "float32"),
        B: T.Tensor((ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((ROWS, COLUMNS), "float32")
            scale = T.alloc_fragment((ROWS,), "float32")
            T.copy(A, a)
            T.copy(S, scale)
            for i in T.Parallel(ROWS):
                for j in T.vectorized(COLUMNS - first):
                    if guarded:
                        if i % 3 != 0:
                            a[i, j + first] = a[i, j + first] * scale[i] + j
                    else:
                        a[i, j + first] = a[i, j + first] * scale[i] + j
            T.copy(a, B)

    return main


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("first", [0, 24])
def test_fragments_are_not_staged(first: int, guarded: bool, target: str) -> None:
    kernel = tilelang.compile(scaled(first, guarded), target=target)
    assert first > 0 or "a_stage" not in kernel.get_kernel_source()
    a, s = torch.randn(ROWS, COLUMNS), torch.randn(ROWS)
    b = torch.full((ROWS, COLUMNS), float("nan"))
    kernel(a, s, b)
    changed = a[:, first:] * s[:, None] + torch.arange(COLUMNS - first)
    expected = a.clone()
    kept = torch.arange(ROWS) % 3 != 0 if guarded else torch.ones(ROWS, dtype=torch.bool)
    expected[kept, first:] = changed[kept]
    torch.testing.assert_close(b, expected)


def test_private_memory_keeps_the_loop() -> None:
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((32, 8), "float32")
            own = T.alloc_local((8,), "float32")
            T.copy(A, a)
            for i in T.Parallel(32):
                for j in T.vectorized(8):
                    own[j] = a[i, j] + 1
            B[T.get_thread_binding()] = own[7]

    a, b = torch.randn(32, 8), torch.full((32,), float("nan"))
    tilelang.compile(main, target="sm_100a")(a, b)
    torch.testing.assert_close(b, a[:, 7] + 1)


def test_iterations_that_write_one_element_keep_the_loop() -> None:
    """They run in order in the thread that holds the element."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 8), "float32"), B: T.Tensor((ROWS,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((ROWS, 8), "float32")
            most = T.alloc_fragment((ROWS,), "float32")
            T.copy(A, a)
            T.fill(most, -T.infinity("float32"))
            for i in T.Parallel(ROWS):
                for j in T.vectorized(8):
                    most[i] = T.max(most[i], a[i, j])
            T.copy(most, B)

    a, b = torch.randn(ROWS, 8), torch.full((ROWS,), float("nan"))
    tilelang.compile(main, target="sm_100a")(a, b)
    torch.testing.assert_close(b, a.amax(1))
