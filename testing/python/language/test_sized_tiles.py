"""Shared tiles whose extents are known at the call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

n, m, p = T.dynamic("n"), T.dynamic("m"), T.dynamic("p")
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


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_several_tiles_of_unknown_extents(target: str) -> None:
    """Tiles of different types, in another order than their uses, beside a tile of the compiler."""

    @T.prim_func
    def main(
        A: T.Tensor((n, m), "float32"),
        B: T.Tensor((p,), "int8"),
        W: T.Tensor((64, 64), "float16"),
        C: T.Tensor((m, n), "float32"),
        D: T.Tensor((p,), "int8"),
    ):
        with T.Kernel(1, threads=64):
            w = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((p,), "int8")
            a = T.alloc_shared((n, m), "float32")
            c = T.alloc_shared((m, n), "float32")
            T.copy(W, w)
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(m, n):
                c[i, j] = a[j, i] + w[i % 64, j % 64]
            for i in T.Parallel(p):
                D[i] = b[p - 1 - i]
            T.copy(c, C)

    kernel = tilelang.compile(main, target=target)
    w = data(64, 64, dtype=torch.float16)
    for rows, columns, size in ((3, 5, 7), (33, 17, 1000), (1, 1, 1), (64, 64, 129)):
        a, b = data(rows, columns), data(size, dtype=torch.int8)
        c, d = torch.zeros(columns, rows), torch.zeros_like(b)
        kernel(a, b, w, c, d)
        i, j = torch.arange(columns)[:, None] % 64, torch.arange(rows) % 64
        assert torch.equal(c, a.T + w[i, j].float())
        assert torch.equal(d, b.flip(0))
    with pytest.raises(errors.ArgumentError, match="bytes of shared memory, but a block has"):
        kernel(data(200, 200), b, w, torch.zeros(200, 200), d)


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_that_take_turns_in_a_loop(target: str) -> None:
    """Every round reads from one tile what the round before wrote to it."""

    @T.prim_func
    def rotated(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32"), rounds: T.int32):
        with T.Kernel(1, threads=64):
            front = T.alloc_shared((n,), "int32")
            back = T.alloc_shared((n,), "int32")
            T.copy(A, front)
            for _ in T.serial(rounds):
                for i in T.Parallel(n):
                    back[i] = front[(i + 1) % n]
                for i in T.Parallel(n):
                    front[i] = back[i] + 1
            T.copy(front, B)

    kernel = tilelang.compile(rotated, target=target)
    for size, rounds in ((1, 3), (65, 4), (500, 2), (64, 0)):
        a, b = data(size, dtype=torch.int32), torch.zeros(size, dtype=torch.int32)
        kernel(a, b, rounds)
        assert torch.equal(b, a.roll(-rounds) + rounds)


@pytest.mark.parametrize("target", TARGETS)
def test_slices_of_constant_extents_are_operands(target: str) -> None:
    @T.prim_func
    def product(
        A: T.Tensor((64, m), "float16"),
        B: T.Tensor((m, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
        R: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, m), "float16")
            b = T.alloc_shared((m, 64), "float16")
            row = T.alloc_fragment((64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for k in T.serial(m // 64):
                T.gemm(a[:, k * 64 : k * 64 + 64], b[k * 64 : k * 64 + 64, :], c)
            T.copy(a[:, m - 64 : m], row)
            T.reduce_sum(row, total, dim=1)
            T.copy(c, C)
            T.copy(total, R)

    kernel = tilelang.compile(product, target=target)
    for size in (64, 192):
        a, b = torch.randn(64, size).half(), torch.randn(size, 64).half()
        c, r = torch.zeros(64, 64), torch.zeros(64)
        kernel(a, b, c, r)
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(r, a[:, -64:].float().sum(1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_of_a_pipelined_loop(target: str) -> None:
    @T.prim_func
    def reversed_rows(A: T.Tensor((n, m), "float32"), B: T.Tensor((n, m), "float32")):
        with T.Kernel(1, threads=128):
            row = T.alloc_shared((m,), "float32")
            turned = T.alloc_shared((m,), "float32")
            for i in T.Pipelined(n, num_stages=2):
                T.copy(A[i, 0:m], row)
                for j in T.Parallel(m):
                    turned[j] = row[m - 1 - j]
                T.copy(turned, B[i, 0:m])

    kernel = tilelang.compile(reversed_rows, target=target)
    for shape in ((5, 70), (1, 1), (3, 256)):
        a, b = data(*shape), torch.zeros(shape)
        kernel(a, b)
        assert torch.equal(b, a.flip(1))


@pytest.mark.parametrize("copies", [0, -3])
def test_a_tile_of_no_elements_takes_no_bytes(copies: int) -> None:
    """Tiles before and behind it keep their elements."""

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), copies: T.int32):
        with T.Kernel(1, threads=32):
            before = T.alloc_shared((n,), "int32")
            empty = T.alloc_shared((copies, 64), "int32")
            behind = T.alloc_shared((n,), "int32")
            T.copy(A, before)
            for i in T.Parallel(n):
                behind[i] = before[n - 1 - i]
            for c, i in T.Parallel(copies, 64):
                empty[c, i] = 0
            for i in T.Parallel(n):
                A[i] = before[i] * 1000 + behind[i]

    kernel = tilelang.compile(main, target="sm_100a")
    a = data(77, dtype=torch.int32)
    expected = a * 1000 + a.flip(0)
    kernel(a, copies)
    assert torch.equal(a, expected)


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
            if kind == "of the block":
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
