"""Fragments at other elements than those that a thread holds: reversed, by rows, in slices."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import SemanticsError

DTYPES = ["float32", "float16", "int8"]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def run(func: Any, device: str, *inputs: torch.Tensor, out: tuple[int, ...], scalars=()) -> Any:
    """The result of ``func(*inputs, result, *scalars)``; not a warning is allowed."""
    kernel = tilelang.compile(func, target="auto" if device == "cuda" else "sm_90a")
    dtype = inputs[0].dtype
    poison = float("nan") if dtype.is_floating_point else 77
    result = torch.full(out, poison, dtype=dtype, device=device)
    kernel(*(x.to(device) for x in inputs), result, *scalars)
    return result.cpu()


def values(*shape: int, dtype: str = "float32") -> torch.Tensor:
    return torch.randint(-60, 60, shape).to(getattr(torch, dtype))


pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "threads"), [(1, 64, 32), (24, 40, 64), (64, 64, 128)])
def test_reversed(device: str, m: int, n: int, threads: int, dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((2, m, n), dtype)):
        with T.Kernel(1, threads=threads):
            f = T.alloc_fragment((m, n), dtype)
            g = T.alloc_fragment((m, n), dtype)
            T.copy(A, f)
            for i, j in T.Parallel(m, n):
                g[i, j] = f[i, n - 1 - j]
            T.copy(g, B[0, :, :])
            for i, j in T.Parallel(m, n):
                B[1, i, j] = g[m - 1 - i, j] + f[i, j]

    a = values(m, n, dtype=dtype)
    flipped = a.flip(1)
    expected = torch.stack([flipped, flipped.flip(0) + a])
    assert torch.equal(run(kernel, device, a, out=(2, m, n)), expected)


@pytest.mark.parametrize(("rows", "n", "threads"), [(4, 64, 128), (5, 48, 64), (16, 128, 128)])
def test_rows_by_a_serial_index(device: str, rows: int, n: int, threads: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((rows, n), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=threads):
            f = T.alloc_fragment((rows, n), "float32")
            r = T.alloc_fragment((n,), "float32")
            T.copy(A, f)
            T.clear(r)
            for q in T.serial(rows):
                for j in T.Parallel(n):
                    r[j] = r[j] * 2 + f[q, j]
            T.copy(r, B)

    a = values(rows, n)
    expected = torch.zeros(n)
    for row in a:
        expected = expected * 2 + row
    assert torch.equal(run(kernel, device, a, out=(n,)), expected)


def test_a_row_known_at_run_time(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float32"), B: T.Tensor((64,), "float32"), row: T.int32):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((32, 64), "float32")
            T.copy(A, f)
            for j in T.Parallel(64):
                B[j] = f[row, j] + f[31, j]

    a = values(32, 64)
    for row in (0, 17, 31):
        expected = a[row] + a[31]
        assert torch.equal(run(kernel, device, a, out=(64,), scalars=(row,)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_slices_by_a_serial_index(device: str, along: str, dtype: str) -> None:
    """Slices of one fragment are copied to a smaller one, and from there into another."""
    by_rows = along == "rows"
    small = (16, 64) if by_rows else (64, 16)

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((64, 64), dtype)
            g = T.alloc_fragment((64, 64), dtype)
            part = T.alloc_fragment(small, dtype)
            T.copy(A, f)
            for q in T.serial(4):
                if by_rows:
                    T.copy(f[q * 16 : q * 16 + 16, :], part)
                else:
                    T.copy(f[:, q * 16 : q * 16 + 16], part)
                for i, j in T.Parallel(*small):
                    part[i, j] = part[i, j] + T.cast(q, dtype)
                if by_rows:
                    T.copy(part, g[(3 - q) * 16 : (3 - q) * 16 + 16, :])
                else:
                    T.copy(part, g[:, (3 - q) * 16 : (3 - q) * 16 + 16])
            T.copy(g, B)

    a = values(64, 64, dtype=dtype)
    parts = [p + q for q, p in enumerate(a.split(16, dim=0 if by_rows else 1))]
    expected = torch.cat(parts[::-1], dim=0 if by_rows else 1).to(a.dtype)
    assert torch.equal(run(kernel, device, a, out=(64, 64)), expected)


def test_partial_writes_keep_the_rest(device: str) -> None:
    """Every other element, under a condition, of a fragment that is read again."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), q: T.int32):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((64, 64), "float32")
            T.copy(A, f)
            for i, j in T.Parallel(32, 32):
                if (i + j) % 3 == 0:
                    f[63 - 2 * i, (j + q) % 64] = T.cast(i * 100 + j, "float32")
            T.copy(f, B)

    a = values(64, 64)
    expected = a.clone()
    for i in range(32):
        for j in range(32):
            if (i + j) % 3 == 0:
                expected[63 - 2 * i, (j + 40) % 64] = i * 100 + j
    assert torch.equal(run(kernel, device, a, out=(64, 64), scalars=(40,)), expected)


def test_one_fragment_in_two_ways(device: str) -> None:
    """Column k gets column 0 added, which other threads hold; column 0 itself is first."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((128, 64), "float32")
            T.copy(A, f)
            for k in T.serial(64):
                for i in T.Parallel(128):
                    f[i, k] = f[i, k] + f[i, 0]
            T.copy(f, B)

    a = values(128, 64)
    expected = a + 2 * a[:, :1]
    expected[:, 0] = 2 * a[:, 0]
    assert torch.equal(run(kernel, device, a, out=(128, 64)), expected)


def test_the_way_through_shared_memory_is_remarked() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((64,), "float32")
            T.copy(A, f)
            for i in T.Parallel(64):
                B[i] = f[63 - i]

    (remark,) = tilelang.compile(kernel, target="sm_90a").remarks
    assert remark.topic == "layout"
    assert "this loop reads elements of fragment f that other threads hold" in remark.message


def test_a_fragment_reversed_in_place_is_refused() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((64,), "float32")
            T.copy(A, f)
            for i in T.Parallel(64):
                f[i] = f[63 - i]
            T.copy(f, A)

    with pytest.raises(SemanticsError, match="which another iteration writes"):
        tilelang.compile(kernel, target="sm_90a")


@pytest.mark.parametrize("seed", range(6))
def test_vectors_in_loops_of_any_size(device: str, seed: int) -> None:
    """A row and a column vector in a loop over a tile, for sizes that threads do not divide."""
    generator = random.Random(seed)
    m, n, threads = (generator.choice(s) for s in ((5, 33, 64, 65), (16, 32, 40), (96, 160, 192)))
    keep = generator.choice((True, False))

    @T.prim_func
    def kernel(
        R: T.Tensor((n,), "int32"), C: T.Tensor((m,), "int32"), B: T.Tensor((m, n), "int32")
    ):
        with T.Kernel(1, threads=threads):
            r, c = T.alloc_fragment((n,), "int32"), T.alloc_fragment((m,), "int32")
            f, s = T.alloc_fragment((m, n), "int32"), T.alloc_shared((m, n), "int32")
            T.copy(R, r)
            T.copy(C, c)
            for i, j in T.Parallel(m, n):
                if keep:
                    f[i, j] = r[n - 1 - j] - r[j] * c[i]
                else:
                    s[i, j] = r[n - 1 - j] - r[j] * c[i]
            if keep:
                T.copy(f, s)
            T.copy(s, B)

    row, column = values(n, dtype="int32"), values(m, dtype="int32")
    expected = row.flip(0)[None] - row[None] * column[:, None]
    assert torch.equal(run(kernel, device, row, column, out=(m, n)), expected)


def test_a_condition_that_leaves_one_element(device: str) -> None:
    """Under j <= 0 (or j == 3) an element at j is still the iteration's own."""

    @T.prim_func
    def kernel(A: T.Tensor((24, 40), "float32"), B: T.Tensor((24, 40), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((24, 40), "float32")
            T.copy(A, f)
            for i, j in T.Parallel(24, 40):
                f[i, j] = T.if_then_else(j <= 0, f[i, j], f[i, j] + 1)
            for i, j in T.Parallel(24, 40):
                if i == 3:
                    f[i, j] = f[i, j] * 2
            T.copy(f, B)

    a = values(24, 40)
    expected = a + (torch.arange(40) > 0)
    expected[3] *= 2
    assert torch.equal(run(kernel, device, a, out=(24, 40)), expected)
