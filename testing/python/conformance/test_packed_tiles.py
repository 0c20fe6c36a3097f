"""Tiles of 4-bit elements whose first use decides that they lie two in a byte; views of bytes."""

from __future__ import annotations

import pytest
import torch
from conformance.running import equal, integers, poison, run

import tilelang.language as T
from tilelang import errors

M, N = 20, 48
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def values_of(codes: torch.Tensor) -> torch.Tensor:
    """The numbers that codes of float4_e2m1fn mean."""
    return VALUES[(codes & 7).long()] * torch.where(codes > 7, -1.0, 1.0)


def codes_of(packed: torch.Tensor) -> torch.Tensor:
    """Two codes of each byte, the low bits first."""
    bits = packed.view(torch.uint8)
    return torch.stack([bits & 15, bits >> 4], -1).reshape(*bits.shape[:-1], -1)


@pytest.mark.every_schedule
def test_elements_stored_below_a_view(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N // 2), "uint8")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((M, N), T.float4_e2m1fn)
            as_bytes = T.view(tile, (M, N // 2), dtype=T.uint8)
            for i, j in T.Parallel(M, N):
                tile[i, j] = T.cast(A[i, j], T.float4_e2m1fn)
            T.copy(as_bytes, B)

    codes = integers(M, N, low=0, high=16, dtype="uint8")
    b = run(main, target, values_of(codes).half(), poison(M, N // 2, dtype="uint8"))
    equal(codes_of(b), codes)


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "int4", "uint4"])
@pytest.mark.parametrize("slots", [1, 2])
def test_tma_copies(dtype: str, slots: int, target: str) -> None:
    if target == "sm_80":
        pytest.skip("sm_80 has no TMA")

    @T.prim_func
    def main(A: T.Tensor((64, 128), dtype), B: T.Tensor((64, 128), dtype)):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            tile = T.alloc_shared((slots, 32, 64), dtype)
            full = T.alloc_barrier(128)
            T.tma_copy(A[by * 32, bx * 64], tile[slots - 1, :, :], barrier=full)
            T.barrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.tma_copy(tile[slots - 1, :, :], B[by * 32, bx * 64])

    a = integers(64, 64, low=0, high=256, dtype="uint8")
    equal(run(main, target, a, poison(64, 64, dtype="uint8")), a)


@pytest.mark.parametrize("byte", ["int8", "uint8"])
def test_bytes_as_elements_and_back(byte: str, target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((M, N // 2), byte),
        B: T.Tensor((M, N), "float16"),
        C: T.Tensor((M, N), T.float4_e2m1fn),
        D: T.Tensor((M * N // 2,), byte),
    ):
        with T.Kernel(1, threads=64):
            elements = T.view(A, (M, N), dtype=T.float4_e2m1fn)
            for i, j in T.Parallel(M, N):
                B[i, j] = elements[i, j]
            T.copy(elements, C)
            T.copy(T.view(C, (M * N // 2,), dtype=byte), D)

    a = integers(M, N // 2, low=-128, high=128, dtype="int8").view(getattr(torch, byte))
    b, c = poison(M, N, dtype="float16"), poison(M, N // 2, dtype="uint8")
    d = poison(M * N // 2, dtype=byte)
    run(main, target, a, b, c, d)
    equal(b, values_of(codes_of(a)))
    equal(c, a.view(torch.uint8))
    equal(d, a.reshape(-1))


def test_tiles_in_use_stay_as_they_lie(target: str) -> None:
    """A copy that converts puts each element in one of its own, for arithmetic."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "int4"), B: T.Tensor((M, N), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((M, N), "int4")
            T.copy(A, tile)
            for i, j in T.Parallel(M, N):
                B[i, j] = tile[i, j] * 3

    a = integers(M, N // 2, low=-128, high=128, dtype="int8")
    b = run(main, target, a, poison(M, N, dtype="int32"))
    signed = codes_of(a).int()
    equal(b, torch.where(signed > 7, signed - 16, signed) * 3)


def test_layouts_of_values_and_of_views(target: str) -> None:
    """A fragment of 4-bit elements has the layout of its values, a plain view one of its tile."""

    @T.prim_func
    def main(
        A: T.Tensor((M, N), T.float4_e2m1fn),
        B: T.Tensor((M, N), "float16"),
        C: T.Tensor((M, 2 * N), "int8"),
    ):
        with T.Kernel(1, threads=32):
            row = T.alloc_fragment((M, N), T.float4_e2m1fn)
            stage = T.alloc_shared((2, M, N), "float16")
            stored = T.view(stage, (2, M, 2 * N), dtype=T.int8)
            T.annotate_layout(
                {
                    row: T.Fragment((M, N), forward_fn=lambda i, j: (i, j)),
                    stored: T.Layout((2, M, 2 * N), lambda s, i, j: [s, i, j]),
                }
            )
            T.copy(A, row)
            for i, j in T.Parallel(M, N):
                B[i, j] = row[i, j]
            for i, j in T.Parallel(M, N):
                stage[1, i, j] = row[i, j] * 3
            for i, j in T.Parallel(M, 2 * N):
                C[i, j] = stored[1, i, j]

    a = integers(M, N // 2, low=-128, high=128, dtype="int8")
    b, c = poison(M, N, dtype="float16"), poison(M, 2 * N, dtype="int8")
    run(main, target, a, b, c)
    expected = values_of(codes_of(a))
    equal(b, expected)
    equal(c, (expected * 3).half().view(torch.int8))


@pytest.mark.parametrize("memory", [T.alloc_shared, T.alloc_fragment])
def test_reshaped_tiles(memory, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), T.float4_e2m1fn), B: T.Tensor((M, 6), "float32")):
        with T.Kernel(1, threads=32):
            tile = memory((M, N), T.float4_e2m1fn)
            T.copy(A, tile)
            groups = T.reshape(tile, (M, 6, 8))
            for i, g in T.Parallel(M, 6):
                B[i, g] = groups[i, g, 1] - groups[i, 5 - g, 7]

    a = integers(M, N // 2, low=-128, high=128, dtype="int8")
    b = run(main, target, a, poison(M, 6))
    grouped = values_of(codes_of(a)).view(M, 6, 8)
    equal(b, grouped[:, :, 1] - grouped[:, :, 7].flip(1))


def test_late_views_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="must precede all uses"):

        @T.prim_func
        def late(A: T.Tensor((M, N), "int4"), B: T.Tensor((M, N // 2), "uint8")):
            with T.Kernel(1, threads=64):
                tile = T.alloc_shared((M, N), "int4")
                T.copy(A, tile)
                T.copy(T.view(tile, (M, N // 2), dtype="uint8"), B)

    with pytest.raises(errors.ShapeError, match="needs 3840 bits, but the buffer has 7680"):

        @T.prim_func
        def short(A: T.Tensor((M, N), "uint8")):
            with T.Kernel(1, threads=64):
                T.view(A, (M, N), dtype="int4")
