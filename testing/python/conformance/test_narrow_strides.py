"""Tensors of 4-bit types with strides, and single elements of them that threads write."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, integers, run

import tilelang
import tilelang.language as T
from tilelang import errors

M, N = 5, 16
_KEPT = 77  # what the bytes around a tensor hold


def codes(values: torch.Tensor) -> torch.Tensor:
    """The codes of a packed tensor, one in an element."""
    return torch.stack([values & 15, values >> 4], -1).reshape(*values.shape[:-1], -1)


def strided(row: int, start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """M rows of N codes within rows of so many bytes; and all of these bytes."""
    whole = torch.full((M, row), _KEPT, dtype=torch.uint8)
    return whole[:, start : start + N // 2], whole


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn"])
def test_copies_of_rows_with_strides(dtype: str, target: str) -> None:
    rows, step, other = T.dynamic("rows"), T.dynamic("step"), T.dynamic("other")

    @T.prim_func
    def main(
        A: T.StridedTensor((rows, N), (step, 1), dtype),
        B: T.StridedTensor((rows, N), (other, 1), dtype),
    ):
        with T.Kernel(rows, threads=32) as i:
            T.copy(A[i, :], B[i, :])

    a, _ = strided(11, 2)
    a.copy_(integers(M, N // 2, low=0, high=256, dtype="uint8"))
    b, around = strided(13, 4)
    kernel = tilelang.compile(main, target=target)
    kernel(a, b)
    equal(b, a)
    assert (around[:, :4] == _KEPT).all() and (around[:, 4 + N // 2 :] == _KEPT).all()


@pytest.mark.every_schedule
@pytest.mark.parametrize("threads", [N, 32])
def test_threads_write_single_elements(threads: int, target: str) -> None:
    """Each in another order than its neighbour, so that two threads have one byte."""
    step = 2 * 11

    @T.prim_func
    def main(
        A: T.Tensor((M, N), T.uint4),
        P: T.Tensor((M,), "int32"),
        B: T.StridedTensor((M, N), (step, 1), T.uint4),
    ):
        with T.Kernel(M, threads=threads) as i:
            t = T.get_thread_binding()
            if t < N:
                B[P[i], N - 1 - t] = A[i, t]

    a = integers(M, N // 2, low=0, high=256, dtype="uint8")
    places = torch.randperm(M).int()
    b, around = strided(step // 2, 2)
    tilelang.compile(main, target=target)(a, places, b)
    equal(codes(b)[places.long()], codes(a).flip(1))
    assert (around[:, :2] == _KEPT).all() and (around[:, 2 + N // 2 :] == _KEPT).all()


@pytest.mark.every_schedule
def test_a_packed_tile_is_written_by_elements(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "uint8"), B: T.Tensor((N,), T.uint4)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            tile = T.alloc_shared((N,), T.uint4, packed=True)
            tile[t ^ 1] = A[t]
            T.sync_threads()
            T.copy(tile, B)

    a = integers(N, low=0, high=16, dtype="uint8")
    b = torch.full((N // 2,), _KEPT, dtype=torch.uint8)
    equal(codes(run(main, target, a, b)), a.view(-1, 2).flip(1).reshape(-1))


@pytest.mark.parametrize(("strides", "text"), [((17, 1), "stride 17"), ((32, 2), "stride 2")])
def test_strides_within_a_byte_are_refused(strides: tuple[int, int], text: str) -> None:
    with pytest.raises(errors.ShapeError, match=text):

        @T.prim_func
        def main(A: T.StridedTensor((M, N), strides, T.uint4)):
            with T.Kernel(1, threads=32):
                T.evaluate(A[0, 0])


@pytest.mark.parametrize(
    ("dtype", "elements"), [("float4_e2m1fn", 2), ("int4", 2), ("float8_e8m0fnu", 1)]
)
def test_a_function_describes_its_tensors_by_their_elements(dtype: str, elements: int) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.StridedTensor((m, 64), (256, 1), dtype), B: T.Tensor((8, 32), dtype)):
        with T.Kernel(1, threads=32):
            T.evaluate(A[0, 0])

    a, b = main.buffer_map.values()
    assert (str(a.dtype), str(b.dtype)) == (dtype, dtype)
    assert a.shape[1] == 64 and a.strides == (256, 1)
    assert b.shape == (8, 32) and b.strides == ()
    assert b.source.shape == (8, 32 // elements)
