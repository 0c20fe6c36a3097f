"""T.gemm by numbers of threads, and of tiles, that the instructions of an architecture lack."""

from __future__ import annotations

import pytest
import torch
from conformance.eager import jit
from conformance.running import close, normal

import tilelang
import tilelang.language as T


def product(A, B, block_M, block_N, block_K, threads):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], T.float16]
    B: T.Tensor[[K, N], T.float16]
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.float16)
        b = T.alloc_shared((block_K, block_N), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


@pytest.mark.parametrize(
    ("block", "threads"),
    [
        ((64, 64, 32), 32),
        ((64, 64, 32), 64),
        ((64, 64, 16), 192),
        ((96, 64, 32), 96),
        ((96, 80, 32), 128),
        ((64, 40, 24), 128),
        ((128, 64, 16), 512),
    ],
)
def test_tiles_and_threads(block: tuple[int, int, int], threads: int, target: str) -> None:
    a, b = normal(100, 96, dtype="float16"), normal(96, 80, dtype="float16")
    actual = jit(target)(product)(a, b, *block, threads)
    close(actual, a.double() @ b.double(), 1e-3)


@pytest.mark.parametrize(
    ("block", "threads", "reason"),
    [
        ((64, 64, 32), 192, "its 192 threads are not whole warpgroups of 128"),
        ((96, 64, 32), 128, "M must be 32, 64 or a multiple of 128"),
    ],
)
def test_remark(block: tuple[int, int, int], threads: int, reason: str) -> None:
    m, n, k = block
    keeps = {"tl.disable_block_fitting": True}
    kernel = tilelang.jit(target="sm_100a", pass_configs=keeps)(product).compile(
        M=m, N=n, K=k, block_M=m, block_N=n, block_K=k, threads=threads
    )
    assert any(reason in remark.message for remark in kernel.remarks)


def attention(Q, K, V, block_M=64, block_N=32, threads=64):
    S, D = T.const("S, D")
    Q: T.Tensor[[S, D], T.float16]
    K: T.Tensor[[S, D], T.float16]
    V: T.Tensor[[S, D], T.float16]
    Out = T.empty((S, D), T.float16)
    scale = D**-0.5
    with T.Kernel(T.ceildiv(S, block_M), threads=threads) as b:
        q = T.alloc_shared((block_M, D), T.float16)
        k = T.alloc_shared((block_N, D), T.float16)
        v = T.alloc_shared((block_N, D), T.float16)
        s = T.alloc_fragment((block_M, block_N), T.float32)
        p = T.alloc_fragment((block_M, block_N), T.float16)
        o = T.alloc_fragment((block_M, D), T.float32)
        top, before, total, row = (T.alloc_fragment((block_M,), T.float32) for _ in range(4))
        T.copy(Q[b * block_M, 0], q)
        T.clear(o)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))
        for j in T.Pipelined(T.ceildiv(S, block_N), num_stages=2):
            T.copy(K[j * block_N, 0], k)
            for x, y in T.Parallel(block_M, block_N):
                s[x, y] = T.if_then_else(j * block_N + y < S, 0, -T.infinity(T.float32))
            T.gemm(q, k, s, transpose_B=True)
            T.copy(top, before)
            T.reduce_max(s, top, dim=1, clear=False)
            for x, y in T.Parallel(block_M, block_N):
                s[x, y] = T.exp((s[x, y] - top[x]) * scale)
            T.reduce_sum(s, row, dim=1)
            for x in T.Parallel(block_M):
                total[x] = total[x] * T.exp((before[x] - top[x]) * scale) + row[x]
            for x, y in T.Parallel(block_M, D):
                o[x, y] *= T.exp((before[x] - top[x]) * scale)
            T.copy(V[j * block_N, 0], v)
            T.copy(s, p)
            T.gemm(p, v, o)
        for x, y in T.Parallel(block_M, D):
            o[x, y] /= total[x]
        T.copy(o, Out[b * block_M, 0])
    return Out


@pytest.mark.parametrize("threads", [32, 64, 128])
def test_attention_by_few_threads(threads: int, target: str) -> None:
    q, k, v = (normal(70, 64, dtype="float16") for _ in range(3))
    actual = jit(target)(attention)(q, k, v, threads=threads)
    weights = torch.softmax(q.double() @ k.double().T / 8, 1)
    close(actual, weights @ v.double(), 1e-2)
