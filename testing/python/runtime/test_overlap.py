"""Tensor arguments that share memory, and tensors whose own elements do."""

from __future__ import annotations

import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator
from tilelang.errors import ArgumentError, CompileError, EmulatorError
from tilelang.jit.lower import lower, lower_overlapping
from tilelang.runtime import nvrtc
from tilelang.target import resolve

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
    kept = {"tl.disable_block_fitting": True}
    kernel = tilelang.compile(through_tma, target="sm_100a", pass_configs=kept)
    assert "tma_store" in kernel.get_kernel_source()
    a = torch.randn(128, 64).half()
    expected = a * 2
    variants = count_compilations(lambda: kernel(a, a))
    torch.testing.assert_close(a, expected)
    assert variants == 1


def count_compilations(call) -> int:
    """How often a variant for tensors that overlap is lowered."""
    from tilelang.jit import kernel

    asked = []
    original = kernel.lower_overlapping

    def counting(*args):
        asked.append(args)
        return original(*args)

    kernel.lower_overlapping = counting
    try:
        call()
    finally:
        kernel.lower_overlapping = original
    return len(asked)


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
    # With one element in common a thread reads what another one writes.
    with emulator.options(sanitize=name != "last element"):
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


def variant_of(func, target: str):
    """The code for calls whose tensors overlap."""
    resolved = resolve(target)
    return lower_overlapping(func, lower(func, resolved, {}), resolved)


def test_the_variant_has_neither_restrict_nor_read_only_loads() -> None:
    assert "__restrict__" in tilelang.compile(add_shifted, target="sm_100a").get_kernel_source()
    source = variant_of(add_shifted, "sm_100a").source
    assert "__restrict__" not in source
    ptx = nvrtc.compile_cuda(source, "sm_100a").ptx
    assert "ld.global.nc" not in ptx and "ld.global.f32" in ptx


@T.prim_func
def write_beside(
    A: T.Tensor((64, 64), "float32"),
    X: T.Tensor((64, 64), "float32"),
    B: T.Tensor((64, 64), "float32"),
):
    """One warpgroup reads A, the other writes X, and nothing orders the two."""
    with T.Kernel(1, threads=256):
        if T.get_warp_group_idx() == 0:
            for i, j in T.Parallel(64, 64):
                B[i, j] = A[i, j]
        else:
            for i, j in T.Parallel(64, 64):
                X[i, j] = 7.0


@T.prim_func
def write_behind(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32")):
    """Tiles of A are loaded ahead of the stores to B."""
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((32, 64), "float32")
        for k in T.Pipelined(4, num_stages=3):
            T.copy(A[k * 32, 0], tile)
            for i, j in T.Parallel(32, 64):
                B[k * 32 + i, j] = tile[i, j] + 1


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("offset", [0, 16, 63, 64])
def test_a_race_shows_wherever_the_views_begin(target: str, offset: int) -> None:
    kernel = tilelang.compile(write_beside, target=target)
    memory = torch.zeros(200, 64)
    args = memory[:64], memory[offset : offset + 64], torch.zeros(64, 64)
    if offset == 64:
        kernel(*args)
        return
    with pytest.raises(EmulatorError) as caught:
        kernel(*args)
    assert caught.value.kind == "race"


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_nothing_is_loaded_ahead_of_a_store(target: str) -> None:
    kernel = tilelang.compile(write_behind, target=target)
    memory = torch.randn(160, 64)
    want = memory.clone()
    for k in range(4):
        want[32 * k + 32 : 32 * k + 64] = want[32 * k : 32 * k + 32] + 1
    kernel(memory[:128], memory[32:])
    torch.testing.assert_close(memory, want, rtol=0, atol=0)
    apart, result = torch.randn(128, 64), torch.full((128, 64), float("nan"))
    kernel(apart, result)
    torch.testing.assert_close(result, apart + 1, rtol=0, atol=0)


def next_rows(stages: int):
    @T.prim_func
    def kernel(A: T.Tensor((12, 512), "float32"), B: T.Tensor((12, 512), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((512,), "float32")
            for i in T.Pipelined(8, num_stages=stages):
                T.copy(A[i, :], a)
                for j in T.Parallel(512):
                    a[j] = a[j] + 1
                T.copy(a, B[i + 1, :])

    return kernel


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("stages", [0, 3])
def test_iterations_load_what_those_before_have_stored(target: str, stages: int) -> None:
    kernel = tilelang.compile(next_rows(stages), target=target)
    a = torch.randn(12, 512)
    want = a.clone()
    for i in range(8):
        want[i + 1] = want[i] + 1
    kernel(a, a)
    torch.testing.assert_close(a, want, rtol=0, atol=0)


def in_place(rows: int, columns: int, blocks: int):
    """One block for each 128 rows multiplies them by B^T, and stores the first columns over A."""
    k = 32 * 34

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, k), "float16"),
        B: T.Tensor((columns, k), "float16"),
        C: T.Tensor((rows, k), "float16"),
    ):
        with T.Kernel(1, blocks, threads=128) as (bx, by):
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((128, 32), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[by * 128, i * 32], a)
                T.copy(B[bx * 128, i * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 128, bx * 128])

    return kernel


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("rows", "blocks"), [(128, 1), (200, 2)])
def test_blocks_that_compute_in_place_stay_whole(target: str, rows: int, blocks: int) -> None:
    kernel = tilelang.compile(in_place(rows, 128, blocks), target=target)
    a, b = (torch.randint(-1, 2, (n, 32 * 34)).half() for n in (rows, 128))
    want = a.clone()
    want[:, :128] = (a.double() @ b.double().T).half()
    apart = torch.full_like(a, 7)
    kernel(a, b, apart)  # by other tiles
    assert torch.equal(apart[:, :128], want[:, :128]) and apart[:, 128:].eq(7).all()
    kernel(a, b, a)
    assert torch.equal(a, want)


def test_the_variant_has_the_grid_of_the_program() -> None:
    func = in_place(128, 128, 1)
    cut = tilelang.compile(func, target="sm_90a")
    assert [int(extent) for extent in cut.spec.launches[0].grid] != [1, 1]
    variant = variant_of(func, "sm_90a")
    assert len(variant.spec.launches) == 1
    assert [int(extent) for extent in variant.spec.launches[0].grid] == [1, 1]
    assert int(variant.spec.launches[0].block[0]) == 128
    assert "tma" not in variant.source


def test_a_variant_that_does_not_compile_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tilelang.compile(add_shifted, target="sm_100a")

    def refuse(*args: object, **options: object) -> None:
        raise CompileError("it does not fit")

    monkeypatch.setattr(sys.modules["tilelang.jit.lower"], "lower", refuse)
    a = torch.randn(N)
    with pytest.raises(CompileError, match=r"pass copies \(`\.clone\(\)`\)"):
        kernel(a, a, 1.0)


def test_tiles_that_are_loaded_by_tma_are_not_written() -> None:
    """One tensor as both operands of a gemm runs the kernel itself."""
    func = in_place(128, 128, 1)
    kernel = tilelang.compile(func, target="sm_90a")
    assert [str(tensor.name) for tensor in kernel.spec.written] == ["C"]
    a, c = torch.randint(-1, 2, (128, 32 * 34)).half(), torch.zeros(128, 32 * 34).half()
    assert count_compilations(lambda: kernel(a, a, c)) == 0
    assert torch.equal(c[:, :128], (a.double() @ a.double().T).half())


def test_addresses_of_overlapping_views_keep_their_distance() -> None:
    source = "__device__ long long apart(const float* b, const float* a) { return b - a; }"

    @T.prim_func
    def distance(
        A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), D: T.Tensor((1,), "int64")
    ):
        with T.Kernel(1, threads=32, prelude=source):
            D[0] = T.call_extern("int64", "apart", T.address_of(B[0]), T.address_of(A[0]))

    kernel = tilelang.compile(distance, target="sm_100a")
    memory, found = torch.zeros(2 * N), torch.zeros(1, dtype=torch.int64)
    for first in (100, 7):
        kernel(memory[:N], memory[first : first + N], found)
        assert found.item() == first


def test_what_is_reached_by_an_address_may_overlap_an_argument() -> None:
    @T.prim_func
    def through_a_pointer(A: T.ptr("float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=256):
            X = T.make_tensor(A, (N,), "float32")
            if T.get_warp_group_idx() == 0:
                for i in T.Parallel(N):
                    X[i] = 1.0
            else:
                for i in T.Parallel(N):
                    B[i] = 2.0

    kernel = tilelang.compile(through_a_pointer, target="sm_100a")
    memory = torch.zeros(2 * N)
    kernel(memory[:N], memory[N:])
    assert memory[:N].eq(1).all() and memory[N:].eq(2).all()
    with pytest.raises(EmulatorError, match="conflicts"):
        kernel(memory[:N], memory[8 : N + 8])


def test_views_keep_the_alignment_of_the_host() -> None:
    """The lowest of overlapping views may begin where a vector may not."""

    @T.prim_func
    def shuffle_and_copy(
        A: T.Tensor((N,), "float32"),
        B: T.Tensor((N,), "float32"),
        C: T.Tensor((2, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(N):
                C[0, i] = A[i * 37 % N]
            for i in T.Parallel(N):
                C[1, i] = B[i]

    kernel = tilelang.compile(shuffle_and_copy, target="sm_100a")
    assert "v4" in kernel.get_ptx()
    memory, result = torch.randn(2 * N), torch.full((2, N), float("nan"))
    odd, even = memory[1 : N + 1], memory[4 : N + 4]
    kernel(odd, even, result)
    torch.testing.assert_close(result, torch.stack([odd[torch.arange(N) * 37 % N], even]))
