"""``T.vectorized``: vectors where memory is aligned, single elements elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import options
from tilelang.layout import make_swizzled_layout

THREADS = 32


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def compiled(func: Any, device: str = "cpu") -> Any:
    return tilelang.compile(func, target="auto" if device == "cuda" else "sm_90a")


def loads(kernel: Any) -> list[int]:
    """The lanes of the vector loads of a kernel, also of those under a condition, in order."""
    load = r"tl::load<(\d+)>|tl::load_if\(.*tl::filled<\w+, (\d+)>"
    return [int(a or b) for a, b in re.findall(load, kernel.get_kernel_source())]


def shifted_copy(lanes: int, source: int, target: int, dtype: str) -> Any:
    """Thread t copies elements source + t * lanes ... of A to target + t * lanes ... of B."""
    n = THREADS * lanes + 16

    @T.prim_func
    def kernel(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding()
            for v in T.vectorized(lanes):
                B[target + t * lanes + v] = A[source + t * lanes + v] + A[0]

    return kernel


@pytest.mark.parametrize(
    ("lanes", "source", "target"),
    [
        (8, 0, 0),
        (8, 1, 0),
        (8, 0, 3),
        (8, 4, 8),
        (4, 4, 4),
        (2, 3, 1),
        (16, 8, 8),
        (3, 0, 6),
        (6, 2, 2),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_any_offset(device: str, dtype: str, lanes: int, source: int, target: int) -> None:
    kernel = compiled(shifted_copy(lanes, source, target, dtype), device)
    n = THREADS * lanes
    a = torch.randn(n + 16).to(getattr(torch, dtype)).to(device)
    b = torch.full_like(a, float("nan"))
    kernel(a, b)
    assert torch.equal(b[target : target + n], a[source : source + n] + a[0])
    assert b[:target].isnan().all() and b[target + n :].isnan().all()
    size = a.element_size() * lanes
    chunk = min(16, size & -size) // a.element_size()
    is_vector = source % chunk == 0
    assert loads(kernel) == ([lanes] if is_vector else [])


def test_what_is_not_a_vector_is_remarked() -> None:
    (remark,) = compiled(shifted_copy(8, 1, 0, "float16")).remarks
    assert remark.topic == "vectorize"
    assert re.search(
        r"A is accessed element by element: A\[.*\] is not known to begin", remark.message
    )
    assert compiled(shifted_copy(8, 0, 0, "float16")).remarks == []


def test_a_vector_view_that_is_misaligned_is_refused() -> None:
    kernel = compiled(shifted_copy(8, 0, 0, "float16"))
    n = THREADS * 8 + 16
    a = torch.randn(n + 1).half()
    with pytest.raises(tilelang.errors.ArgumentError, match="multiple of 16 bytes"):
        kernel(a[1:], torch.empty(n).half())
    scalar = compiled(shifted_copy(8, 1, 3, "float16"))
    b = torch.empty(n).half()
    scalar(a[1:], b)
    assert torch.equal(b[3 : n - 13], a[2 : n - 14] + a[1])


def test_run_time_offsets_are_no_vectors(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((300,), "float32"), B: T.Tensor((256,), "float32"), shift: T.int32):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for v in T.vectorized(4):
                B[t * 4 + v] = A[shift + t * 4 + v]

    run = compiled(kernel, device)
    assert loads(run) == [] and "tl::store(" in run.get_kernel_source()
    a = torch.randn(300, device=device)
    for shift in (0, 3, 41):
        b = torch.full((256,), float("nan"), device=device)
        run(a, b, shift)
        assert torch.equal(b, a[shift : shift + 256])


def test_start_other_than_zero(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            for v in T.vectorized(4, 8):
                B[t * 8 + v] = A[t * 8 + v]
            for v in T.vectorized(1, 4):
                B[t * 8 + v - 1] = A[t * 8 + v]
            B[t * 8 + 3] = 1.5

    run = compiled(kernel, device)
    assert loads(run) == [4, 3]
    a = torch.randn(256, device=device)
    b = torch.full_like(a, float("nan"))
    run(a, b)
    rows = a.view(32, 8)
    expected = torch.cat([rows[:, 1:4], torch.full((32, 1), 1.5, device=device), rows[:, 4:]], 1)
    assert torch.equal(b.view(32, 8), expected)


def test_shared_memory_and_conditions_by_lane(device: str) -> None:
    """Loads that only some lanes make, and a variable that every lane sets."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 8), "float16"), B: T.Tensor((32, 8), "float16"), n: T.int32):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            tile = T.alloc_shared((32, 8), "float16")
            last = T.alloc_var("float16")
            for v in T.vectorized(8):
                tile[t, v] = A[t, v]
            T.sync_threads()
            for v in T.vectorized(8):
                last = tile[31 - t, v] * T.float16(2)
                B[t, v] = last
            for v in T.vectorized(8):
                B[t, v] = T.if_then_else(v < n, B[t, v], tile[t, 7 - v])

    run = compiled(kernel, device)
    assert loads(run)[0] == 8
    a = torch.randn(32, 8).half().to(device)
    b = torch.full_like(a, float("nan"))
    run(a, b, 5)
    expected = torch.cat([a.flip(0)[:, :5] * 2, a.flip(1)[:, 5:]], 1)
    assert torch.equal(b, expected)


def test_inside_a_parallel_loop(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                for v in T.vectorized(4):
                    B[i, v] = A[63 - i, v] * 2.0

    run = compiled(kernel, device)
    assert loads(run) == [4]
    a = torch.randn(64, 4, device=device)
    b = torch.full_like(a, float("nan"))
    run(a, b)
    assert torch.equal(b, a.flip(0) * 2)


@pytest.mark.parametrize(("group", "lanes"), [(64, [8]), (12, [4]), (3, [])])
def test_groups_of_elements_that_follow_each_other(group: int, lanes: list[int], device) -> None:
    """Rows of a gathered tile: groups of ``group`` elements, each from a place of its own."""
    columns = group * 8

    @T.prim_func
    def kernel(A: T.Tensor((40, group), "float16"), B: T.Tensor((16, columns), "float16")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(16, columns):
                row = i + j // group * 4 - 5
                B[i, j] = T.if_then_else((row >= 0) & (row < 37), A[row, j % group], 0)

    run = compiled(kernel, device)
    assert loads(run) == lanes
    a = torch.randn(40, group).half().to(device)
    b = torch.full((16, columns), float("nan")).half().to(device)
    run(a, b)
    padded = torch.cat([torch.zeros(5, group).half().to(device), a[:37]])
    padded = torch.cat([padded, torch.zeros(6, group).half().to(device)])
    rows = torch.arange(16)[:, None] + torch.arange(8)[None, :] * 4
    assert torch.equal(b, padded[rows].reshape(16, columns))


CHOICES = {
    "what_is_compared": lambda a, b, held: T.if_then_else(a > 0, a, a * 0.5),
    "something_else": lambda a, b, held: T.if_then_else(a > 0, b, a),
    "registers": lambda a, b, held: T.if_then_else(a > 0, held, a),
    "within_a_choice": lambda a, b, held: T.if_then_else(a > 0, T.if_then_else(b > 0, a, b), a),
    "under_two_conditions": lambda a, b, held: T.if_then_else(T.And(a > 0, b > 0), b, a),
}


# Choices of what is loaded; beside them, the elements of `held` are.
BY_ELEMENT = ("something_else", "within_a_choice", "under_two_conditions")


@pytest.mark.parametrize("n", [1024, 1000, 499])
@pytest.mark.parametrize("name", CHOICES)
def test_choices_by_element(device: str, name: str, n: int) -> None:
    """Loads of a choice are vectors where every element is loaded in any case."""

    @T.prim_func
    def kernel(
        A: T.Tensor((n,), "float16"), B: T.Tensor((n,), "float16"), C: T.Tensor((n,), "float16")
    ):
        with T.Kernel(2, threads=64) as block:
            held = T.alloc_fragment((512,), "float16")
            T.copy(B[block * 512], held)
            for i in T.Parallel(512):
                at = block * 512 + i
                C[at] = CHOICES[name](A[at], B[at], held[i])

    run = compiled(kernel, device)
    a, b = (torch.randn(n).half().to(device) for _ in range(2))
    c = torch.full_like(a, float("nan"))
    run(a, b, c)
    other = {
        "what_is_compared": (a, a * 0.5),
        "something_else": (b, a),
        "registers": (b, a),
        "within_a_choice": (torch.where(b > 0, a, b), a),
        "under_two_conditions": (torch.where(b > 0, b, a), a),
    }
    assert torch.equal(c, torch.where(a > 0, *other[name]))
    if n % 8 == 0:
        in_any_case = 1 + (name != "what_is_compared") - (name in BY_ELEMENT)
        assert len(loads(run)) == in_any_case


@pytest.mark.parametrize("name", ["chosen", "otherwise"])
def test_choices_that_not_all_threads_have(device: str, name: str) -> None:
    """Threads beyond the tile's elements load none, to compare or to choose."""

    @T.prim_func
    def kernel(
        A: T.Tensor((32, 16), "int32"),
        B: T.Tensor((32, 16), "int32"),
        C: T.Tensor((32, 16), "int32"),
    ):
        with T.Kernel(1, threads=96) as _:
            held = T.alloc_fragment((32, 16), "int32")
            tile = T.alloc_shared((32, 16), "int32")
            out = T.alloc_fragment((32, 16), "int32")
            T.copy(A, held)
            T.copy(B, tile)
            for i, j in T.Parallel(32, 16):
                values = (tile[i, j], held[i, j]) if name == "chosen" else (held[i, j], tile[i, j])
                out[i, j] = T.if_then_else(A[i, j] != tile[i, j], *values)
            T.copy(out, C)

    a, b = (torch.randint(-2, 3, (32, 16), dtype=torch.int32, device=device) for _ in range(2))
    c = torch.full_like(a, 77)
    compiled(kernel, device)(a, b, c)
    assert torch.equal(c, b if name == "chosen" else a)


@pytest.mark.parametrize("swizzled", ["source", "destination"])
@pytest.mark.parametrize(
    ("narrow", "wide", "lanes"),
    [
        ("float8_e4m3fn", "float16", 8),
        ("float8_e5m2", "float32", 4),
        ("bfloat16", "float32", 4),
        ("int8", "int32", 4),
        ("uint8", "float16", 8),
    ],
)
def test_conversions_between_shared_tiles(
    narrow: str, wide: str, lanes: int, swizzled: str
) -> None:
    """A thread takes what is a vector of both tiles, so that no bank is asked twice."""
    types = (narrow, wide) if swizzled == "destination" else (wide, narrow)

    @T.prim_func
    def kernel(A: T.Tensor((32, 128), types[0]), B: T.Tensor((32, 128), types[1])):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((32, 128), types[0]), T.alloc_shared((32, 128), types[1])
            tile = b if swizzled == "destination" else a
            T.annotate_layout({tile: make_swizzled_layout(tile)})
            T.copy(A, a)
            T.copy(a, b)
            T.copy(b, B)

    run = compiled(kernel)
    a = torch.randint(0, 100, (32, 128)).to(getattr(torch, types[0]))
    b = torch.zeros(32, 128).to(getattr(torch, types[1]))
    with options(timing=True):
        run(a, b)
    assert torch.equal(b.float(), a.to(b.dtype).float())
    assert lanes in loads(run)
    assert not any(run.last_launch.timing.inst_conflicts)
