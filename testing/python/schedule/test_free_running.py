"""Loops of gemms by tcgen05: one warp issues, commits release the tiles, nobody waits inside."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def exact(*shape: int) -> torch.Tensor:
    return torch.randint(-4, 5, shape).half()


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan"))


def free(kernel) -> bool:
    return "gemm_done" in kernel.get_kernel_source()


def gemm(M, N, K, m=128, n=64, k=64, threads=128, stages=3, blocks=None):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
        with T.Kernel(blocks or tiles[0] * tiles[1], threads=threads) as block:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            for by, bx in T.Persistent(tiles, blocks or tiles[0] * tiles[1], block):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[bx * n, i * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * m, bx * n])

    return main


@every_schedule
@pytest.mark.parametrize("blocks", [None, 1, 3])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("K", [104, 448])
def test_gemm(K: int, threads: int, blocks) -> None:
    kernel = tilelang.compile(gemm(256, 192, K, threads=threads, blocks=blocks), target="sm_100a")
    assert free(kernel)
    A, B, C = exact(256, K), exact(192, K), poisoned(256, 192)
    kernel(A, B, C)
    assert torch.equal(C.double(), A.double() @ B.double().T)


def test_the_loop_waits_for_tiles_alone() -> None:
    kernel = tilelang.compile(gemm(128, 64, 448), target="sm_100a")
    source = kernel.get_kernel_source()
    start = source.index("for (int i_1 = 0")
    body = source[start : source.index("a_uses = a_uses + 1u", start)]
    assert re.findall(r"mbarrier_wait\((\w+)\[", body) == ["a_full"]
    assert re.findall(r"tcgen05_commit\((\w+)\[", body) == ["a_empty"]
    assert "sync_threads" not in body and "fence_proxy_async" not in body


@every_schedule
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_loop_of_any_length_keeps_the_accumulator(count: int) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((640, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_tmem((128, 64), "float32")
            f = T.alloc_fragment((128, 64), "float32")
            T.copy(B, b)
            T.fill(f, 3)
            T.copy(f, c)
            for i in T.Pipelined(n, num_stages=2):
                T.copy(A[i * 128, 0], a)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, f)
            T.copy(f, C)

    kernel = tilelang.compile(main, target="sm_100a")
    assert free(kernel)
    A, B, C = exact(640, 64), exact(64, 64), poisoned(128, 64)
    kernel(A, B, C, count)
    blocks = A.double().view(5, 128, 64)[:count]
    want = 3 + sum((block @ B.double().T for block in blocks), torch.zeros(128, 64).double())
    assert torch.equal(C.double(), want)


@every_schedule
def test_an_operand_that_threads_wrote_before_the_loop() -> None:
    @T.prim_func
    def main(A: T.Tensor((384, 64), "float16"), C: T.Tensor((2, 128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            for t in T.serial(2):
                for r, q in T.Parallel(64, 64):
                    b[r, q] = r - q + t
                T.clear(c)
                for i in T.Pipelined(3, num_stages=2):
                    T.copy(A[i * 128, 0], a)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[t, :, :])

    kernel = tilelang.compile(main, target="sm_100a")
    assert free(kernel) and "fence_proxy_async" in kernel.get_kernel_source()
    A, C = exact(384, 64), poisoned(2, 128, 64)
    kernel(A, C)
    for t in range(2):
        b = torch.arange(64.0).view(-1, 1) - torch.arange(64.0) + t
        want = A.double().view(3, 128, 64).sum(0) @ b.double().T
        assert torch.equal(C[t].double(), want)


@every_schedule
def test_two_accumulators_and_two_loops() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((128, 320), "float16"),
        B: T.Tensor((128, 320), "float16"),
        C: T.Tensor((2, 128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            d = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            T.clear(d)
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                T.gemm(a, b[0:64, :], c, transpose_B=True)
                T.gemm(a, b[64:128, :], d, transpose_B=True)
            for i in T.Pipelined(3, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                T.gemm(a, b[64:128, :], c, transpose_B=True)
            T.copy(c, C[0, :, :])
            T.copy(d, C[1, :, :])

    kernel = tilelang.compile(main, target="sm_100a")
    assert free(kernel)
    A, B, C = exact(128, 320), exact(128, 320), poisoned(2, 128, 64)
    kernel(A, B, C)
    a, b = A.double(), B.double()
    first = a @ b[:64].T + a[:, :192] @ b[64:, :192].T
    assert torch.equal(C[0].double(), first)
    assert torch.equal(C[1].double(), a @ b[64:].T)


def _reads_tile(A, a, b, c, s, C):
    for i in T.Pipelined(3, num_stages=2):
        T.copy(A[i * 128, 0], a)
        T.gemm(a, b, c, transpose_B=True)
        for r, q in T.Parallel(128, 64):
            s[r, q] += a[r, q]


def _reads_result(A, a, b, c, s, C):
    for i in T.Pipelined(3, num_stages=2):
        T.copy(A[i * 128, 0], a)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        for r, q in T.Parallel(128, 64):
            s[r, q] += c[r, q]


def _operand_changes(A, a, b, c, s, C):
    for i in T.Pipelined(3, num_stages=2):
        T.copy(A[i * 128, 0], a)
        T.gemm(a, b, c, transpose_B=True)
        for r, q in T.Parallel(64, 64):
            b[r, q] = b[r, q] + 1


@every_schedule
@pytest.mark.parametrize("body", [_reads_tile, _reads_result, _operand_changes])
def test_loops_with_work_of_threads_are_waited_for(body) -> None:
    step = T.macro(body)

    @T.prim_func
    def main(
        A: T.Tensor((384, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((2, 128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            s = T.alloc_fragment((128, 64), "float32")
            T.copy(B, b)
            T.clear(c)
            T.clear(s)
            step(A, a, b, c, s, C)
            T.copy(c, C[0, :, :])
            T.copy(s, C[1, :, :])

    kernel = tilelang.compile(main, target="sm_100a")
    assert not free(kernel)
    A, B, C = exact(384, 64), exact(64, 64), poisoned(2, 128, 64)
    kernel(A, B, C)
    blocks, b = A.double().view(3, 128, 64), B.double()
    step_of_b = 1 if body is _operand_changes else 0
    parts = [block @ (b + i * step_of_b).T for i, block in enumerate(blocks)]
    want = parts[-1] if body is _reads_result else sum(parts)
    assert torch.equal(C[0].double(), want)
    other = {_reads_tile: blocks.sum(0), _reads_result: sum(parts)}
    assert torch.equal(C[1].double(), other.get(body, torch.zeros(128, 64).double()))
