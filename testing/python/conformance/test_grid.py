"""A barrier of the whole grid: what one block writes, others read after it."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors


@pytest.mark.every_schedule
def test_blocks_pass_values_on(target: str) -> None:
    blocks, rounds = 7, 5

    @T.prim_func
    def main(A: T.Tensor((blocks, 33), "int32"), B: T.Tensor((2, blocks, 33), "int32")):
        with T.Kernel(blocks, threads=64) as bx:
            for i in T.Parallel(33):
                B[0, bx, i] = A[bx, i]
            for r in T.serial(rounds):
                T.sync_grid()
                for i in T.Parallel(33):
                    B[(r + 1) % 2, bx, i] = B[r % 2, (bx + 1) % blocks, i] + bx

    a = integers(blocks, 33)
    expected = a.clone()
    for _ in range(rounds):
        expected = expected.roll(-1, 0) + torch.arange(blocks)[:, None].int()
    equal(run(main, target, a, poison(2, blocks, 33, dtype="int32"))[rounds % 2], expected)


def test_softmax_across_blocks(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((5, 200), "float32"), S: T.Tensor((5,), "float32"), B: T.Tensor((5, 200))):
        with T.Kernel(5, threads=96) as bx:
            row = T.alloc_fragment((200,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(A[bx, :], row)
            for i in T.Parallel(200):
                row[i] = T.exp(row[i])
            T.reduce_sum(row, total)
            S[bx] = total[0]
            T.sync_grid()
            everything = T.alloc_var("float32", init=0.0)
            for other in T.serial(5):
                everything += S[other]
            for i in T.Parallel(200):
                B[bx, i] = row[i] / everything

    a = normal(5, 200)
    expected = a.double().flatten().softmax(0).view(5, 200)
    close(run(main, target, a, poison(5), poison(5, 200)), expected)


def test_split_k_in_one_launch(target: str) -> None:
    """Parts of K by different blocks, summed after the barrier; loads run ahead in both halves."""
    splits = 3

    @T.prim_func
    def main(
        A: T.Tensor((64, 192), "float16"),
        B: T.Tensor((192, 64), "float16"),
        P: T.Tensor((splits, 64, 64), "float32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(splits, threads=128) as s:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, s * 64 + k * 32], a)
                T.copy(B[s * 64 + k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, P[s, :, :])
            T.sync_grid()
            if s == 0:
                total = T.alloc_fragment((64, 64), "float32")
                T.clear(total)
                for part in T.serial(splits):
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += P[part, i, j]
                T.copy(total, C)

    a, b = normal(64, 192, dtype="float16"), normal(192, 64, dtype="float16")
    actual = run(main, target, a, b, poison(splits, 64, 64), poison(64, 64))
    close(actual, a.double() @ b.double(), 1e-3)


@pytest.mark.requires_cuda
def test_more_blocks_than_the_gpu_holds() -> None:
    @T.prim_func
    def main(A: T.Tensor((100000,), "int32")):
        with T.Kernel(100000, threads=128) as bx:
            A[bx] = 1
            T.sync_grid()

    kernel = tilelang.compile(main)
    with pytest.raises(errors.ArgumentError, match="do not fit on the GPU at the same time"):
        kernel(torch.zeros(100000, dtype=torch.int32, device="cuda"))


def test_not_all_threads_of_a_block() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            if T.get_thread_binding() < 32:
                T.sync_grid()
            A[bx] = 1

    with pytest.raises(errors.SemanticsError, match="sync_grid"):
        tilelang.compile(main, target="sm_90a")
