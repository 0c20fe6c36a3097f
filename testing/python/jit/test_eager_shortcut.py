"""Warm calls of the only kernel of an eager function go straight to its launcher."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors


def _add() -> Any:
    @tilelang.jit(target="sm_90a")
    def add(A, B, dtype=T.float32):
        M = T.dynamic("M")
        N = T.const("N")
        A: T.Tensor((M, N), dtype)
        B: T.Tensor((M, N), dtype)
        C = T.empty((M, N), dtype)
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                C[row, j] = A[row, j] + B[row, j]
        return C

    return add


def _check(add: Any, *shape: int) -> None:
    a, b = torch.randn(*shape), torch.randn(*shape)
    assert torch.equal(add(a, b), a + b)


def test_other_shapes_after_the_first() -> None:
    add = _add()
    for shape in [(3, 8), (5, 8), (3, 16), (3, 8), (0, 16), (2, 16)]:
        _check(add, *shape)
        _check(add, *shape)
    assert len(add._kernels) == 2


def test_wrong_arguments_are_placed_after_a_warm_call() -> None:
    add = _add()
    _check(add, 3, 8)
    _check(add, 3, 8)
    a = torch.randn(3, 8)
    with pytest.raises(errors.ArgumentError, match=r"B is declared|dimension 1 of B") as caught:
        add(a, torch.randn(3, 16))
    assert caught.value.span is not None
    with pytest.raises(errors.ArgumentError) as caught:
        add(a, torch.randn(4, 8))
    assert "argument 'B'" in str(caught.value) and caught.value.span is not None
    with pytest.raises(errors.ArgumentError, match="float16"):
        add(a.half(), a)
    with pytest.raises(errors.TileLangError):
        add(a, None)
    _check(add, 3, 8)


def test_missing_tensors_are_another_kernel() -> None:
    @tilelang.jit(target="sm_90a")
    def scaled(A, S):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        if S is not None:
            S: T.Tensor((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = A[i] * (S[i] if S is not None else 2.0)
        return B

    a, s = torch.randn(64), torch.randn(64)
    for _ in range(3):
        assert torch.equal(scaled(a, s), a * s)
    for _ in range(3):
        assert torch.equal(scaled(a, None), a * 2)
    assert torch.equal(scaled(a, s), a * s)


def test_shapes_that_the_body_asks_for() -> None:
    @tilelang.jit(target="sm_90a")
    def rows(A):
        M = T.dynamic("M")
        A: T.Tensor((M, 8), T.float32)
        B = T.empty((1,), T.int32)
        with T.Kernel(1, threads=32):
            B[0] = M
        return B

    assert [int(rows(torch.zeros(m, 8))) for m in (3, 3, 5, 3, 9)] == [3, 3, 5, 3, 9]
