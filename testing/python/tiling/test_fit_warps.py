"""Blocks of numbers of threads for which the tensor core has no instruction."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def gemm(m, n, k, threads, tile=(64, 64), reads_threads=False):
    """C = A B^T, with relu."""
    rows, columns = tile

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
        Threads: T.Tensor((512,), "int32"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, 64), "bfloat16")
            b = T.alloc_shared((columns, 64), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                T.copy(A[by * rows, step * 64], a)
                T.copy(B[bx * columns, step * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(rows, columns):
                c[i, j] = T.max(c[i, j], 0)
            if reads_threads:
                Threads[T.get_thread_binding()] = 1
            T.copy(c, C[by * rows, bx * columns])

    return main


def run(kernel, m, n, k):
    a = torch.randint(-4, 5, (m, k)).bfloat16()
    b = torch.randint(-4, 5, (n, k)).bfloat16()
    c = torch.full((m, n), torch.nan)
    threads = torch.zeros(512, dtype=torch.int32)
    kernel(a, b, c, threads)
    torch.testing.assert_close(c, (a.float() @ b.float().T).relu(), rtol=0, atol=0)
    return int(threads.sum())


def fills(kernel):
    return any("128 threads instead of" in r.message for r in kernel.remarks)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("threads", [32, 64, 96])
def test_a_block_gets_a_warpgroup(threads, target):
    kernel = tilelang.compile(gemm(100, 136, 192, threads), target=target)
    assert fills(kernel)
    instruction = "tcgen05.mma" if target == "sm_100a" else "wgmma"
    assert instruction in kernel.get_ptx()
    run(kernel, 100, 136, 192)


@pytest.mark.parametrize("tile", [(16, 64), (32, 128), (64, 16), (16, 24)])
@pytest.mark.parametrize("sizes", [(16, 256, 256), (256, 16, 256), (33, 70, 128)])
def test_tiles_of_few_rows_or_columns(sizes, tile):
    """On sm_100a tcgen05.mma computes tiles that none of its instructions has."""
    kernel = tilelang.compile(gemm(*sizes, 64, tile), target="sm_100a")
    assert "tcgen05.mma" in kernel.get_ptx()
    run(kernel, *sizes)


@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
def test_other_targets_keep_their_threads(target):
    kernel = tilelang.compile(gemm(100, 136, 192, 64), target=target)
    assert not fills(kernel)
    run(kernel, 100, 136, 192)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_a_program_that_reads_its_threads_keeps_them(target):
    kernel = tilelang.compile(gemm(64, 64, 128, 64, reads_threads=True), target=target)
    assert not fills(kernel)
    assert run(kernel, 64, 64, 128) == 64


def test_the_option_turns_it_off():
    kernel = tilelang.compile(
        gemm(64, 64, 128, 64),
        target="sm_90a",
        pass_configs={"tl.disable_block_fitting": True, "tl.disable_tile_choice": True},
    )
    assert not fills(kernel)
    run(kernel, 64, 64, 128)


INSTRUCTIONS = {"sm_100a": "tcgen05.mma", "sm_90a": "wgmma", "sm_80": "mma.sync"}


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize(
    ("threads", "tile"), [(192, (128, 128)), (320, (64, 128)), (384, (128, 256)), (224, (64, 64))]
)
def test_numbers_that_do_not_share_the_rows(target, threads, tile):
    kernel = tilelang.compile(gemm(100, 264, 128, threads, tile), target=target)
    assert INSTRUCTIONS.get(target, "mma.sync") in kernel.get_ptx()
    fewer = any(f"threads instead of {threads}" in r.message for r in kernel.remarks)
    assert fewer or target == "sm_100a"  # tcgen05.mma is computed by 384 threads, too
    run(kernel, 100, 264, 128)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_a_program_that_reads_its_192_threads_keeps_them(target):
    kernel = tilelang.compile(gemm(64, 64, 64, 192, (128, 128), reads_threads=True), target=target)
    assert run(kernel, 64, 64, 64) == 192


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80"])
def test_types_without_instruction_keep_their_threads(target):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "int32"), C: T.Tensor((64, 64), "int32")):
        with T.Kernel(1, threads=192):
            a = T.alloc_shared((64, 64), "int32")
            c = T.alloc_fragment((64, 64), "int32")
            T.copy(A, a)
            T.clear(c)
            T.gemm(a, a, c)
            T.copy(c, C)

    kernel = tilelang.compile(main, target=target)
    assert not any("threads instead of 192" in r.message for r in kernel.remarks)
    a, c = torch.randint(-4, 5, (64, 64)).int(), torch.full((64, 64), -1).int()
    kernel(a, c)
    assert torch.equal(c, a @ a)
