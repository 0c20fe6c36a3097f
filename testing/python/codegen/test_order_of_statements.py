"""A tile goes from one group of threads to another, by every kind of producer and consumer."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import tilelang
import tilelang.language as T

M, N, K = 128, 64, 64
GROUPS = {"all": (0, 256), "first": (0, 128), "second": (128, 256)}


@T.macro
def by_tma(tile, A, W, C):
    T.copy(A, tile)


@T.macro
def by_threads(tile, A, W, C):
    T.copy(A, tile, disable_tma=True)


@T.macro
def by_registers(tile, A, W, C):
    f = T.alloc_fragment((M, K), "float16")
    T.copy(A, f)
    T.copy(f, tile)


@T.macro
def to_tma(tile, B, W, C):
    T.copy(tile, B)


@T.macro
def to_threads(tile, B, W, C):
    T.copy(tile, B, disable_tma=True)


@T.macro
def to_gemm(tile, B, W, C):
    f = T.alloc_fragment((M, N), "float32")
    T.gemm(tile, W, C, clear_accum=True)
    T.copy(C, f)
    T.copy(f, B)


PRODUCERS = {"tma": by_tma, "threads": by_threads, "registers": by_registers}
CONSUMERS = {"tma": to_tma, "threads": to_threads, "gemm": to_gemm}


@functools.cache
def compiled(producer: str, consumer: str, writers: str, readers: str, rounds: int):
    """``rounds`` times: ``writers`` fill a tile with A[r], ``readers`` use it for B[r]."""
    produce, consume = PRODUCERS[producer], CONSUMERS[consumer]
    w0, w1 = GROUPS[writers]
    r0, r1 = GROUPS[readers]
    result = "float32" if consumer == "gemm" else "float16"

    @T.prim_func
    def main(
        A: T.Tensor((rounds, M, K), "float16"),
        W: T.Tensor((K, N), "float16"),
        B: T.Tensor((rounds, M, N), result),
    ):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((M, K), "float16")
            weights = T.alloc_shared((K, N), "float16")
            c = T.alloc_tmem((M, N), "float32")
            tx = T.get_thread_binding(0)
            T.copy(W, weights)
            for r in T.serial(rounds):
                if tx >= w0 and tx < w1:
                    produce(tile, A[r, :, :], weights, c)
                if tx >= r0 and tx < r1:
                    consume(tile, B[r, :, :], weights, c)

    return tilelang.compile(main, target="sm_100a")


# Who writes, who reads.
HANDS = [("all", "first"), ("first", "all"), ("second", "first"), ("first", "second")]


@pytest.mark.every_schedule
@pytest.mark.parametrize(("producer", "consumer"), list(itertools.product(PRODUCERS, CONSUMERS)))
def test_a_tile_changes_hands(producer: str, consumer: str) -> None:
    a, w = torch.randn(2, M, K).half(), torch.randn(K, N).half()
    for writers, readers in HANDS:
        gemm = consumer == "gemm"
        b = torch.full((2, M, N), float("nan"), dtype=torch.float32 if gemm else torch.float16)
        compiled(producer, consumer, writers, readers, 2)(a, w, b)
        expected = (a.double() @ w.double()).float() if gemm else a
        torch.testing.assert_close(b, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.every_schedule
@pytest.mark.parametrize("other", GROUPS)
def test_a_wait_is_for_its_own_load(other: str) -> None:
    """One group loads a tile; that others wait for another tile tells them nothing of it."""
    first, end = GROUPS[other]

    @T.prim_func
    def main(A: T.Tensor((2, M, K), "float16"), B: T.Tensor((2, M, K), "float16")):
        with T.Kernel(1, threads=256):
            one = T.alloc_shared((M, K), "float16")
            two = T.alloc_shared((M, K), "float16")
            tx = T.get_thread_binding(0)
            if tx < 128:
                T.copy(A[0, :, :], one)
            if tx >= first and tx < end:
                T.copy(A[1, :, :], two)
            for i, j in T.Parallel(M, K):
                B[0, i, j] = one[i, j] + one[M - 1 - i, j]
                B[1, i, j] = two[M - 1 - i, j]

    a, b = torch.randn(2, M, K).half(), torch.full((2, M, K), float("nan")).half()
    tilelang.compile(main, target="sm_100a")(a, b)
    torch.testing.assert_close(b, torch.stack([a[0] + a[0].flip(0), a[1].flip(0)]))


@pytest.mark.every_schedule
@pytest.mark.parametrize("trips", [0, 3])
def test_a_barrier_in_a_loop_does_not_replace_the_fence(trips: int) -> None:
    @T.prim_func
    def main(X: T.Tensor((M, K), "float32"), Y: T.Tensor((M, K), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((M, K), "float32")
            tile = T.alloc_shared((M, K), "float32")
            T.copy(X, f)
            T.copy(f, tile)
            for _ in T.serial(n):
                T.sync_threads()
            T.copy(tile, Y)

    x, y = torch.randn(M, K), torch.full((M, K), float("nan"))
    tilelang.compile(main, target="sm_100a")(x, y, trips)
    torch.testing.assert_close(y, x)


def test_a_role_after_another_in_one_chain() -> None:
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((M, K), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((M, K), "float32")
            f = T.alloc_fragment((M, K), "float32")
            tx = T.get_thread_binding(0)
            if tx >= 128 and tx < 160:
                T.sync_warp()
            elif tx < 128:
                T.copy(A, f)
                T.copy(f, tile)
                T.copy(tile, B)

    a, b = torch.randn(M, K), torch.full((M, K), float("nan"))
    tilelang.compile(main, target="sm_100a")(a, b)
    torch.testing.assert_close(b, a)


@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("operator", ["sum", "cumsum", "relayout"])
def test_operators_keep_barriers_of_their_own(off: bool, operator: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 512), "float32"), B: T.Tensor((4, 512), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((4, 512), "float32")
            b = T.alloc_fragment((4, 512), "float32")
            row = T.alloc_fragment((4,), "float32")
            blocked = T.Fragment(a.shape, forward_fn=lambda i, j: (j // 8, i * 8 + j % 8))
            cyclic = T.Fragment(b.shape, forward_fn=lambda i, j: (j % 64, i * 8 + j // 64))
            T.annotate_layout({a: blocked, b: cyclic})
            T.copy(A, a)
            if operator == "sum":
                T.reduce_sum(a, row, dim=1)
                T.copy(row, B[:, 0])
            elif operator == "cumsum":
                T.cumsum(a, b, dim=1)
                T.copy(b, B)
            else:
                T.copy(a, b)
                T.copy(b, B)

    key = tilelang.PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC
    a, b = torch.rand(4, 512), torch.zeros(4, 512)
    tilelang.compile(main, target="sm_100a", pass_configs={key: off})(a, b)
    expected = {"sum": torch.zeros(4, 512), "cumsum": a.cumsum(1), "relayout": a}[operator]
    expected[:, 0] = a.sum(1) if operator == "sum" else expected[:, 0]
    torch.testing.assert_close(b, expected)


def test_the_switch_leaves_out_barriers_between_statements() -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), "int32")
            tx = T.get_thread_binding(0)
            s[tx] = A[tx]
            B[tx] = s[127 - tx]

    key = tilelang.PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC
    sources = [
        tilelang.compile(main, target="sm_80", pass_configs={key: off}).get_kernel_source()
        for off in (False, True)
    ]
    assert ["__syncthreads" in source for source in sources] == [True, False]
