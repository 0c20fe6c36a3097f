"""Rows of odd length in layouts of neighbouring elements: vectors that begin at any element."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def compiled(func: Any, device: str = "cpu", target: str = "sm_90a") -> Any:
    return tilelang.compile(func, target="auto" if device == "cuda" else target)


def random(shape: tuple[int, ...], dtype: str, device: str) -> torch.Tensor:
    return torch.randint(0, 99, shape).to(getattr(torch, dtype)).to(device)


def begins_at(element: int, of: torch.Tensor) -> torch.Tensor:
    """A copy whose first element is ``element`` elements beyond a multiple of 16 bytes."""
    flat = torch.full((of.numel() + 64,), 77, dtype=of.dtype, device=of.device)
    skipped = -flat.data_ptr() % 16 // of.element_size() + element
    flat[skipped : skipped + of.numel()] = of.flatten()
    return flat[skipped : skipped + of.numel()].view(of.shape)


def widths(kernel: Any) -> set[str]:
    found = re.findall(r"(ld|st)\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)", kernel.get_ptx())
    return {f"{name}{int(count or 1) * int(bits) // 8}" for name, count, bits in found}


def doubled(rows: Any, columns: Any, dtype: str, chunk: int = 512, threads: int = 64) -> Any:
    """Y = 2 X; Z, whose vectors are aligned, has a thread hold neighbouring elements."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, columns), dtype),
        Y: T.Tensor((rows, columns), dtype),
        Z: T.Tensor((chunk,), dtype),
    ):
        with T.Kernel(T.ceildiv(columns, chunk), rows, threads=threads) as (part, row):
            x, z = (T.alloc_fragment((chunk,), dtype) for _ in range(2))
            T.copy(Z, z)
            for j in T.Parallel(chunk):
                x[j] = z[j]
            T.copy(X[row, part * chunk], x)
            for j in T.Parallel(chunk):
                x[j] += x[j]
            T.copy(x, Y[row, part * chunk])

    return kernel


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("columns", [1, 517, 1031, "dynamic"])
def test_rows_that_begin_anywhere(device: str, dtype: str, columns: int | str) -> None:
    """Every place in 16 bytes at which a row may begin, by rows and by where the tensor does."""
    dynamic = columns == "dynamic"
    # 1024 bytes a block: threads of fewer than 16 bytes would be given more.
    chunk = 1024 if dtype == "uint8" else 512
    kernel = compiled(doubled(5, T.dynamic("n") if dynamic else columns, dtype, chunk), device)
    for n in (1031, 517, 3) if dynamic else (columns,):
        for first in (0,) if dynamic else (0, 1, 3):  # rows of whole vectors begin at multiples
            x = random((5, n), dtype, device)
            y = begins_at(first, torch.zeros_like(x))
            around = y.untyped_storage()
            whole = torch.tensor([], dtype=y.dtype, device=device).set_(around)
            outside = (whole == 77).sum()
            kernel(begins_at(first, x), y, torch.zeros(chunk, device=device).to(x.dtype))
            assert torch.equal(y, x + x)
            assert (whole == 77).sum() >= outside
    if columns != 1:
        assert {"ld16", "st16"} <= widths(kernel)


def test_free_layouts_are_by_element(device: str) -> None:
    """Elements of neighbouring lanes coalesce as well, without shifts."""

    @T.prim_func
    def kernel(X: T.Tensor((3, 1001), "float16"), Y: T.Tensor((3, 1001), "float16")):
        with T.Kernel(3, threads=64) as row:
            x = T.alloc_fragment((1024,), "float16")
            T.copy(X[row, 0], x)
            T.copy(x, Y[row, 0])

    run = compiled(kernel, device)
    assert widths(run) == {"ld2", "st2"}
    x = random((3, 1001), "float16", device)
    y = torch.zeros_like(x)
    run(x, y)
    assert torch.equal(y, x)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_rows_in_columns_of_threads(device: str, target: str) -> None:
    """Lanes of a warp have pieces of several rows, which are no neighbours in memory."""

    @T.prim_func
    def kernel(
        Z: T.Tensor((8, 48), "float16"),
        X: T.Tensor((9, 43), "float16"),
        Y: T.Tensor((9, 43), "float16"),
    ):
        with T.Kernel(T.ceildiv(9, 8), threads=32) as bx:
            x, z = (T.alloc_fragment((8, 48), "float16") for _ in range(2))
            T.copy(Z, z)
            for i, j in T.Parallel(8, 48):
                x[i, j] = z[i, j]
            T.copy(X[bx * 8, 0], x)
            T.copy(x, Y[bx * 8, 0])

    run = compiled(kernel, device, target)
    x = random((9, 43), "float16", device)
    y = torch.full_like(x, torch.nan)
    run(torch.zeros(8, 48, device=device).half(), x, y)
    assert torch.equal(x, y) and {"ld16", "st16"} <= widths(run)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_prefixes_of_rows(device: str, dtype: str) -> None:
    """A thread has neighbouring elements of a scan."""

    @T.prim_func
    def kernel(X: T.Tensor((7, 5001), dtype), Y: T.Tensor((7, 5001), "float32")):
        with T.Kernel(7, threads=128) as row:
            T.cumsum(X[row, :], Y[row, :], dim=1)

    run = compiled(kernel, device)
    x = random((7, 5001), dtype, device)
    y = begins_at(3, torch.full((7, 5001), torch.nan, device=device))
    run(begins_at(1, x), y)
    assert torch.equal(y, x.double().cumsum(1).float())
    assert "ld16" in widths(run)
    assert ("st16" in widths(run)) == (dtype == "float32")  # else a thread has the next vector, too


def test_stores_of_threads_that_have_rows_go_by_element(device: str) -> None:
    """The next vector of a row is no neighbouring lane's: there is nothing to shift to."""

    @T.prim_func
    def kernel(X: T.Tensor((32, 16), "float16"), Y: T.Tensor((32, 17), "float16")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((32, 16), "float16")
            T.annotate_layout({x: T.Fragment((32, 16), forward_fn=lambda i, j: (i, j))})
            T.copy(X, x)
            for i, j in T.Parallel(32, 16):
                Y[i, j + 1] = x[i, j]

    run = compiled(kernel, device)
    x, y = random((32, 16), "float16", device), torch.zeros(32, 17, device=device).half()
    run(x, y)
    assert torch.equal(y[:, 1:], x) and "st16" not in widths(run)


def test_tensors_that_are_read_and_written_stay_by_element(device: str) -> None:
    """Lanes would load what others may be storing."""

    @T.prim_func
    def kernel(X: T.Tensor((5, 1001), "float32")):
        with T.Kernel(5, threads=64) as row:
            T.cumsum(X[row, :], X[row, :], dim=1)

    run = compiled(kernel, device)
    assert widths(run) == {"ld4", "st4"}
    x = random((5, 1001), "float32", device)
    want = x.double().cumsum(1).float()
    run(x)
    assert torch.equal(x, want)


@pytest.mark.parametrize("columns", [191, 193])
def test_loops_load_from_the_iteration_that_runs(columns):
    """NVRTC 13.0 moved the offset of an iteration behind its first use, into the next iteration."""
    rows, tile = 64, 64

    @T.prim_func
    def main(
        Q: T.Tensor((rows, 16), "float16"),
        K: T.Tensor((columns, 16), "float16"),
        B: T.Tensor((rows, columns), "float32"),
        M: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((rows, 16), "float16")
            keys = T.alloc_shared((tile, 16), "float16")
            s = T.alloc_fragment((rows, tile), "float32")
            m = T.alloc_fragment((rows,), "float32")
            T.copy(Q, q)
            T.fill(m, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(columns, tile), num_stages=2):
                T.copy(K[k * tile, 0], keys)
                T.gemm(q, keys, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(rows, tile):
                    s[i, j] = T.tanh(s[i, j])
                for i, j in T.Parallel(rows, tile):
                    s[i, j] = s[i, j] + B[i, k * tile + j]
                for i, j in T.Parallel(rows, tile):
                    s[i, j] = T.if_then_else(k * tile + j < columns, s[i, j], -1e30)
                T.reduce_max(s, m, dim=1, clear=False)
            T.copy(m, M)

    q, k = torch.randint(-1, 2, (rows, 16)).half(), torch.randint(-1, 2, (columns, 16)).half()
    b, m = torch.randint(-99, 99, (rows, columns)).float(), torch.full((rows,), torch.nan)
    tilelang.compile(main, target="sm_100a")(q, k, b, m)
    torch.testing.assert_close(m, (torch.tanh(q.float() @ k.float().T) + b).amax(1))
