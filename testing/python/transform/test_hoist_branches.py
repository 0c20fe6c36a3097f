"""Branches that are the same in all iterations of a loop."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import run_pass

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]


def copied(condition: str):
    """Threads below 40 copy 7 elements each; ``condition``: what the branch depends on."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 7), "float32"), L: T.Tensor((1,), "int32"), C: T.Tensor((64, 7), "float32")
    ):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            for i in T.unroll(7):
                if condition == "thread":
                    if tx < 40:
                        C[tx, i] = A[tx, i] * 2.0
                elif condition == "iteration":
                    if tx + i < 40:
                        C[tx, i] = A[tx, i] * 2.0
                elif condition == "memory":
                    if tx < L[0]:
                        C[tx, i] = A[tx, i] * 2.0
                elif condition == "otherwise":
                    if tx < 40:
                        C[tx, i] = A[tx, i] * 2.0
                    else:
                        C[tx, i] = 1.0

    return main


def order_of(condition: str) -> list[str]:
    text = str(run_pass("hoist_branches", copied(condition), "sm_90a"))
    return [line.split()[0] for line in text.splitlines() if line.split()[:1] in (["for"], ["if"])]


def test_the_branch_is_around_the_loop():
    assert order_of("thread") == ["if", "for"]


@pytest.mark.parametrize("condition", ["iteration", "memory", "otherwise"])
def test_other_branches_stay(condition):
    assert order_of(condition) == ["for", "if"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("condition", ["thread", "iteration", "memory", "otherwise"])
def test_results(condition, target):
    kernel = tilelang.compile(copied(condition), target=target)
    a, c = torch.randn(64, 7), torch.full((64, 7), -7.0)
    kernel(a, torch.tensor([40], dtype=torch.int32), c)
    row, column = torch.arange(64)[:, None], torch.arange(7)
    inside = row + column < 40 if condition == "iteration" else (row < 40).expand(64, 7)
    other = torch.ones(()) if condition == "otherwise" else torch.tensor(-7.0)
    assert torch.equal(c, torch.where(inside, 2 * a, other))


def test_half_of_the_threads_copy_sums_without_spills():
    """Rows of 256 x 128 sums in tensor memory, of which 256 of 512 threads have one each."""

    @T.prim_func
    def main(
        A: T.Tensor((256, 16), "bfloat16"),
        B: T.Tensor((128, 16), "bfloat16"),
        D: T.Tensor((256, 128), "float32"),
        C: T.Tensor((256, 128), "float32"),
    ):
        with T.Kernel(1, threads=512):
            a = T.alloc_shared((256, 16), "bfloat16")
            b = T.alloc_shared((128, 16), "bfloat16")
            c = T.alloc_tmem([256, 128], "float32")
            half = T.alloc_fragment((256, 64), "float32")
            other = T.alloc_fragment((256, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D[:, 0:64], half)
            T.copy(half, c[:, 0:64])
            T.copy(D[:, 64:128], other)
            T.copy(other, c[:, 64:128])
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c[:, 64:128], other)
            T.copy(other, C[:, 64:128])
            T.copy(c[:, 0:64], half)
            T.copy(half, C[:, 0:64])

    kernel = tilelang.compile(main, target="sm_100a")
    assert kernel.n_spills == 0
    torch.manual_seed(0)
    a, b, start = (
        torch.randn(256, 16).bfloat16(),
        torch.randn(128, 16).bfloat16(),
        torch.randn(256, 128),
    )
    c = torch.full((256, 128), torch.nan)
    kernel(a, b, start, c)
    torch.testing.assert_close(
        c.double(), start.double() + a.double() @ b.double().T, rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("threads", [32, 64, 128])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_updates_of_slots_by_some_threads(target, threads):
    """Rows of 100 elements, of which a part of a warp has none; barriers are placed before."""

    @T.prim_func
    def add_one(A: T.Tensor((50, 100), "float32"), B: T.Tensor((50, 100), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((8, 100), "float32")
            b = T.alloc_shared((8, 100), "float32")
            for n in T.Pipelined(5, num_stages=3):
                T.copy(A[n * 8, 0], a)
                for i, j in T.Parallel(8, 100):
                    a[i, j] = a[i, j] + 1
                T.copy(a, b)
                T.copy(b, B[n * 8, 0])

    kernel = tilelang.compile(add_one, target=target)
    a, b = torch.randn(50, 100), torch.full((50, 100), float("nan"))
    kernel(a, b)
    assert torch.equal(b[:40], a[:40] + 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "rows"), [("bfloat16", 2), ("float32", 3), ("float32", 5)])
def test_slots_that_part_of_a_warp_fills(dtype, rows, target):
    """Tiles whose slots TMA cannot fill, because they have no whole 128 bytes."""

    @T.prim_func
    def add_up(X: T.Tensor((20 * rows, 72), dtype), O: T.Tensor((rows, 72), "float32")):  # noqa: E741
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((rows, 72), dtype)
            sums = T.alloc_fragment((rows, 72), "float32")
            T.clear(sums)
            for t in T.Pipelined(20, num_stages=3):
                T.copy(X[t * rows, 0], x)
                for i, j in T.Parallel(rows, 72):
                    sums[i, j] += x[i, j]
            T.copy(sums, O)

    kernel = tilelang.compile(add_up, target=target)
    x = torch.randn(20 * rows, 72).to(getattr(torch, dtype))
    sums = torch.full((rows, 72), torch.nan)
    kernel(x, sums)
    torch.testing.assert_close(sums, x.float().view(20, rows, 72).sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_iterations_that_wait_for_each_other(target):
    """Threads read what their neighbours stored before; barriers stand between the iterations."""

    @T.prim_func
    def rotate(A: T.Tensor((40,), "float32"), C: T.Tensor((40,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((8, 40), "float32")
            if tx < 40:
                s[0, tx] = A[tx]
            for i in T.serial(7):
                if tx < 40:
                    s[i + 1, tx] = s[i, (tx + 1) % 40] + 1.0
            if tx < 40:
                C[tx] = s[7, tx]

    kernel = tilelang.compile(rotate, target=target)
    a, c = torch.randn(40), torch.full((40,), torch.nan)
    kernel(a, c)
    torch.testing.assert_close(c, torch.roll(a, -7) + 7, rtol=1e-5, atol=1e-5)


def padded(condition: str, dtype: str = "float32"):
    """C = A with zeros, which a condition chooses; in registers first, ``held`` beside them."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 7), dtype), L: T.Tensor((1,), "int32"), C: T.Tensor((64, 7), "float32")
    ):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            held = T.alloc_local((7,), dtype)
            for i in T.unroll(7):
                row = tx * 2
                if condition == "thread":
                    held[i] = T.if_then_else(row < 80, A[tx, i], T.cast(0, dtype))
                elif condition == "iteration":
                    held[i] = T.if_then_else(row + i < 80, A[tx, i], T.cast(0, dtype))
                elif condition == "memory":
                    held[i] = T.if_then_else(row < L[0], A[tx, i], T.cast(0, dtype))
            for i in T.unroll(7):
                C[tx, i] = T.cast(held[i], "float32") * 2.0

    return main


@pytest.mark.parametrize("condition", ["thread", "iteration", "memory"])
def test_a_choice_of_loads_is_around_the_loop(condition):
    text = str(run_pass("hoist_branches", padded(condition), "sm_90a"))
    assert ("select(" not in text) == (condition == "thread")
    assert text.count("in unroll(7)") == (3 if condition == "thread" else 2)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("condition", ["thread", "iteration", "memory"])
def test_results_of_choices(condition, dtype, target):
    a = torch.arange(64 * 7).reshape(64, 7).remainder(50).to(getattr(torch, dtype))
    c = torch.full((64, 7), torch.nan)
    tilelang.compile(padded(condition, dtype), target=target)(a, torch.tensor([80]).int(), c)
    rows, columns = torch.arange(64)[:, None] * 2, torch.arange(7)
    within = rows + columns * (condition == "iteration") < 80
    assert torch.equal(c, torch.where(within, a.float() * 2, 0.0))


def rows_of_softmax(rows, columns, tall, dtype):
    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, tall), threads=128) as block:
            x = T.alloc_fragment((tall, columns), "float32")
            most = T.alloc_fragment((tall,), "float32")
            T.copy(X[block * tall, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(tall, columns):
                x[i, j] = x[i, j] - most[i]
            T.copy(x, Y[block * tall, 0])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "tall", "dtype"),
    [(61, 777, 4, "bfloat16"), (5, 1023, 2, "float16"), (9, 333, 8, "float32"), (3, 1, 4, "int8")],
)
def test_results_of_rows_beyond_the_tensor(rows, columns, tall, dtype, target):
    x = torch.randint(-9, 9, (rows, columns)).to(getattr(torch, dtype))
    y = torch.full((rows, columns), torch.nan)
    tilelang.compile(rows_of_softmax(rows, columns, tall, dtype), target=target)(x, y)
    assert torch.equal(y, x.float() - x.float().amax(1, keepdim=True))


def test_loads_of_ragged_rows_are_under_way_together():
    full = tilelang.compile(rows_of_softmax(8192, 777, 4, "bfloat16"), target="sm_100a")
    ragged = tilelang.compile(rows_of_softmax(8191, 777, 4, "bfloat16"), target="sm_100a")
    assert ragged.profile().timing.grid_us < 1.3 * full.profile().timing.grid_us
