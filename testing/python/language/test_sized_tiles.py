"""Shared tiles whose extents are known at the call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

n, m = T.dynamic("n"), T.dynamic("m")
TARGETS = ["sm_100a", "sm_90a", "sm_80"]


def data(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-100, 100, shape).to(dtype)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_tile_of_two_unknown_extents(dtype: str, target: str) -> None:
    @T.prim_func
    def transpose(A: T.Tensor((n, m), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((n, m), dtype)
            T.copy(A, tile)
            for i, j in T.Parallel(m, n):
                B[i, j] = tile[j, i]

    kernel = tilelang.compile(transpose, target=target)
    for rows, columns in ((33, 17), (1, 1), (5, 200), (33, 17)):
        a = data(rows, columns, dtype=getattr(torch, dtype))
        b = torch.full_like(a.T.contiguous(), 77)
        kernel(a, b)
        assert torch.equal(b, a.T)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_beside_tiles_of_constant_extents(target: str) -> None:
    """The matrix product's own tiles are apart from the row that is kept for the whole kernel."""

    @T.prim_func
    def scaled(
        A: T.Tensor((64, 96), "float16"),
        B: T.Tensor((96, 64), "float16"),
        S: T.Tensor((m,), "float32"),
        C: T.Tensor((64, 64), "float32"),
        R: T.Tensor((m,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            row = T.alloc_shared((m,), "float32")
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(S, row)
            T.clear(c)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)
            for i in T.Parallel(m):
                R[i] = row[m - 1 - i] * 2

    kernel = tilelang.compile(scaled, target=target)
    for size in (3, 1000):
        a, b = torch.randn(64, 96).half(), torch.randn(96, 64).half()
        s, c, r = torch.randn(size), torch.zeros(64, 64), torch.zeros(size)
        kernel(a, b, s, c, r)
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
        assert torch.equal(r, s.flip(0) * 2)


@pytest.mark.parametrize("target", TARGETS)
def test_extents_are_expressions_of_parameters(target: str) -> None:
    half = T.ceildiv(n, 2)

    @T.prim_func
    def folded(A: T.Tensor((n,), "int32"), B: T.Tensor((2, half), "int32"), copies: T.int32):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((copies, half, 4), "int32")
            for c, i, j in T.Parallel(copies, half, 4):
                tile[c, i, j] = A[i] + c * 10 + j
            T.sync_threads()
            for i in T.Parallel(half):
                B[bx, i] = tile[copies - 1, i, 3] + bx

    kernel = tilelang.compile(folded, target=target)
    for size, copies in ((8, 1), (7, 5)):
        a = data(size, dtype=torch.int32)
        kept = (size + 1) // 2
        b = torch.zeros(2, kept, dtype=torch.int32)
        kernel(a, b, copies)
        first = a[:kept] + (copies - 1) * 10 + 3
        assert torch.equal(b, torch.stack([first, first + 1]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_launch_asks_for_the_bytes_of_the_call(target: str) -> None:
    @T.prim_func
    def reversed_row(A: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((n,), "int32")
            T.copy(A, tile)
            for i in T.Parallel(n):
                A[i] = tile[n - 1 - i]

    kernel = tilelang.compile(reversed_row, target=target)
    most = {"sm_80": 163}.get(target, 227) * 256  # elements of 4 bytes
    a = data(most, dtype=torch.int32)
    expected = a.flip(0)
    kernel(a)
    assert torch.equal(a, expected)
    with pytest.raises(errors.ArgumentError, match=rf"but a block has at most {most * 4}"):
        kernel(data(most + 1, dtype=torch.int32))


def test_elements_behind_the_tile_are_reported() -> None:
    @T.prim_func
    def beyond(A: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((n,), "int32")
            T.copy(A, tile)
            A[0] = tile[n + 64]

    kernel = tilelang.compile(beyond, target="sm_100a")
    with pytest.raises(errors.EmulatorError, match="shared memory"):
        kernel(data(100, dtype=torch.int32))


def _wrong(kind: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((n, 64), "float16"), B: T.Tensor((64, 64), "float16"), x: T.float32):
        with T.Kernel(n, threads=128) as bx:
            if kind == "two":
                T.alloc_shared((n,), "float16")
                T.alloc_shared((2 * n,), "float16")
            elif kind == "of the block":
                T.alloc_shared((bx + 1,), "float16")
            elif kind == "computed":
                size = A[0, 0].astype("int32")
                T.alloc_shared((size,), "float16")
            elif kind == "float":
                T.alloc_shared((x,), "float16")
            elif kind == "negative":
                T.alloc_shared((n, -1), "float16")
            else:
                tile = T.alloc_shared((n, 64), "float16")
                b = T.alloc_shared((64, 64), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.copy(B, b)
                T.copy(A, tile)
                T.gemm(tile, b, c)

    return main


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("two", errors.ResourceError, "a kernel has one shared tile whose extents are known at"),
        ("of the block", errors.ShapeError, "`bx` is known in the kernel only"),
        ("computed", errors.ShapeError, "is known in the kernel only"),
        ("float", errors.DTypeError, "has type float32; extents are integers"),
        ("negative", errors.ShapeError, "extent -1 of T.alloc_shared is not positive"),
        ("gemm", errors.CompileError, "T.gemm"),
    ],
)
def test_what_is_no_size_of_a_call(kind: str, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        tilelang.compile(_wrong(kind), target="sm_100a")
