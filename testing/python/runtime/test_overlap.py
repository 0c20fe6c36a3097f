"""Tensor arguments that share memory, and tensors whose own elements do."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentError
from tilelang.runtime import nvrtc

N = 512


@T.prim_func
def add_shifted(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), s: T.float32):
    """B = A + s, then A is read again: a load that the first store may have changed."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        for k in T.serial(N // 128):
            B[k * 128 + t] = A[k * 128 + t] + s
            B[k * 128 + t] = A[k * 128 + t] + s


@pytest.fixture(params=["sm_100a", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def place(request: pytest.FixtureRequest) -> str:
    return request.param


def compiled(func, place: str):
    return tilelang.compile(func, target="auto" if place == "cuda" else place)


def on(place: str, x: torch.Tensor) -> torch.Tensor:
    return x.cuda() if place == "cuda" else x


def test_a_kernel_in_place_reads_what_it_wrote(place: str) -> None:
    kernel = compiled(add_shifted, place)
    assert "ld.global.nc" in kernel.get_ptx()  # what must not be used in place
    a = on(place, torch.randn(N))
    b = torch.full_like(a, float("nan"))
    kernel(a, b, 2.0)
    torch.testing.assert_close(b, a + 2)
    expected = a + 2.0 + 2.0
    kernel(a, a, 2.0)
    torch.testing.assert_close(a, expected)
    kernel(a, b, 1.0)  # and apart again
    torch.testing.assert_close(b, a + 1)


@T.prim_func
def through_tma(A: T.Tensor((128, 64), "float16"), B: T.Tensor((128, 64), "float16")):
    with T.Kernel(2, threads=128) as bx:
        tile = T.alloc_shared((64, 64), "float16")
        r = T.alloc_fragment((64, 64), "float16")
        T.copy(A[bx * 64, 0], tile)
        T.copy(tile, r)
        for i, j in T.Parallel(64, 64):
            r[i, j] = r[i, j] * 2
        T.copy(r, tile)
        T.copy(tile, B[bx * 64, 0])


@pytest.mark.every_schedule
def test_tiles_in_place() -> None:
    kernel = tilelang.compile(through_tma, target="sm_100a")
    assert "tma_store" in kernel.get_kernel_source()
    a = torch.randn(128, 64).half()
    expected = a * 2
    variants = count_compilations(lambda: kernel(a, a))
    torch.testing.assert_close(a, expected)
    assert variants == 1


def count_compilations(call) -> int:
    """How often NVRTC, or the cache, is asked for code without __restrict__."""
    from tilelang.runtime import cache

    asked = []
    original = cache.compile_cached

    def counting(source, arch, extra=()):
        asked.append(extra)
        return original(source, arch, extra)

    cache.compile_cached = counting
    try:
        call()
    finally:
        cache.compile_cached = original
    return sum("-D__restrict__=" in extra for extra in asked)


def views(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.randn(4 * N)
    return {
        "same": (memory[:N], memory[:N]),
        "partly": (memory[:N], memory[N // 2 : N // 2 + N]),
        "last element": (memory[:N], memory[N - 1 : 2 * N - 1]),
        "neighbours": (memory[:N], memory[N : 2 * N]),
        "apart": (torch.randn(N), memory[:N]),
    }[name]


@pytest.mark.parametrize("name", ["same", "partly", "last element", "neighbours", "apart"])
def test_the_variant_is_taken_where_ranges_overlap(name: str) -> None:
    kernel = tilelang.compile(add_shifted, target="sm_100a")
    a, b = views(name)
    overlap = name not in ("neighbours", "apart")
    assert count_compilations(lambda: kernel(a, b, 1.0)) == overlap
    assert count_compilations(lambda: kernel(a, b, 1.0)) == 0  # it is kept


@T.prim_func
def add(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(N):
            C[i] = A[i] + B[i]


def test_what_is_only_read_may_overlap() -> None:
    kernel = tilelang.compile(add, target="sm_100a")
    a, c = torch.randn(N), torch.zeros(N)
    assert count_compilations(lambda: kernel(a, a, c)) == 0
    torch.testing.assert_close(c, a + a)
    returning = tilelang.compile(add, out_idx=-1, target="sm_100a")
    assert count_compilations(lambda: returning(a, a)) == 0


def strided():
    m, s0, s1 = T.dynamic("m, s0, s1")

    @T.prim_func
    def kernel(
        A: T.StridedTensor((m, 8), (s0, 1), "float32"),
        B: T.StridedTensor[[m, 8], [s1, 1], T.float32],
    ):
        with T.Kernel(m, threads=32) as bx:
            for j in T.Parallel(8):
                B[bx, j] = A[bx, j] + 1

    return tilelang.compile(kernel, target="sm_100a")


def test_interleaved_views_count_as_overlapping_and_are_right() -> None:
    kernel = strided()
    memory = torch.randn(6, 16)
    left, right = memory[:, :8], memory[:, 8:]
    expected = left + 1
    assert count_compilations(lambda: kernel(left, right)) == 1
    torch.testing.assert_close(right, expected)


def test_elements_that_share_memory_are_not_written() -> None:
    kernel = strided()
    row, target = torch.randn(1, 8), torch.zeros(6, 8)
    kernel(row.expand(6, 8), target)  # reading is fine
    torch.testing.assert_close(target, row.expand(6, 8) + 1)
    with pytest.raises(ArgumentError, match="'B' is written to, but dimension 0 has stride 0"):
        kernel(target, row.expand(6, 8))
    kernel(target[:1], row.expand(1, 8))
    empty = torch.empty(0, 8)
    assert count_compilations(lambda: kernel(empty, empty)) == 0


def test_the_variant_has_neither_restrict_nor_read_only_loads() -> None:
    lowered = tilelang.compile(add_shifted, target="sm_100a")
    source = lowered.get_kernel_source()
    assert "__restrict__" in source
    ptx = nvrtc.compile_cuda(source, "sm_100a", ("-D__restrict__=",)).ptx
    assert "ld.global.nc" not in ptx and "ld.global.f32" in ptx
