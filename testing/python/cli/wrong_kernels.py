"""Kernels that are wrong, each in another way, with their references: NAME and NAME_reference."""

from __future__ import annotations

import torch
from cli.cases import Case, integers, normal

import tilelang
import tilelang.language as T


@tilelang.jit
def zeros(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        for j in T.Parallel(N):
            Y[row, j] = 0.0
    return Y


def zeros_reference(x):
    return torch.softmax(x, -1)


def _gemm(clear: bool, rows_per_tile: int = 64, depth: int = 64, swapped: bool = False):
    """A GEMM whose tiles of the output and of K may be too few for its sizes."""

    @tilelang.jit
    def gemm(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], T.bfloat16]
        B: T.Tensor[[K, N], T.bfloat16]
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, 64), M // rows_per_tile, threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), T.bfloat16)
            b = T.alloc_shared((64, 64), T.bfloat16)
            c = T.alloc_fragment((64, 64), T.float32)
            if clear:
                T.clear(c)
            for k in T.Pipelined(K // depth, num_stages=2):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, bx * 64], b)
                if swapped:
                    T.gemm(b, a, c)
                else:
                    T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])
        return C

    return gemm


def product(a, b):
    return a.float() @ b.float()


forgotten_clear = _gemm(clear=False)
missing_last_tile = _gemm(clear=True)
missing_rest_of_k = _gemm(clear=True)
swapped_operands = _gemm(clear=True, swapped=True)
forgotten_clear_reference = missing_last_tile_reference = product
missing_rest_of_k_reference = swapped_operands_reference = product


@tilelang.jit
def half_written(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 256), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 256 + i] = X[block * 256 + i]
    return Y


def half_written_reference(x):
    return x.clone()


@tilelang.jit
def off_by_one(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            at = block * 128 + i
            Y[at] = T.if_then_else(at + 1 < N, X[at + 1], 0.0) * 2.0
    return Y


def off_by_one_reference(x):
    return 2 * x


@tilelang.jit
def missing_term(X, W, B):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    W: T.Tensor[[N], T.bfloat16]
    B: T.Tensor[[N], T.bfloat16]
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(M, threads=128) as row:
        for j in T.Parallel(N):
            Y[row, j] = X[row, j] * W[j]
    return Y


def missing_term_reference(x, w, b):
    return (x.float() * w.float() + b.float()).bfloat16()


@tilelang.jit
def wrong_scale(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0], x)
        T.reduce_sum(x, total)
        Y[row] = total[0] / (N - 1)
    return Y


def wrong_scale_reference(x):
    return x.mean(-1)


@tilelang.jit
def wrong_mask(S):
    N = T.const("N")
    S: T.Tensor[[N, N], T.float32]
    Y = T.empty((N, N), T.float32)
    with T.Kernel(N, threads=128) as row:
        for j in T.Parallel(N):
            Y[row, j] = T.if_then_else(j < row, S[row, j], 0.0)
    return Y


def wrong_mask_reference(s):
    return s.tril()


@tilelang.jit
def no_maximum(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0], x)
        for j in T.Parallel(N):
            x[j] = T.exp(x[j])
        T.reduce_sum(x, total)
        for j in T.Parallel(N):
            Y[row, j] = x[j] / total[0]
    return Y


def no_maximum_reference(x):
    return torch.softmax(x, -1)


@tilelang.jit
def wrong_cast(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = T.cast(T.cast(X[block * 128 + i], "bfloat16"), "float32") * 3.0
    return Y


def wrong_cast_reference(x):
    return 3 * x


@tilelang.jit
def wrong_axis(X):
    N = T.const("N")
    X: T.Tensor[[N, N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(N, threads=128) as column:
        x = T.alloc_fragment((N,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for i in T.Parallel(N):
            x[i] = X[i, column]
        T.reduce_sum(x, total)
        Y[column] = total[0]
    return Y


def wrong_axis_reference(x):
    return x.sum(-1)


@tilelang.jit
def stale_output(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            at = block * 128 + i
            if X[at] > 0:
                Y[at] = X[at]
    return Y


def stale_output_reference(x):
    return x.relu()


@tilelang.jit
def wrong_eps(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        square = T.alloc_fragment((N,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        for j in T.Parallel(N):
            x[j] = T.cast(X[row, j], "float32")
            square[j] = x[j] * x[j]
        T.reduce_sum(square, total)
        for j in T.Parallel(N):
            Y[row, j] = T.cast(x[j] * T.rsqrt(total[0] / N + 1e-3), "bfloat16")
    return Y


def wrong_eps_reference(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).bfloat16()


@tilelang.jit
def race(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((128,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            if block * 128 + i < N:
                Y[i] = X[block * 128 + i]
    return Y


def race_reference(x):
    return x[-128:]  # as the last block would write it


@tilelang.jit
def wrong_indices(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    V = T.empty((M,), T.float32)
    At = T.empty((M,), T.int32)
    with T.Kernel(M, threads=32) as row:
        best = T.alloc_var(T.float32, init=-T.infinity(T.float32))
        at = T.alloc_var(T.int32, init=0)
        for j in T.serial(N):
            if X[row, j] > best:
                best = X[row, j]
                at = j % 64  # within a tile: its offset is missing
        V[row] = best
        At[row] = at
    return V, At


def wrong_indices_reference(x):
    return x.amax(-1), x.argmax(-1).int()


@tilelang.jit
def wrong_tail(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((512,), T.float32)
        best = T.alloc_fragment((1,), T.float32)
        for j in T.Parallel(512):
            x[j] = T.if_then_else(j < N, X[row, j], 0.0)  # not the identity of a maximum
        T.reduce_max(x, best)
        Y[row] = best[0]
    return Y


def wrong_tail_reference(x):
    return x.amax(-1)


@tilelang.jit
def ignored_batch(X, W):
    B, M, N = T.const("B, M, N")
    X: T.Tensor[[B, M, N], T.float32]
    W: T.Tensor[[B, N], T.float32]
    Y = T.empty((B, M, N), T.float32)
    with T.Kernel(M, B, threads=128) as (row, batch):
        for j in T.Parallel(N):
            Y[batch, row, j] = X[batch, row, j] * W[0, j]
    return Y


def ignored_batch_reference(x, w):
    return x * w[:, None]


@tilelang.jit
def transposed(X):
    N = T.const("N")
    X: T.Tensor[[N, N], T.float32]
    Y = T.empty((N, N), T.float32)
    with T.Kernel(N, threads=128) as row:
        for j in T.Parallel(N):
            Y[j, row] = X[row, j] * 0.5
    return Y


def transposed_reference(x):
    return x * 0.5


@tilelang.jit
def constant(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        for j in T.Parallel(N):
            Y[row, j] = 1.0 / N
    return Y


def constant_reference(x):
    return torch.softmax(0.01 * x, -1)


@tilelang.jit
def fp8_scale(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Q = T.empty((M, N), T.float8_e4m3fn)
    with T.Kernel(M, threads=128) as row:
        for j in T.Parallel(N):
            Q[row, j] = T.cast(X[row, j] * 0.97, "float8_e4m3fn")
    return Q


def fp8_scale_reference(x):
    return x.to(torch.float8_e4m3fn)


@tilelang.jit
def approximation(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            x = X[block * 128 + i]
            Y[block * 128 + i] = x / (1.0 + T.exp(-1.702 * x))
    return Y


def approximation_reference(x):
    return torch.nn.functional.gelu(x)


@tilelang.jit
def narrow_integers(X):
    N = T.const("N")
    X: T.Tensor[[N], T.int32]
    Y = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = T.cast(T.cast(X[block * 128 + i] * 90, "int8"), "int32")
    return Y


def narrow_integers_reference(x):
    return x * 90


CASES = {
    "zeros": Case("M=4,N=4096", normal((4, 4096))),
    "forgotten_clear": Case("M=64,N=64,K=128", normal((64, 128), (128, 64), dtype="bfloat16")),
    "missing_last_tile": Case("M=100,N=64,K=128", normal((100, 128), (128, 64), dtype="bfloat16")),
    "missing_rest_of_k": Case("M=64,N=64,K=200", normal((64, 200), (200, 64), dtype="bfloat16")),
    "swapped_operands": Case("M=64,N=64,K=64", normal((64, 64), (64, 64), dtype="bfloat16")),
    "half_written": Case("N=1024", normal((1024,))),
    "off_by_one": Case("N=1000", normal((1000,))),
    "missing_term": Case("M=8,N=256", normal((8, 256), (256,), (256,), dtype="bfloat16")),
    "wrong_scale": Case("M=8,N=256", normal((8, 256))),
    "wrong_mask": Case("N=64", normal((64, 64))),
    "no_maximum": Case("M=8,N=256", normal((8, 256), scale=100)),
    "wrong_cast": Case("N=1000", normal((1000,))),
    "wrong_axis": Case("N=128", normal((128, 128))),
    "stale_output": Case("N=1000", normal((1000,))),
    "wrong_eps": Case("M=8,N=256", normal((8, 256), dtype="bfloat16", scale=0.01)),
    "race": Case("N=1024", normal((1024,))),
    "wrong_indices": Case("M=8,N=200", normal((8, 200))),
    "wrong_tail": Case("M=8,N=300", normal((8, 300), scale=-1, absolute=True)),
    "ignored_batch": Case("B=3,M=4,N=128", normal((3, 4, 128), (3, 128))),
    "transposed": Case("N=128", normal((128, 128))),
    "constant": Case("M=4,N=4096", normal((4, 4096))),
    "fp8_scale": Case("M=8,N=256", normal((8, 256))),
    "approximation": Case("N=1000", normal((1000,))),
    "narrow_integers": Case("N=1000", integers((1000,))),
}
