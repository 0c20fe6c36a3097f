"""Grids, loops and tiles whose extents are unusual, or known only when the kernel runs."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T
from tilelang import errors

N = 64


def test_a_kernel_without_extents(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(threads=N):
            t = T.get_thread_binding()
            B[t] = A[t] + 1

    a = normal(N)
    close(run(main, target, a, poison(N)), a + 1)


def test_a_grid_of_five_dimensions(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((2, 3, 4, 5, 6), "int32"), n: T.int32):
        with T.Kernel(2, 3, 4, 5, n, threads=32) as (a, b, c, d, e):
            B[a, b, c, d, e] = a * 10000 + b * 1000 + c * 100 + d * 10 + e

    b = poison(2, 3, 4, 5, 6, dtype="int32")
    run(main, target, b, 6)
    digits = torch.meshgrid(*(torch.arange(k) for k in (2, 3, 4, 5, 6)), indexing="ij")
    equal(b, sum(digit * 10 ** (4 - n) for n, digit in enumerate(digits)))


def test_launches_in_a_range(target: str) -> None:
    """A `range` of constants outside of kernels repeats launches, also those of a macro."""
    steps = 3

    @T.macro
    def added(A, B, amount):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = A[t] + amount

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        added(A, B, 0)
        for step in range(1, 2 * steps, 2):
            added(B, B, step)
            for _ in range(step):
                added(B, B, 100)

    a = integers(N, dtype="int32", low=0, high=50)
    equal(run(main, target, a, poison(N, dtype="int32")), a + 9 + 900)


def test_launches_that_the_host_would_count() -> None:
    with pytest.raises(errors.ScopeError, match="outside of `with"):

        @T.prim_func
        def main(A: T.Tensor((N,), "int32"), n: T.int32):
            for _ in range(n):
                with T.Kernel(1, threads=N):
                    A[T.get_thread_binding()] += 1


def test_empty_grids(target: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, N), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(n, threads=N) as bx:
            T.atomic_add(B[T.get_thread_binding()], A[bx, T.get_thread_binding()])
        with T.Kernel(0, threads=N):
            B[T.get_thread_binding()] = 100

    b = torch.zeros(N)
    run(main, target, torch.empty(0, N), b)
    equal(b, torch.zeros(N))
    a = normal(5, N)
    close(run(main, target, a, b), a.double().sum(0))


@pytest.mark.parametrize("n", [0, 1, 100, 1000])
def test_parallel_loops_of_unknown_extent(n: int, target: str) -> None:
    size = T.dynamic("size")

    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32"), n: T.int32):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(n):
                B[i] = A[i] * 2

    a, b = normal(1200), torch.zeros(1200)
    run(main, target, a, b, n)
    close(b, torch.cat([a[:n] * 2, torch.zeros(1200 - n)]))


def test_parallel_loops_of_two_unknown_extents(target: str) -> None:
    m, n = T.dynamic("m, n")

    @T.prim_func
    def main(A: T.Tensor((m, 4, n), "float32"), B: T.Tensor((m, 4, n), "float32")):
        with T.Kernel(1, threads=N):
            for i, j, k in T.Parallel(m, 4, n):
                B[i, j, k] = A[i, 3 - j, k] + i

    a = normal(7, 4, 300)
    expected = a.flip(1) + torch.arange(7)[:, None, None]
    close(run(main, target, a, poison(7, 4, 300)), expected)


def test_tiles_of_unknown_extent(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 256), "float32"), B: T.Tensor((4, 256), "float32"), n: T.int32):
        with T.Kernel(4, threads=N) as bx:
            S = T.alloc_shared((256,), "float32")
            T.fill(S, 7)
            T.copy(A[bx, 0:n], S[0:n])
            T.fill(S[0:3], bx)
            T.copy(S, B[bx, :])

    a, b = normal(4, 256), poison(4, 256)
    run(main, target, a, b, 100)
    expected = torch.where(torch.arange(256) < 100, a, 7.0)
    expected[:, :3] = torch.arange(4.0)[:, None]
    equal(b, expected)


def test_fills_of_unknown_extent(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((256,), "int32"), n: T.int32):
        with T.Kernel(1, threads=N):
            T.fill(B[n : n + n], n)

    b = torch.zeros(256, dtype=torch.int32)
    run(main, target, b, 70)
    i = torch.arange(256)
    equal(b, torch.where((i >= 70) & (i < 140), 70, 0))


def test_facts_stated_before_the_kernel(target: str) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        T.assume(n % 128 == 0)
        with T.Kernel(n // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] + 1

    a = normal(384)
    close(run(main, target, a, poison(384)), a + 1)


@pytest.mark.parametrize("options", [{}, {"swizzle_size": 2}, {"column_major": False}])
@pytest.mark.parametrize("shape", [(5, 3), (1, 7), (4, 4)])
def test_persistent_tiles(shape: tuple[int, int], options: dict, target: str) -> None:
    """Each tile is visited once, by the block whose turn it is."""
    m, n = shape

    @T.prim_func
    def main(B: T.Tensor((m, n), "int32"), C: T.Tensor((m * n,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            sched = T.PersistentTileScheduler(m, n, name="sched", **options)
            sched.init(bx)
            while sched.valid():
                i, j = sched.m_idx, sched.n_idx
                if T.get_thread_binding() == 0:
                    T.atomic_add(B[i, j], 100 * (bx + 1) + sched.current_iter[0])
                    C[bx + 4 * sched.current_iter] = i * n + j
                sched.next_tile()

    b = torch.zeros(m, n, dtype=torch.int32)
    order = poison(m * n, dtype="int32")
    run(main, target, b, order)
    numbers = torch.arange(m * n)
    visits = torch.zeros(m * n, dtype=torch.int64)
    visits[order.long()] = 100 * (numbers % 4 + 1) + numbers // 4
    equal(b, visits.view(m, n))
    if options.get("swizzle_size", 1) == 1:
        columns = numbers % m * n + numbers // m
        equal(order, numbers if options else columns)


def test_schedulers_of_ones_own(target: str) -> None:
    class Diagonal(T.BaseTileScheduler):
        def __init__(self, n):
            super().__init__("diagonal")
            self._total = n

        def update_current_idx(self, linear_idx):
            self.m_idx.assign(linear_idx)
            self.n_idx.assign(linear_idx)

    @T.prim_func
    def main(B: T.Tensor((6, 6), "int32")):
        with T.Kernel(1, threads=32):
            walk = Diagonal(6)
            walk.init(0)
            while walk.valid():
                B[walk.m_idx, walk.n_idx] = 1
                walk.next_tile(1)

    b = torch.zeros(6, 6, dtype=torch.int32)
    equal(run(main, target, b), torch.eye(6))


REDUCERS = {
    "sum": (lambda r, x: r + x, lambda a: a.sum(1)),
    "max": (lambda r, x: T.max(r, x), lambda a: a.max(1).values),
    "min": (lambda r, x: T.min(x, r), lambda a: a.min(1).values),
}


@pytest.mark.parametrize("op", REDUCERS)
def test_reducers(op: str, target: str) -> None:
    combine, reference = REDUCERS[op]

    @T.prim_func
    def main(A: T.Tensor((16, 100), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=N):
            r = T.alloc_reducer((16,), "int32", op)
            out = T.alloc_fragment((16,), "int32")
            T.reducer_init(r)
            for i, j in T.Parallel(16, 50):
                r[i] = combine(r[i], A[i, j])
            for i, j in T.Parallel(16, 50):
                T.reducer_update(r[i], A[i, 50 + j])
            T.finalize_reducer(r, out)
            T.copy(out, B)

    a = integers(16, 100)
    equal(run(main, target, a, poison(16, dtype="int32")), reference(a))


def test_reducers_of_products(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), X: T.Tensor((64,)), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=N):
            a = T.alloc_shared((16, 64), "float32")
            r = T.alloc_reducer((16,), "float32", op="sum", replication="all")
            T.copy(A, a)
            T.clear(r)
            for i, j in T.Parallel(16, 64):
                r[i] += a[i, j] * X[j]
            T.finalize_reducer(r)
            T.copy(r, B)

    a, x = normal(16, 64), normal(64)
    close(run(main, target, a, x, poison(16)), a.double() @ x.double(), 1e-4)


@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, True)])
def test_prefix_maxima(dim: int, reverse: bool, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((13, 37), "float32"), B: T.Tensor((13, 37), "float32")):
        with T.Kernel(1, threads=N):
            x = T.alloc_fragment((13, 37), "float32")
            T.copy(A, x)
            T.cummax(x, dim=dim, reverse=reverse)
            T.copy(x, B)

    a = normal(13, 37)
    flipped = a.flip(dim) if reverse else a
    expected = flipped.cummax(dim).values
    equal(run(main, target, a, poison(13, 37)), expected.flip(dim) if reverse else expected)


def test_questions_about_tiles(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "int32"), B: T.Tensor((4, 4), "int32")):
        with T.Kernel(4, threads=32) as bx:
            x = T.alloc_fragment((N,), "int32")
            T.copy(A[bx, :], x)
            some, every = T.any_of(x), T.all_of(x)
            if T.get_thread_binding() == 0:
                B[bx, 0] = some
                B[bx, 1] = every
                B[bx, 2] = T.any_of(A[bx, 0:8])
                B[bx, 3] = T.all_of(A[bx, 8:16])

    a = torch.zeros(4, N, dtype=torch.int32)
    a[1] = 1
    a[2, 5] = -3
    a[3, 8:40] = 2
    expected = torch.stack([a.any(1), a.all(1), a[:, :8].any(1), a[:, 8:16].all(1)], 1)
    equal(run(main, target, a, poison(4, 4, dtype="int32")), expected)
