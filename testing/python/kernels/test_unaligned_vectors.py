"""Rows of odd length: their vectors begin at any element."""

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
    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(columns, chunk), rows, threads=threads) as (part, row):
            x = T.alloc_fragment((chunk,), dtype)
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
    kernel = compiled(doubled(5, T.dynamic("n") if dynamic else columns, dtype), device)
    for n in (1031, 517, 3) if dynamic else (columns,):
        for first in (0,) if dynamic else (0, 1, 3):  # rows of whole vectors begin at multiples
            x = random((5, n), dtype, device)
            y = begins_at(first, torch.zeros_like(x))
            around = y.untyped_storage()
            whole = torch.tensor([], dtype=y.dtype, device=device).set_(around)
            outside = (whole == 77).sum()
            kernel(begins_at(first, x), y)
            assert torch.equal(y, x + x)
            assert (whole == 77).sum() >= outside
    if columns != 1:
        most = 8 if dtype == "uint8" else 16
        assert {f"ld{most}", f"st{most}"} <= widths(kernel)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_rows_in_columns_of_threads(device: str, target: str) -> None:
    """Lanes of a warp have pieces of several rows, which are no neighbours in memory."""

    @T.prim_func
    def kernel(X: T.Tensor((9, 43), "float16"), Y: T.Tensor((9, 43), "float16")):
        with T.Kernel(T.ceildiv(9, 8), threads=32) as bx:
            x = T.alloc_fragment((8, 48), "float16")
            T.copy(X[bx * 8, 0], x)
            T.copy(x, Y[bx * 8, 0])

    run = compiled(kernel, device, target)
    x = random((9, 43), "float16", device)
    y = torch.full_like(x, torch.nan)
    run(x, y)
    assert torch.equal(x, y) and {"ld16", "st16"} <= widths(run)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_sums_of_rows(device: str, dtype: str) -> None:
    """A region that registers could hold is gone through by vectors as well."""
    for columns in (101, 1003, 5001):

        @T.prim_func
        def kernel(X: T.Tensor((7, columns), dtype), S: T.Tensor((7,), "float32")):
            with T.Kernel(7, threads=128) as row:
                T.reduce_sum(X[row, :], S[row], dim=1)

        run = compiled(kernel, device)
        x, s = random((7, columns), dtype, device), torch.full((7,), torch.nan, device=device)
        run(begins_at(1, x), s)
        assert torch.equal(s, x.double().sum(1).float())
        if columns == 5001:
            assert ("ld16" in widths(run)) == (dtype != "float64")


def test_tensors_that_are_read_and_written_stay_by_element(device: str) -> None:
    """Lanes would load what others may be storing."""

    @T.prim_func
    def kernel(X: T.Tensor((5, 1001), "float16")):
        with T.Kernel(5, threads=64) as row:
            x = T.alloc_fragment((512,), "float16")
            T.copy(X[row, 0], x)
            for j in T.Parallel(512):
                x[j] *= 2
            T.copy(x, X[row, 0])

    run = compiled(kernel, device)
    assert widths(run) == {"ld2", "st2"}
    x = random((5, 1001), "float16", device)
    want = x.clone()
    want[:, :512] *= 2
    run(x)
    assert torch.equal(x, want)


def test_neighbours_of_an_element(device: str) -> None:
    @T.prim_func
    def kernel(X: T.Tensor((514,), "float16"), Y: T.Tensor((512,), "float16")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(512):
                Y[i] = X[i] + X[i + 1] + X[i + 2]

    run = compiled(kernel, device)
    x, y = random((514,), "float16", device), torch.zeros(512, device=device).half()
    run(begins_at(1, x), y)
    assert torch.equal(y, x[:-2] + x[1:-1] + x[2:])


@pytest.mark.every_schedule
def test_vectors_beside_those_that_begin_at_multiples(device: str) -> None:
    """W begins where vectors may, each row of X anywhere."""

    @T.prim_func
    def kernel(
        X: T.Tensor((3, 1001), "float16"),
        W: T.Tensor((1001,), "float32"),
        Y: T.Tensor((3, 1001), "float32"),
    ):
        with T.Kernel(3, threads=64) as row:
            for j in T.Parallel(1024):
                if j >= 5 and j < 1001:
                    Y[row, j] = T.cast(X[row, j], "float32") * W[j]

    run = compiled(kernel, device)
    x, w = random((3, 1001), "float16", device), torch.randn(1001, device=device)
    y = torch.full((3, 1001), torch.nan, device=device)
    run(x, w, y)
    assert torch.equal(y[:, 5:], x.float()[:, 5:] * w[5:]) and y[:, :5].isnan().all()
