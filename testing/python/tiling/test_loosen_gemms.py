"""GEMMs that name a barrier, tensor memory or a serial loop get tiles like plain ones."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

every_schedule = pytest.mark.every_schedule


def named(
    M, N, K, threads=128, loop="serial", a="tmem", c="tmem", wait="k % 2", out="float32", clear="k"
):
    """C = A B^T; ``a``, ``c``: where the operand and the sums are; ``wait``: for which phase."""
    rows, columns, depth = 128, 64, 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), out),
    ):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bx, by):
            a_shared = T.alloc_shared((rows, depth), "bfloat16")
            b_shared = T.alloc_shared((columns, depth), "bfloat16")
            local = T.alloc_fragment((rows, depth), "bfloat16")
            if a == "tmem":
                a_tmem = T.alloc_tmem((rows, depth), "bfloat16")
            if c == "tmem":
                c_tmem = T.alloc_tmem((rows, columns), "float32")
            c_local = T.alloc_fragment((rows, columns), "float32")
            if wait != "none":
                mbar = T.alloc_barrier(1)
            sums = c_tmem if c == "tmem" else c_local
            if clear == "fill":
                T.clear(sums)
            steps = T.ceildiv(K, depth)
            loops = {
                "serial": lambda: T.serial(steps),
                "one": lambda: T.Pipelined(steps, num_stages=1),
                "two": lambda: T.Pipelined(steps, num_stages=2),
            }
            for k in loops[loop]():
                T.copy(A[by * rows, k * depth], a_shared)
                if a != "shared":
                    T.copy(a_shared, local)
                if a == "tmem":
                    T.copy(local, a_tmem)
                T.copy(B[bx * columns, k * depth], b_shared)
                operand = a_tmem if a == "tmem" else local if a == "fragment" else a_shared
                first = (k == 0) if clear == "k" else False
                if wait == "none":
                    T.gemm(operand, b_shared, sums, transpose_B=True, clear_accum=first)
                else:
                    T.gemm(operand, b_shared, sums, transpose_B=True, clear_accum=first, mbar=mbar)
                    T.mbarrier_wait_parity(mbar, {"k % 2": k % 2, "(k + 1) % 2": (k + 1) % 2}[wait])
            if c == "tmem":
                T.copy(c_tmem, c_local)
            T.copy(c_local, C[by * rows, bx * columns])

    return main


def compiled(*sizes, sms=4, configs=None, **options):
    target = with_sm_count(resolve("sm_100a"), sms)
    return tilelang.compile(named(*sizes, **options), target=target, pass_configs=configs or {})


def remarks(kernel):
    return " ".join(r.message for r in kernel.remarks)


def check(kernel, M, N, K, out="float32"):
    a, b = (torch.randint(-4, 5, size).bfloat16() for size in ((M, K), (N, K)))
    c = torch.full((M, N), torch.nan, dtype=getattr(torch, out))
    kernel(a, b, c)
    torch.testing.assert_close(c.float(), a.float() @ b.float().T, rtol=1e-2, atol=0)


@every_schedule
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("a", ["tmem", "shared"])
def test_results(a, threads):
    sizes = 500, 264, 320
    kernel = compiled(*sizes, a=a, threads=threads, out="bfloat16")
    assert "the loop over K is pipelined" in remarks(kernel)
    check(kernel, *sizes, out="bfloat16")
    assert ("two slots" in remarks(kernel)) == (a == "tmem")


@pytest.mark.parametrize("loop", ["serial", "one", "two"])
@pytest.mark.parametrize("wait", ["none", "k % 2"])
@pytest.mark.parametrize("c", ["tmem", "fragment"])
@pytest.mark.parametrize("a", ["tmem", "fragment", "shared"])
@pytest.mark.parametrize("clear", ["k", "fill"])
def test_spellings(a, c, wait, loop, clear):
    if c == "fragment" and wait != "none":
        pytest.skip("the program would wait for a gemm into registers")
    sizes = 256, 128, 192
    kernel = compiled(*sizes, a=a, c=c, wait=wait, loop=loop, clear=clear)
    plain = a == "shared" and c == "fragment" and loop == "two"
    assert ("the loop over K is pipelined" in remarks(kernel)) != plain
    check(kernel, *sizes)


def test_the_remark_names_what_was_chosen():
    kernel = compiled(256, 128, 192)
    (remark,) = (r for r in kernel.remarks if "the loop over K is pipelined" in r.message)
    assert 'in place of "mbar"' in remark.message
    assert "copies A through registers to tensor memory" in remark.message
    assert "tl.disable_tile_choice" in remark.message


def test_the_option_keeps_the_program():
    kernel = compiled(256, 128, 192, configs={"tl.disable_tile_choice": True})
    assert "the loop over K is pipelined" not in remarks(kernel)
    check(kernel, 256, 128, 192)


def test_small_grids_and_other_targets_keep_the_program():
    assert "the loop over K is pipelined" not in remarks(compiled(256, 128, 192, sms=5))
    kernel = tilelang.compile(
        named(256, 128, 192, a="shared", c="fragment", wait="none"), target="sm_90a"
    )
    assert "the loop over K is pipelined" not in remarks(kernel)
    check(kernel, 256, 128, 192)


def test_a_wait_for_another_phase_stays():
    kernel = compiled(256, 128, 192, wait="(k + 1) % 2")
    assert "the loop over K is pipelined" not in remarks(kernel)


def test_copies_that_others_use_stay():
    @T.prim_func
    def main(
        A: T.Tensor((256, 128), "bfloat16"),
        B: T.Tensor((128, 128), "bfloat16"),
        C: T.Tensor((256, 128), "float32"),
        Copy: T.Tensor((256, 128), "bfloat16"),
    ):
        with T.Kernel(1, 2, threads=128) as (_, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            local = T.alloc_fragment((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.serial(2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.copy(a, local)
                T.gemm(local, b, c, transpose_B=True)
                T.copy(local, Copy[by * 128, k * 64])
            T.copy(c, C[by * 128, 0])

    kernel = tilelang.compile(main, target=with_sm_count(resolve("sm_100a"), 2))
    assert "the loop over K is pipelined" not in remarks(kernel)
    a, b = torch.randn(256, 128).bfloat16(), torch.randn(128, 128).bfloat16()
    c, copy = torch.empty(256, 128), torch.empty_like(a)
    kernel(a, b, c, copy)
    assert torch.equal(copy, a)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("form", ["after", "before", "scratch", "cleared", "twice"])
def test_sums_of_tensor_memory_that_a_fragment_cannot_replace(form):
    """The fragment has other values than the sums: it is read earlier, or they change later."""

    @T.prim_func
    def main(
        A: T.Tensor((512, 256), "bfloat16"),
        B: T.Tensor((256, 512), "bfloat16"),
        C: T.Tensor((512, 512), "float32"),
        D: T.Tensor((512, 512), "float32"),
    ):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            sums = T.alloc_tmem([128, 128], "float32")
            r = T.alloc_fragment((128, 128), "float32")
            T.clear(sums)
            if form == "before":
                T.copy(sums, r)
            if form == "scratch":
                T.copy(D[by * 128, bx * 128], r)
                T.copy(r, C[by * 128, bx * 128])
            for k in T.serial(4):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, sums)
            if form != "before":
                T.copy(sums, r)
            if form == "cleared":
                T.clear(sums)
            if form == "twice":
                for i, j in T.Parallel(128, 128):
                    r[i, j] = r[i, j] * 2
                T.copy(r, D[by * 128, bx * 128])
                T.copy(sums, r)
            T.copy(r, C[by * 128, bx * 128])

    kernel = tilelang.compile(main, target=with_sm_count(resolve("sm_100a"), 8))
    a, b = torch.randint(-4, 5, (512, 256)).bfloat16(), torch.randint(-4, 5, (256, 512)).bfloat16()
    c, d = (torch.full((512, 512), n) for n in (float("nan"), 7.0))
    kernel(a, b, c, d)
    want = a.float() @ b.float()
    assert torch.equal(c, want * 0 if form == "before" else want)
    assert torch.equal(d, want * 2 if form == "twice" else torch.full_like(d, 7))
