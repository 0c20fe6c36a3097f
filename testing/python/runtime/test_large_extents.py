"""Tensors of 2^31 elements and more: 32-bit extents and strides name the remedy, which works."""

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


def rows(stride, count=2):
    @T.prim_func
    def main(
        A: T.StridedTensor((count, 256), (stride, 1), "int8"), B: T.Tensor((count, 256), "int8")
    ):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(2, 256):
                B[i, j] = A[i, j]

    return tilelang.compile(main, target="sm_90a")


def far_apart(stride: int) -> torch.Tensor:
    """Two rows of 256 bytes, `stride` apart."""
    found = torch.as_strided(torch.empty(stride + 256, dtype=torch.int8), (2, 256), (stride, 1))
    return found.copy_(torch.arange(512).view(2, 256) % 100)


@pytest.mark.parametrize("stride", [2**31, 2**31 + 64, 2**32 + 256])
def test_strides_that_need_64_bits(stride: int) -> None:
    a, b = far_apart(stride), torch.zeros(2, 256, dtype=torch.int8)
    remedy = (
        rf"stride 0 of argument \'A\' is {stride}, which does not fit the dtype of \'s\'; declare"
        r" it as T\.dynamic\("
    )
    with pytest.raises(errors.ArgumentError, match=remedy):
        rows(T.dynamic("s"))(a, b)
    rows(T.dynamic("s", "int64"))(a, b)
    assert torch.equal(a, b)


def test_the_stride_of_one_row_is_never_used() -> None:
    a = far_apart(2**31 + 64)[1:]
    b = torch.zeros(1, 256, dtype=torch.int8)

    @T.prim_func
    def main(
        A: T.StridedTensor((1, 256), (T.dynamic("s"), 1), "int8"), B: T.Tensor((1, 256), "int8")
    ):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(1, 256):
                B[i, j] = A[i, j]

    tilelang.compile(main, target="sm_90a")(a, b)
    assert torch.equal(a, b)


def test_a_solved_size_that_needs_64_bits() -> None:
    """The variable of a stride that is more than the variable."""
    a, b = far_apart(2**32 + 256), torch.zeros(2, 256, dtype=torch.int8)
    with pytest.raises(errors.ArgumentError, match=r"'s' is 2147483776 by stride 0 of 'A', which"):
        rows(T.dynamic("s") * 2)(a, b)


def test_a_stride_is_a_product_of_small_sizes() -> None:
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def main(
        A: T.StridedTensor((2, n, m), (n * m, m, 1), "int8"),
        B: T.Tensor((2, 4), "int8"),
    ):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(2, 4):
                B[i, j] = A[i, n - 1, m - 4 + j]

    a = torch.empty(2, 2**16 + 1, 2**15, dtype=torch.int8)
    a[:, -1, -4:] = torch.arange(8).view(2, 4)
    b = torch.zeros(2, 4, dtype=torch.int8)
    tilelang.compile(main, target="sm_90a")(a, b)
    assert torch.equal(b, a[:, -1, -4:])


def test_a_size_that_is_a_product_of_small_sizes() -> None:
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((n * m,), "int8"), B: T.Tensor((n, m, 0), "int8")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(4):
                A[i] = 1

    a = torch.empty(2**31 + 2**15, dtype=torch.int8)
    b = torch.zeros(2**16 + 1, 2**15, 0, dtype=torch.int8)
    with pytest.raises(errors.ArgumentError, match=r"does not fit the dtype of 'n \* m'; declare"):
        tilelang.compile(main, target="sm_90a")(a, b)
