"""Indices of lanes, warps and warpgroups of every size, against the index of the thread."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import SemanticsError

SIZES = (None, 1, 2, 8, 16, 24, 32, 48, 64, 128)
THREADS = (64, 4)


def test_indices_of_every_size() -> None:
    rows, total = len(SIZES), THREADS[0] * THREADS[1]

    @T.prim_func
    def kernel(A: T.Tensor((5, rows, total), "int32")):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding(1) * THREADS[0] + T.get_thread_binding(0)
            for row, size in enumerate(SIZES):
                A[0, row, t] = T.get_lane_idx(size)
                A[1, row, t] = T.get_warp_idx(size)
                A[2, row, t] = T.get_warp_idx_sync(size)
                A[3, row, t] = T.get_warp_group_idx(size)
                A[4, row, t] = T.get_warp_group_idx(size, 2)

    got = np.full((5, rows, total), -1, np.int32)
    tilelang.compile(kernel, target="sm_100a")(got)
    t = np.arange(total)
    for row, given in enumerate(SIZES):
        size = given or 32
        expected = [t % size, t // size, t // size, t // (4 * size), t // (2 * size)]
        assert (got[:, row] == np.stack(expected)).all(), given


def test_one_thread_of_each_group_is_elected() -> None:
    sizes = (0, 1, 3, 32, 64)

    @T.prim_func
    def kernel(A: T.Tensor((len(sizes), 128), "int32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            for row, size in enumerate(sizes):
                A[row, t] = T.if_then_else(T.shuffle_elect(size), 1, 0)

    got = np.full((len(sizes), 128), -1, np.int32)
    tilelang.compile(kernel, target="sm_100a")(got)
    t = np.arange(128)
    for row, size in enumerate(sizes):
        assert (got[row] == (t % (size or 128) == 0)).all()


WRONG = {
    "lane": lambda value: T.get_lane_idx(value),
    "warp": lambda value: T.get_warp_idx(value),
    "synchronized warp": lambda value: T.get_warp_idx_sync(value),
    "warpgroup": lambda value: T.get_warp_group_idx(value),
    "warps": lambda value: T.get_warp_group_idx(32, value),
    "elected": lambda value: T.shuffle_elect(value),
}


@pytest.mark.parametrize("value", [-1, 1.5, "32", True, (32,)])
@pytest.mark.parametrize("name", WRONG)
def test_sizes_that_are_none_are_refused(name: str, value: object) -> None:
    with pytest.raises(SemanticsError, match="must be a positive integer"):

        @T.prim_func
        def kernel(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                A[0] = WRONG[name](value)


@pytest.mark.parametrize("width", [0, 3, 33, 64, -1])
def test_widths_of_shuffles_are_powers_of_two(width: int) -> None:
    with pytest.raises(SemanticsError, match="power of two"):

        @T.prim_func
        def kernel(A: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                A[T.get_thread_binding()] = T.shfl_sync(A[0], 0, width)
