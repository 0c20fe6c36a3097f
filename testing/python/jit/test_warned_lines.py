"""Warnings name the user's line, whatever part of the package gives them."""

from __future__ import annotations

import warnings

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import options


@tilelang.jit
def shifted(A):
    N = T.const("N")
    A: T.Tensor[[N], T.float32]
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            C[block * 128 + i] = A[block * 128 + i] + 1
    return C


def _eager(x):
    return shifted(x)


def _compiled(x):
    return shifted.compile(x)(x)


@pytest.mark.parametrize("call", [_eager, _compiled])
def test_lost_gradient(call):
    x = torch.randn(384 if call is _eager else 512, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(x)
    (warning,) = (each for each in caught if "requires a gradient" in str(each.message))
    assert (warning.filename, warning.lineno) == (__file__, call.__code__.co_firstlineno + 1)


def test_sample_of_the_blocks():
    x = torch.randn(128 * 64)
    with warnings.catch_warnings(record=True) as caught, options(blocks=3):
        warnings.simplefilter("always")
        _eager(x)
    (warning,) = (each for each in caught if "of 64 blocks" in str(each.message))
    assert (warning.filename, warning.lineno) == (__file__, _eager.__code__.co_firstlineno + 1)
