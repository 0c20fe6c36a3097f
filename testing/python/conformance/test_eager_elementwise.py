"""Eager programs: elementwise, row by row, gathering and scattering."""

from __future__ import annotations

import math

import pytest
import torch
from conformance.eager import jit
from conformance.running import close, equal, integers, normal

import tilelang.language as T


def test_add_with_ragged_edges(target: str) -> None:
    @jit(target)
    def add(A, B, block_M=32, block_N=32, dtype=T.float32):
        M, N = T.const("M, N")
        A: T.Tensor[[M, N], dtype]
        B: T.Tensor[[M, N], dtype]
        C = T.empty((M, N), dtype)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=64) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, col = by * block_M + i, bx * block_N + j
                C[row, col] = A[row, col] + B[row, col]
        return C

    for shape in ((32, 64), (45, 51)):
        a, b = normal(*shape), normal(*shape)
        equal(add(a, b), a + b)


def test_gelu_through_tiles(target: str) -> None:
    @jit(target)
    def gelu(X, block=64):
        M, N = T.const("M N")
        X: T.Tensor((M, N), T.float16)
        Y = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, row):
            x = T.alloc_fragment((block,), T.float16)
            y = T.alloc_fragment((block,), T.float16)
            T.copy(X[row, bx * block], x)
            for j in T.Parallel(block):
                v = T.cast(x[j], "float32")
                y[j] = 0.5 * v * (1.0 + T.erf(v * math.sqrt(0.5)))
            T.copy(y, Y[row, bx * block])
        return Y

    x = normal(5, 100, dtype="float16")
    close(gelu(x), torch.nn.functional.gelu(x.double()), 2e-3)


def test_leaky_relu_in_place(target: str) -> None:
    @jit(target)
    def leaky_relu(x, slope: float = 0.01, block: int = 128, threads: int = 64):
        n = T.const("n")
        x: T.Tensor((n,), T.bfloat16)
        with T.Kernel(T.ceildiv(n, block), threads=threads) as pid:
            tile = T.alloc_fragment((block,), T.bfloat16)
            T.copy(x[pid * block], tile)
            for i in T.Parallel(block):
                if tile[i] < 0:
                    tile[i] = tile[i] * slope
            T.copy(tile, x[pid * block])

    x = normal(300, dtype="bfloat16")
    expected = torch.where(x < 0, x.double() * 0.25, x.double())
    leaky_relu(x, slope=0.25)
    close(x, expected, 4e-3)


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16"])
def test_types_as_arguments(dtype: str, target: str) -> None:
    @jit(target)
    def convert(A, in_dtype: T.dtype, out_dtype: T.dtype = T.float32):
        N = T.const("N")
        A: T.Tensor((N,), in_dtype)
        B = T.empty((N,), out_dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                B[i] = T.cast(A[i], out_dtype) * 2
        return B

    a = integers(70, dtype=dtype)
    equal(convert(a, T.dtype(a.dtype)), a.float() * 2)
    equal(convert(a, dtype, torch.int64), a.long() * 2)


def test_interleave(target: str) -> None:
    @jit(target)
    def interleave(A, B, out, dtype, block=64):
        n = T.dynamic("n")
        A: T.Tensor((n,), dtype)
        B: T.Tensor((n,), dtype)
        out: T.Tensor((2 * n,), dtype)
        with T.Kernel(T.ceildiv(n, block), threads=32) as pid:
            for i in T.Parallel(block):
                if pid * block + i < n:
                    out[2 * (pid * block + i)] = A[pid * block + i]
                    out[2 * (pid * block + i) + 1] = B[pid * block + i]

    for n in (64, 101):
        a, b, out = integers(n), integers(n), torch.zeros(2 * n, dtype=torch.int32)
        interleave(a, b, out, T.int32)
        equal(out, torch.stack([a, b], 1).flatten())


def test_softmax_of_rows(target: str) -> None:
    @jit(target)
    def softmax(X, block_M=8):
        M = T.dynamic("M")
        N = T.const("N")
        X: T.Tensor((M, N), T.float32)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(M, block_M), threads=64) as b:
            x = T.alloc_fragment((block_M, N), T.float32)
            top = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            T.copy(X[b * block_M, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[b * block_M, 0])
        return Y

    for rows in (8, 19):
        x = normal(rows, 64) * 3
        close(softmax(x), torch.softmax(x.double(), 1))


def test_rms_norm(target: str) -> None:
    @jit(target)
    def rms_norm(X, W, eps=1e-6, block_M=4):
        M, N = T.const("M, N")
        X: T.Tensor[(M, N), T.float16]
        W: T.Tensor[(N,), T.float16]
        Y = T.empty([M, N], dtype="float16")
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as b:
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(X[b * block_M : (b + 1) * block_M, :], x)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * T.rsqrt(total[i] / N + eps) * W[j]
            T.copy(x, Y[b * block_M : (b + 1) * block_M, :])
        return Y

    x, w = normal(10, 128, dtype="float16"), normal(128, dtype="float16")
    double = x.double()
    expected = double * torch.rsqrt((double**2).mean(1, keepdim=True) + 1e-6) * w.double()
    close(rms_norm(x, w), expected, 3e-3)


def test_layer_norm_with_its_statistics(target: str) -> None:
    @jit(target)
    def layer_norm(X, W=None, B=None, eps=1e-5):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        if W is not None:
            W: T.Tensor((N,), T.float32)
        if B is not None:
            B: T.Tensor((N,), T.float32)
        Y = T.empty((M, N), T.float32)
        Mean, Rstd = T.empty((M,), T.float32), T.empty((M,), T.float32)
        with T.Kernel(M, threads=32) as row:
            x = T.alloc_fragment((1, N), T.float32)
            stat = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, 0], x)
            T.reduce_sum(x, stat, dim=1)
            mean = stat[0] / N
            Mean[row] = mean
            for i, j in T.Parallel(1, N):
                x[i, j] -= mean
            square = T.alloc_fragment((1, N), T.float32)
            for i, j in T.Parallel(1, N):
                square[i, j] = x[i, j] * x[i, j]
            variance = T.alloc_fragment((1,), T.float32)
            T.reduce_sum(square, variance, dim=1)
            Rstd[row] = T.rsqrt(variance[0] / N + eps)
            for i, j in T.Parallel(1, N):
                y = x[i, j] * T.rsqrt(variance[0] / N + eps)
                if W is not None:
                    y = y * W[j]
                if B is not None:
                    y = y + B[j]
                Y[row, j] = y
        return Y, Mean, Rstd

    x, w, b = normal(5, 64), normal(64), normal(64)
    double = x.double()
    for args in ((), (w,), (w, b)):
        y, mean, rstd = layer_norm(x, *args)
        given = [each.double() for each in args]
        close(y, torch.nn.functional.layer_norm(double, (64,), *given), 1e-5)
        close(mean, double.mean(1))
        close(rstd, (double.var(1, correction=0) + 1e-5).rsqrt())


def test_prefix_sums(target: str) -> None:
    @jit(target)
    def prefix(X, reverse=False):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.int32)
        Y = T.empty((M, N), T.int32)
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((M, N), T.int32)
            T.copy(X, x)
            T.cumsum(x, dim=1, reverse=reverse)
            T.copy(x, Y)
        return Y

    x = integers(8, 64)
    equal(prefix(x), x.cumsum(1))
    equal(prefix(x, reverse=True), x.flip(1).cumsum(1).flip(1))


def test_argmax_of_rows(target: str) -> None:
    @jit(target)
    def argmax(X):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), "float32")
        Value, Index = T.empty((M,), "float32"), T.empty((M,), "int64")
        with T.Kernel(M, threads=32) as row:
            best = T.alloc_var("float32", init=-T.infinity("float32"))
            where = T.alloc_var("int32", init=0)
            for j in T.serial(N):
                if X[row, j] > best:
                    best = X[row, j]
                    where = j
            Value[row] = best
            Index[row] = where
        return Value, Index

    x = normal(6, 33)
    value, index = argmax(x)
    equal(value, x.max(1).values)
    equal(index, x.argmax(1))


def test_histogram(target: str) -> None:
    @jit(target)
    def histogram(X, bins: int):
        n = T.dynamic("n")
        X: T.Tensor((n,), T.int32)
        H = T.empty((bins,), T.int32)
        with T.Kernel(1, threads=64):
            for i in T.Parallel(bins):
                H[i] = 0
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            for i in T.Parallel(64):
                if b * 64 + i < n:
                    T.atomic_add(H[X[b * 64 + i]], 1)
        return H

    for n in (64, 1, 200):
        x = integers(n, low=0, high=10)
        equal(histogram(x, 10), torch.bincount(x, minlength=10))


def test_transpose_by_strides(target: str) -> None:
    @jit(target)
    def contiguous(X):
        M, N = T.const("M, N")
        s, t = T.const("s, t")
        X: T.StridedTensor((M, N), (s, t), T.float32)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(M, 16), T.ceildiv(N, 16), threads=64) as (bx, by):
            for i, j in T.Parallel(16, 16):
                if bx * 16 + i < M and by * 16 + j < N:
                    Y[bx * 16 + i, by * 16 + j] = X[bx * 16 + i, by * 16 + j]
        return Y

    x = normal(24, 37)
    for view in (x, x.T, x[:, 5:30], x[::3]):
        equal(contiguous(view), view)


def test_embedding(target: str) -> None:
    @jit(target)
    def embed(Index, Table):
        tokens = T.dynamic("tokens")
        words, width = T.const("words, width")
        Index: T.Tensor((tokens,), T.int64)
        Table: T.Tensor((words, width), T.float16)
        Out = T.empty((tokens, width), T.float16)
        with T.Kernel(tokens, threads=32) as t:
            word = T.alloc_var("int64", init=Index[t])
            if word >= 0:
                for j in T.Parallel(width):
                    Out[t, j] = Table[word, j]
            else:
                for j in T.Parallel(width):
                    Out[t, j] = 0
        return Out

    table = normal(20, 48, dtype="float16")
    index = integers(13, low=-3, high=20, dtype="int64")
    expected = torch.where(index[:, None] >= 0, table[index], torch.zeros((), dtype=table.dtype))
    equal(embed(index, table), expected)


def test_mask_of_booleans(target: str) -> None:
    @jit(target)
    def masked(X, Mask, fill):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Mask: T.Tensor((M, N), T.bool)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=32) as i:
            for j in T.Parallel(N):
                Y[i, j] = T.if_then_else(Mask[i, j], fill, X[i, j])
        return Y

    x = normal(7, 30)
    mask = torch.rand(7, 30) < 0.3
    equal(masked(x, mask, -1.5), x.masked_fill(mask, -1.5))
    equal(masked(x, mask, float("-inf")), x.masked_fill(mask, float("-inf")))


def test_rotary_embedding(target: str) -> None:
    @jit(target)
    def rope(Q, Cos, Sin):
        B, S, H, D = T.const("B, S, H, D")
        half = D // 2
        Q: T.Tensor((B, S, H, D), T.float32)
        Cos: T.Tensor((S, half), T.float32)
        Sin: T.Tensor((S, half), T.float32)
        Out = T.empty((B, S, H, D), T.float32)
        with T.Kernel(S, B, threads=32) as (s, b):
            for h, j in T.Parallel(H, half):
                x, y = Q[b, s, h, j], Q[b, s, h, j + half]
                Out[b, s, h, j] = x * Cos[s, j] - y * Sin[s, j]
                Out[b, s, h, j + half] = y * Cos[s, j] + x * Sin[s, j]
        return Out

    q, angle = normal(2, 5, 3, 16), normal(5, 8)
    result = rope(q, angle.cos(), angle.sin())
    x, y = q.double().chunk(2, -1)
    c, s = angle.double().cos()[:, None], angle.double().sin()[:, None]
    close(result, torch.cat([x * c - y * s, y * c + x * s], -1))


def test_silu_and_multiply(target: str) -> None:
    @jit(target)
    def silu_and_mul(X):
        tokens = T.dynamic("tokens")
        width = T.const("width")
        X: T.Tensor((tokens, 2 * width), T.bfloat16)
        Y = T.empty((tokens, width), T.bfloat16)
        with T.Kernel(tokens, threads=32) as t:
            for j in T.Parallel(width):
                gate = T.cast(X[t, j], T.float32)
                Y[t, j] = gate / (1.0 + T.exp(-gate)) * X[t, width + j]
        return Y

    for tokens in (1, 6):
        x = normal(tokens, 96, dtype="bfloat16")
        gate, up = x.double().chunk(2, 1)
        close(silu_and_mul(x), torch.nn.functional.silu(gate) * up, 1e-2)


def test_quantize_tokens(target: str) -> None:
    @jit(target)
    def quantize(X, levels: int = 127):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Q, Scale = T.empty((M, N), T.int8), T.empty((M,), T.float32)
        with T.Kernel(M, threads=32) as row:
            x = T.alloc_fragment((1, N), T.float32)
            top = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, 0], x)
            T.reduce_absmax(x, top, dim=1)
            scale = T.max(top[0], 1e-4) / levels
            Scale[row] = scale
            for _, j in T.Parallel(1, N):
                Q[row, j] = T.cast(T.round(x[0, j] / scale), T.int8)
        return Q, Scale

    x = normal(6, 64) * 5
    q, scale = quantize(x)
    close(scale, x.abs().amax(1) / 127)
    assert float((q * scale[:, None] - x).abs().max()) <= float(scale.max()) * 0.51


def test_cross_entropy(target: str) -> None:
    @jit(target)
    def cross_entropy(Logits, Labels):
        M, V = T.const("M, V")
        Logits: T.Tensor((M, V), T.float32)
        Labels: T.Tensor((M,), T.int64)
        Loss = T.empty((M,), T.float32)
        with T.Kernel(M, threads=64) as row:
            x = T.alloc_fragment((1, V), T.float32)
            top, total = T.alloc_fragment((1,), T.float32), T.alloc_fragment((1,), T.float32)
            T.copy(Logits[row, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, V):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            Loss[row] = T.log(total[0]) + top[0] - Logits[row, Labels[row]]
        return Loss

    x, labels = normal(5, 64) * 4, integers(5, low=0, high=64, dtype="int64")
    expected = torch.nn.functional.cross_entropy(x.double(), labels, reduction="none")
    close(cross_entropy(x, labels), expected)


def test_sums_of_segments(target: str) -> None:
    @jit(target)
    def segments(X, Starts):
        total, batch = T.dynamic("total, batch")
        width = T.const("width")
        X: T.Tensor((total, width), T.float32)
        Starts: T.Tensor((batch + 1,), T.int32)
        Out = T.empty((batch, width), T.float32)
        with T.Kernel(batch, threads=32) as b:
            acc = T.alloc_fragment((width,), T.float32)
            T.clear(acc)
            for i in T.serial(Starts[b], Starts[b + 1]):
                for j in T.Parallel(width):
                    acc[j] += X[i, j]
            T.copy(acc, Out[b, 0])
        return Out

    for lengths in ([3, 0, 5], [7]):
        starts = torch.tensor([0, *lengths]).cumsum(0).int()
        x = normal(int(starts[-1]), 32)
        expected = torch.stack([each.double().sum(0) for each in x.split(lengths)])
        close(segments(x, starts), expected)


def test_top_k_by_repeated_maxima(target: str) -> None:
    @jit(target)
    def top_k(X, k: int):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Value, Index = T.empty((M, k), T.float32), T.empty((M, k), T.int32)
        with T.Kernel(M, threads=32) as row:
            x = T.alloc_shared((N,), T.float32)
            T.copy(X[row, 0:N], x)
            for n in T.serial(k):
                best = T.alloc_var(T.float32, init=-T.infinity(T.float32))
                where = T.alloc_var(T.int32, init=0)
                for j in T.serial(N):
                    if x[j] > best:
                        best = x[j]
                        where = j
                Value[row, n] = best
                Index[row, n] = where
                T.sync_threads()
                x[where] = -T.infinity(T.float32)
                T.sync_threads()
        return Value, Index

    x = normal(3, 40)
    value, index = top_k(x, 4)
    expected = x.topk(4, 1)
    equal(value, expected.values)
    equal(index, expected.indices)


def test_fill_from_scalars_alone(target: str) -> None:
    @jit(target)
    def positions(n: T.int32, base: T.float32, heads: int = 2):
        Out = T.empty((n, heads), T.float32)
        with T.Kernel(T.ceildiv(n, 8), threads=32) as b:
            for i, h in T.Parallel(8, heads):
                if b * 8 + i < n:
                    Out[b * 8 + i, h] = T.cast(b * 8 + i, T.float32) * base + h
        return Out

    for n, base in ((5, 0.5), (16, 2.0)):
        expected = torch.arange(n)[:, None] * base + torch.arange(2)
        equal(positions(n, base), expected)


def test_helpers_lists_and_closures(target: str) -> None:
    weights = (0.25, 0.5, 0.25)

    @jit(target)
    def smooth(X):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        Y = T.empty((N,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                total = T.alloc_var(T.float32, init=0.0)
                for offset, weight in zip((-1, 0, 1), weights, strict=True):
                    inside = (i + offset >= 0) & (i + offset < N)
                    total += T.if_then_else(inside, X[i + offset] * weight, 0.0)
                Y[i] = total
        return Y

    x = normal(20)
    padded = torch.nn.functional.pad(x.double(), (1, 1))
    close(smooth(x), 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:])
