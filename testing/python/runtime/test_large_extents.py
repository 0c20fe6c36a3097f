"""Tensors of 2^31 elements and more: an extent of 32 bits names the remedy, which works."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

SIZE = 2**31 + 5


def ends(extent):
    @T.prim_func
    def main(A: T.Tensor((extent,), "int8"), B: T.Tensor((4,), "int8")):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                B[i] = A[extent - 1 - i]

    return tilelang.compile(main, target="sm_90a")


def test_extents_that_need_64_bits() -> None:
    a, b = torch.empty(SIZE, dtype=torch.int8), torch.zeros(4, dtype=torch.int8)
    a[-4:] = torch.tensor([1, 2, 3, 4])
    remedy = r'does not fit the dtype of \'n\'; declare it as T\.dynamic\("n", "int64"\)'
    with pytest.raises(errors.ArgumentError, match=remedy):
        ends(T.dynamic("n"))(a, b)
    ends(T.dynamic("n", "int64"))(a, b)
    assert b.tolist() == [4, 3, 2, 1]
