"""Extents that are no multiples of vectors: vectors in the middle, elements at the end."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ("sm_80", "sm_90a", "sm_100a")
TILE = 1024


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def compiled(func: Any, device: str = "cpu", target: str = "sm_90a") -> Any:
    return tilelang.compile(func, target="auto" if device == "cuda" else target)


def accesses(kernel: Any) -> list[str]:
    """The instructions that access global memory, and the bytes of each: "ld16", "st2", ..."""
    found = re.findall(r"(ld|st)\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)", kernel.get_ptx())
    return [f"{name}{int(count or 1) * int(bits) // 8}" for name, count, bits in found]


def nan(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.full(shape, float("nan"), dtype=dtype, device=device)


def scaled(n: Any, dtype: str, first: int = 0) -> Any:
    """Y[i] = 2 X[i] + X[i] for i from ``first`` on."""

    @T.prim_func
    def kernel(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, TILE), threads=64) as bx:
            for i in T.Parallel(TILE):
                if bx * TILE + i >= first:
                    Y[bx * TILE + i] = X[bx * TILE + i] * 2 + X[bx * TILE + i]

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("length", ["static", "dynamic"])
def test_odd_lengths(device: str, dtype: str, length: str, target: str) -> None:
    sizes = (1, 7, 8, 9, 1023, 1024, 1025, 2100, 3000, 3071)
    kernels: dict[int, Any] = {}
    if length == "dynamic":
        kernels = dict.fromkeys(sizes, compiled(scaled(T.dynamic("n"), dtype), device, target))
    else:
        kernels = {n: compiled(scaled(n, dtype), device, target) for n in sizes[2::3]}
    for n, kernel in kernels.items():
        x = torch.randn(n).to(getattr(torch, dtype)).to(device)
        y = nan((n + 16,), x.dtype, device)
        kernel(x, y[:n])
        want = (x * 2 + x).to(x.dtype) if dtype == "float32" else ((x * 2) + x)
        assert torch.equal(y[:n], want)
        assert y[n:].isnan().all()
        if n >= TILE:
            assert {"ld16", "st16"} <= set(accesses(kernel))


def test_the_main_part_has_no_test_of_each_vector() -> None:
    """Two vectors a thread: a block that is full tests once."""
    source = compiled(scaled(T.dynamic("n"), "float16")).get_kernel_source()
    main = source[source.index("if (") : source.index("} else {")]
    assert main.count("if (") == 1 and main.count("tl::store(") == 1
    assert re.search(r"if \(bx \* 1024 \+ 1023 < n\)", main)


def test_a_ragged_beginning(device: str) -> None:
    kernel = compiled(scaled(2100, "float32", first=1029), device)
    x, y = torch.randn(2100, device=device), nan((2100,), torch.float32, device)
    kernel(x, y)
    assert torch.equal(y[1029:], x[1029:] * 2 + x[1029:])
    assert y[:1029].isnan().all()
    assert {"ld16", "st16"} <= set(accesses(kernel))


def test_conditions_that_are_no_comparisons_stay_by_element(device: str) -> None:
    @T.prim_func
    def kernel(X: T.Tensor((512,), "float32"), M: T.Tensor((512,), "int32"), Y: T.Tensor((512,))):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(512):
                if M[i] > 0:
                    Y[i] = X[i]

    run = compiled(kernel, device)
    assert set(accesses(run)) == {"ld4", "st4"}
    x = torch.randn(512, device=device)
    m = torch.randint(-1, 2, (512,), dtype=torch.int32, device=device)
    y = nan((512,), torch.float32, device)
    run(x, m, y)
    assert torch.equal(y[m > 0], x[m > 0]) and y[m <= 0].isnan().all()


def rows(m: Any, n: Any, dtype: str, assume: int = 0) -> Any:
    """Y = X - (maximum of the row), of rows of up to 512 elements."""

    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, 2), threads=64) as bx:
            if assume:
                T.assume(n % assume == 0)
            T.annotate_safe_value({X: -T.infinity(dtype)})
            x = T.alloc_fragment((2, 512), "float32")
            largest = T.alloc_fragment((2,), "float32")
            T.copy(X[bx * 2, 0], x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(2, 512):
                x[i, j] -= largest[i]
            T.copy(x, Y[bx * 2, 0])

    return kernel


def check_rows(kernel: Any, m: int, n: int, dtype: str, device: str) -> None:
    x = torch.randn(m, n).to(getattr(torch, dtype)).to(device)
    y = nan((m, n), x.dtype, device)
    kernel(x, y)
    want = x.double() - x.double().amax(1, True)
    torch.testing.assert_close(y.double(), want, atol=1e-6, rtol=2**-8)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_rows_of_unknown_length(device: str, dtype: str, target: str) -> None:
    kernel = compiled(rows(T.dynamic("m"), T.dynamic("n"), dtype), device, target)
    (remark,) = [r for r in kernel.remarks if r.topic == "vectorize"]
    multiple = 8 if dtype == "bfloat16" else 4
    assert f"rows of X, Y are accessed by vectors where n is a multiple of {multiple}" in str(
        remark.message
    )
    assert f"if ((n & {multiple - 1}) == 0)" in kernel.get_kernel_source()
    size = 16 // multiple
    found = set(accesses(kernel))
    assert {"st16", f"ld{size}", f"st{size}"} <= found
    if target != "sm_80":  # for which the compiler of the toolkit divides loads of bfloat16
        assert found == {"ld16", "st16", f"ld{size}", f"st{size}"}
    for m, n in ((5, 512), (3, 504), (4, 37), (2, 1), (1, 8), (7, 511)):
        check_rows(kernel, m, n, dtype, device)


def test_an_assumption_makes_one_version(device: str) -> None:
    kernel = compiled(rows(T.dynamic("m"), T.dynamic("n"), "bfloat16", assume=8), device)
    assert [r for r in kernel.remarks if r.topic == "vectorize"] == []
    assert set(accesses(kernel)) == {"ld16", "st16"}
    check_rows(kernel, 5, 64, "bfloat16", device)


def test_rows_that_vectors_do_not_fit_are_read_by_the_widest_access_that_does(device: str) -> None:
    for n, size in ((504, 16), (500, 8), (502, 4), (501, 2)):
        kernel = compiled(rows(3, n, "bfloat16"), device)
        assert set(accesses(kernel)) == {f"ld{size}", f"st{size}"}
        check_rows(kernel, 3, n, "bfloat16", device)


def test_kernels_with_gemms_are_there_once() -> None:
    k = T.dynamic("k")

    @T.prim_func
    def kernel(
        A: T.Tensor((64, k), "float16"), B: T.Tensor((k, 64), "float16"), C: T.Tensor((64, 64))
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for t in T.serial(T.ceildiv(k, 32)):
                T.copy(A[0, t * 32], a)
                T.copy(B[t * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    run = compiled(kernel)
    assert not any("has both versions" in r.message for r in run.remarks)
    a, b = torch.randn(64, 72).half(), torch.randn(72, 64).half()
    c = nan((64, 64), torch.float32, "cpu")
    run(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_threads_without_elements_take_no_registers(target):
    """125 of 128 threads hold a row of 1000: the others compute along, and load nothing."""

    @T.prim_func
    def kernel(
        X: T.Tensor((7, 1000), "bfloat16"),
        W: T.Tensor((1000,), "bfloat16"),
        Y: T.Tensor((7, 1000), "bfloat16"),
    ):
        with T.Kernel(2, threads=128) as bx:
            x, square = (T.alloc_fragment((4, 1000), "float32") for _ in range(2))
            w, total = T.alloc_fragment((1000,), "bfloat16"), T.alloc_fragment((4,), "float32")
            T.copy(X[bx * 4, 0], x)
            T.copy(W, w)
            for i, j in T.Parallel(4, 1000):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(4, 1000):
                x[i, j] = x[i, j] * T.rsqrt(total[i] / 1000) * w[j]
            T.copy(x, Y[bx * 4, 0])

    x, w = torch.randn(7, 1000).bfloat16(), torch.randn(1000).bfloat16()
    y = torch.full_like(x, torch.nan)
    compiled = tilelang.compile(kernel, target=target)
    compiled(x, w, y)
    want = x.double() * torch.rsqrt(x.double().square().mean(1, keepdim=True)) * w.double()
    torch.testing.assert_close(y.double(), want, rtol=1e-2, atol=1e-2)
    if target != "sm_100a":  # there, a warp has a whole row
        assert "tl::load_if(tx < 125, W" in compiled.get_kernel_source()
    (usage,) = compiled.resource_usage.values()
    assert usage.registers <= 72 and usage.spill_stores == 0  # 77 by a branch for the threads


def test_loops_over_a_part_of_a_fragment_leave_the_rest():
    @T.prim_func
    def kernel(X: T.Tensor((256,), "int32"), Y: T.Tensor((256,), "int32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((256,), "int32")
            T.copy(X, x)
            for i in T.Parallel(100):
                x[i] = x[i] * 2
            for i in T.Parallel(100):
                x[i + 150] += 1
            T.copy(x, Y)

    x = torch.randint(-99, 99, (256,), dtype=torch.int32)
    y = torch.full_like(x, -1)
    tilelang.compile(kernel, target="sm_90a")(x, y)
    want = x.clone()
    want[:100] *= 2
    want[150:250] += 1
    assert torch.equal(y, want)


@pytest.mark.parametrize("target", TARGETS)
def test_threads_without_rows_load_no_index(target):
    """96 rows at a time of 128: the others would read the indices beyond the last."""

    @T.prim_func
    def gather(
        Rows: T.Tensor((128,), "int32"),
        X: T.Tensor((8, 32), "float32"),
        Y: T.Tensor((128, 16), "float32"),
    ):
        with T.Kernel(1, threads=384):
            tile = T.alloc_fragment((128, 16), "float32")
            for i, j in T.Parallel(128, 16):
                tile[i, j] = X[Rows[i], 16 + j]
            T.copy(tile, Y)

    rows, x = torch.randint(0, 8, (128,), dtype=torch.int32), torch.randn(8, 32)
    y = torch.full((128, 16), torch.nan)
    tilelang.compile(gather, target=target)(rows, x, y)
    assert torch.equal(y, x[rows.long(), 16:])
