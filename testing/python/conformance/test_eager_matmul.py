"""Eager programs: matrix products of many kinds, and attention."""

from __future__ import annotations

import math

import pytest
import torch
from conformance.eager import jit
from conformance.running import close, equal, integers, normal

import tilelang.language as T


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gemm(dtype: str, target: str) -> None:
    @jit(target)
    def matmul(A, B, block_M=64, block_N=64, block_K=32, dtype=T.float16, accum_dtype=T.float32):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], dtype]
        B: T.Tensor[[K, N], dtype]
        C = T.empty([M, N], accum_dtype)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                T.copy(B[ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])
        return C

    a, b = normal(72, 80, dtype=dtype), normal(80, 88, dtype=dtype)
    tolerance = 5e-2 if dtype == "float32" else 1e-4  # float32 is multiplied as tf32
    close(matmul(a, b, dtype=dtype), a.double() @ b.double(), tolerance)


def test_gemm_with_bias_and_relu(target: str) -> None:
    @jit(target)
    def linear(X, W, Bias=None, block=64, relu=True):
        M = T.dynamic("M")
        N, K = T.const("N, K")
        X: T.Tensor((M, K), T.float16)
        W: T.Tensor((N, K), T.float16)
        if Bias is not None:
            Bias: T.Tensor((N,), T.float32)
        Y = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            x = T.alloc_shared((block, 32), T.float16)
            w = T.alloc_shared((block, 32), T.float16)
            y = T.alloc_fragment((block, block), T.float32)
            T.clear(y)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(X[by * block, k * 32], x)
                T.copy(W[bx * block, k * 32], w)
                T.gemm(x, w, y, transpose_B=True)
            for i, j in T.Parallel(block, block):
                if Bias is not None:
                    y[i, j] += Bias[bx * block + j]
                if relu:
                    y[i, j] = T.max(y[i, j], 0)
            T.copy(y, Y[by * block, bx * block])
        return Y

    w, bias = normal(64, 96, dtype="float16"), normal(64)
    for rows in (64, 50):
        x = normal(rows, 96, dtype="float16")
        expected = x.double() @ w.double().T
        close(linear(x, w, bias), torch.relu(expected + bias), 1e-2)
        close(linear(x, w, relu=False), expected, 1e-2)


def test_batched_gemm(target: str) -> None:
    @jit(target)
    def bmm(A, B, block=32):
        batch, M, N, K = T.const("batch, M, N, K")
        A: T.Tensor((batch, M, K), T.bfloat16)
        B: T.Tensor((batch, K, N), T.bfloat16)
        C = T.empty((batch, M, N), T.float32)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), batch, threads=64) as (bx, by, bz):
            a = T.alloc_shared((block, block), T.bfloat16)
            b = T.alloc_shared((block, block), T.bfloat16)
            c = T.alloc_fragment((block, block), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[bz, by * block, k * block], a)
                T.copy(B[bz, k * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[bz, by * block, bx * block])
        return C

    a, b = normal(3, 40, 64, dtype="bfloat16"), normal(3, 64, 48, dtype="bfloat16")
    close(bmm(a, b), a.double() @ b.double(), 1e-4)


def test_split_k_through_scratch_memory(target: str) -> None:
    @jit(target)
    def split_k(A, B, splits=2, block=32):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), T.float16)
        partial = T.alloc_global((splits, M, N), T.float32)
        part = K // splits
        with T.Kernel(N // block, M // block, splits, threads=64) as (bx, by, bz):
            a = T.alloc_shared((block, block), T.float16)
            b = T.alloc_shared((block, block), T.float16)
            c = T.alloc_fragment((block, block), T.float32)
            T.clear(c)
            for k in T.Pipelined(part // block, num_stages=1):
                T.copy(A[by * block, bz * part + k * block], a)
                T.copy(B[bz * part + k * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, partial[bz, by * block, bx * block])
        with T.Kernel(M, threads=32) as row:
            for j in T.Parallel(N):
                total = T.alloc_var(T.float32, init=0.0)
                for s in T.serial(splits):
                    total += partial[s, row, j]
                C[row, j] = total
        return C

    a, b = normal(32, 128, dtype="float16"), normal(128, 64, dtype="float16")
    close(split_k(a, b), a.double() @ b.double(), 1e-2)
    close(split_k(a, b, splits=4), a.double() @ b.double(), 1e-2)


def test_grouped_gemm(target: str) -> None:
    @jit(target)
    def grouped(A, B, Offsets, block_M=32, block_N=32):
        total = T.dynamic("total")
        groups, K, N = T.const("groups, K, N")
        A: T.Tensor((total, K), T.float16)
        B: T.Tensor((groups, K, N), T.float16)
        Offsets: T.Tensor((groups + 1,), T.int32)
        C = T.empty((total, N), T.float32)
        tiles = T.ceildiv(total, block_M)
        with T.Kernel(N // block_N, tiles, groups, threads=64) as (bx, by, g):
            a = T.alloc_shared((block_M, K), T.float16)
            b = T.alloc_shared((K, block_N), T.float16)
            c = T.alloc_fragment((block_M, block_N), T.float32)
            start = Offsets[g] + by * block_M
            if start < Offsets[g + 1]:
                T.copy(A[start, 0], a)
                T.copy(B[g, 0, bx * block_N], b)
                T.clear(c)
                T.gemm(a, b, c)
                for i, j in T.Parallel(block_M, block_N):
                    if start + i < Offsets[g + 1]:
                        C[start + i, bx * block_N + j] = c[i, j]
        return C

    b = normal(3, 32, 64, dtype="float16")
    for sizes in ([40, 0, 9], [1, 33, 32]):
        offsets = torch.tensor([0, *sizes]).cumsum(0).int()
        a = normal(sum(sizes), 32, dtype="float16")
        parts = zip(a.double().split(sizes), b.double(), strict=True)
        close(grouped(a, b, offsets), torch.cat([x @ y for x, y in parts]), 1e-3)


def test_gemv(target: str) -> None:
    @jit(target)
    def gemv(A, x, block=64):
        M, K = T.const("M, K")
        A: T.Tensor((M, K), T.float16)
        x: T.Tensor((K,), T.float16)
        y = T.empty((M,), T.float32)
        with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
            acc = T.alloc_fragment((16, block), T.float32)
            total = T.alloc_fragment((16,), T.float32)
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, block)):
                for i, j in T.Parallel(16, block):
                    if b * 16 + i < M and k * block + j < K:
                        acc[i, j] += T.cast(A[b * 16 + i, k * block + j], "float32") * x[
                            k * block + j
                        ].astype("float32")
            T.reduce_sum(acc, total, dim=1)
            T.copy(total, y[b * 16])
        return y

    a, x = normal(40, 150, dtype="float16"), normal(150, dtype="float16")
    close(gemv(a, x), a.double() @ x.double(), 1e-4)


def test_gemm_of_integers(target: str) -> None:
    @jit(target)
    def matmul(A, B, block=64):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.int8)
        B: T.Tensor((N, K), T.int8)
        C = T.empty((M, N), T.int32)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, block), T.int8)
            b = T.alloc_shared((block, block), T.int8)
            c = T.alloc_fragment((block, block), T.int32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], a)
                T.copy(B[bx * block, k * block], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * block, bx * block])
        return C

    a, b = (integers(64, 128, low=-128, high=128, dtype="int8") for _ in range(2))
    equal(matmul(a, b), (a.double() @ b.double().T).int())


def test_gemm_of_quantized_weights(target: str) -> None:
    @jit(target)
    def matmul(A, Packed, Scale, group: int = 32, block: int = 32):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        Packed: T.Tensor((N, K // 2), T.uint8)
        Scale: T.Tensor((N, T.ceildiv(K, group)), T.float16)
        C = T.empty((M, N), T.float32)
        with T.Kernel(N // block, T.ceildiv(M, block), threads=64) as (bx, by):
            a = T.alloc_shared((block, group), T.float16)
            w = T.alloc_shared((block, group), T.float16)
            c = T.alloc_fragment((block, block), T.float32)
            T.clear(c)
            for k in T.serial(K // group):
                T.copy(A[by * block, k * group], a)
                for i, j in T.Parallel(block, group):
                    byte = Packed[bx * block + i, (k * group + j) // 2]
                    nibble = (byte >> T.cast(4 * (j % 2), "uint8")) & T.cast(15, "uint8")
                    level = T.cast(T.cast(nibble, "int32") - 8, "float16")
                    w[i, j] = level * Scale[bx * block + i, k]
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * block, bx * block])
        return C

    levels = integers(32, 64, low=0, high=16)
    packed = (levels[:, 0::2] | (levels[:, 1::2] << 4)).to(torch.uint8)
    a, scale = normal(32, 64, dtype="float16"), normal(32, 2, dtype="float16")
    weight = ((levels - 8) * scale.repeat_interleave(32, 1).double()).half()
    close(matmul(a, packed, scale), a.double() @ weight.double().T, 1e-3)


def test_gemm_of_scaled_float8(target: str) -> None:
    if target == "sm_80":
        pytest.skip("sm_80 has no float8 tensor cores")

    @jit(target)
    def matmul(A, B, ScaleA, block=64):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float8_e4m3fn)
        B: T.Tensor((N, K), T.float8_e4m3fn)
        ScaleA: T.Tensor((M,), T.float32)
        C = T.empty((M, N), T.bfloat16)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, block), T.float8_e4m3fn)
            b = T.alloc_shared((block, block), T.float8_e4m3fn)
            c = T.alloc_fragment((block, block), T.float32)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], a)
                T.copy(B[bx * block, k * block], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(block, block):
                c[i, j] *= ScaleA[by * block + i]
            T.copy(c, C[by * block, bx * block])
        return C

    a, b = (normal(64, 128).to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.rand(64)
    close(matmul(a, b, scale), a.double() @ b.double().T * scale[:, None], 1e-2)


def test_convolution_by_gathering(target: str) -> None:
    @jit(target)
    def convolve(X, W, stride=1, pad=1, block=32):
        N, H, Wd, C, F, R = T.const("N, H, W, C, F, R")
        X: T.Tensor((N, H, Wd, C), T.float16)
        W: T.Tensor((R, R, C, F), T.float16)
        OH = (H + 2 * pad - R) // stride + 1
        OW = (Wd + 2 * pad - R) // stride + 1
        Y = T.empty((N, OH, OW, F), T.float32)
        with T.Kernel(T.ceildiv(N * OH * OW, block), threads=64) as b:
            x = T.alloc_shared((block, C), T.float16)
            w = T.alloc_shared((C, F), T.float16)
            y = T.alloc_fragment((block, F), T.float32)
            T.clear(y)
            for tap in T.serial(R * R):
                for i, c in T.Parallel(block, C):
                    at = b * block + i
                    n, rest = at // (OH * OW), at % (OH * OW)
                    h = rest // OW * stride + tap // R - pad
                    v = rest % OW * stride + tap % R - pad
                    inside = (n < N) & (h >= 0) & (h < H) & (v >= 0) & (v < Wd)
                    x[i, c] = T.if_then_else(inside, X[n, h, v, c], T.cast(0, T.float16))
                T.copy(W[tap // R, tap % R, 0:C, 0:F], w)
                T.gemm(x, w, y)
            for i, f in T.Parallel(block, F):
                at = b * block + i
                if at < N * OH * OW:
                    Y[at // (OH * OW), at % (OH * OW) // OW, at % OW, f] = y[i, f]
        return Y

    x, w = normal(1, 6, 7, 16, dtype="float16"), normal(3, 3, 16, 16, dtype="float16")
    for stride in (1, 2):
        expected = torch.nn.functional.conv2d(
            x.double().permute(0, 3, 1, 2), w.double().permute(3, 2, 0, 1), None, stride, 1
        )
        close(convolve(x, w, stride=stride), expected.permute(0, 2, 3, 1), 1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, target: str) -> None:
    @jit(target)
    def attention(Q, K, V, causal=False, block_M=32, block_N=32):
        batch, heads, M, N, D = T.const("batch, heads, M, N, D")
        Q: T.Tensor((batch, heads, M, D), T.float16)
        K: T.Tensor((batch, heads, N, D), T.float16)
        V: T.Tensor((batch, heads, N, D), T.float16)
        O = T.empty((batch, heads, M, D), T.float16)  # noqa: E741
        scale = 1 / math.sqrt(D) * math.log2(math.e)
        with T.Kernel(T.ceildiv(M, block_M), heads, batch, threads=64) as (bx, by, bz):
            q = T.alloc_shared((block_M, D), T.float16)
            k = T.alloc_shared((block_N, D), T.float16)
            v = T.alloc_shared((block_N, D), T.float16)
            s = T.alloc_fragment((block_M, block_N), T.float32)
            p = T.alloc_fragment((block_M, block_N), T.float16)
            o = T.alloc_fragment((block_M, D), T.float32)
            top = T.alloc_fragment((block_M,), T.float32)
            before = T.alloc_fragment((block_M,), T.float32)
            total = T.alloc_fragment((block_M,), T.float32)
            row = T.alloc_fragment((block_M,), T.float32)
            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], q)
            T.fill(top, -T.infinity(T.float32))
            T.clear(total)
            T.clear(o)
            last = T.ceildiv((bx + 1) * block_M, block_N) if causal else T.ceildiv(N, block_N)
            for n in T.Pipelined(last, num_stages=1):
                T.copy(K[bz, by, n * block_N : (n + 1) * block_N, :], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        visible = bx * block_M + i >= n * block_N + j
                        s[i, j] = T.if_then_else(visible, s[i, j], -T.infinity(T.float32))
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    before[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.exp2((s[i, j] - top[i]) * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * before[i] + row[i]
                for i, j in T.Parallel(block_M, D):
                    o[i, j] *= before[i]
                T.copy(s, p)
                T.copy(V[bz, by, n * block_N : (n + 1) * block_N, :], v)
                T.gemm(p, v, o)
            for i, j in T.Parallel(block_M, D):
                o[i, j] /= total[i]
            T.copy(o, O[bz, by, bx * block_M : (bx + 1) * block_M, :])
        return O

    q, k, v = (normal(1, 2, 64, 32, dtype="float16") for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=causal
    )
    close(attention(q, k, v, causal=causal), expected, 5e-3)


def test_linear_attention_by_chunks(target: str) -> None:
    @jit(target)
    def linear_attention(Q, K, V, chunk=32):
        heads, S, D = T.const("heads, S, D")
        Q: T.Tensor((heads, S, D), T.float16)
        K: T.Tensor((heads, S, D), T.float16)
        V: T.Tensor((heads, S, D), T.float16)
        O = T.empty((heads, S, D), T.float32)  # noqa: E741
        with T.Kernel(heads, threads=64) as h:
            q = T.alloc_shared((chunk, D), T.float16)
            k = T.alloc_shared((chunk, D), T.float16)
            v = T.alloc_shared((chunk, D), T.float16)
            state = T.alloc_fragment((D, D), T.float32)
            state_shared = T.alloc_shared((D, D), T.float16)
            s = T.alloc_fragment((chunk, chunk), T.float32)
            s_shared = T.alloc_shared((chunk, chunk), T.float16)
            o = T.alloc_fragment((chunk, D), T.float32)
            T.clear(state)
            for n in T.serial(S // chunk):
                T.copy(Q[h, n * chunk, 0], q)
                T.copy(K[h, n * chunk, 0], k)
                T.copy(V[h, n * chunk, 0], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                for i, j in T.Parallel(chunk, chunk):
                    s_shared[i, j] = T.if_then_else(i >= j, s[i, j], 0.0)
                T.copy(state, state_shared)
                T.clear(o)
                T.gemm(q, state_shared, o)
                T.gemm(s_shared, v, o)
                T.gemm(k, v, state, transpose_A=True)
                T.copy(o, O[h, n * chunk, 0])
        return O

    q, k, v = (normal(2, 64, 32, dtype="float16") * 0.2 for _ in range(3))
    scores = (q.double() @ k.double().transpose(1, 2)).tril()
    close(linear_attention(q, k, v), scores @ v.double(), 2e-3)


def test_decoding_in_two_grids(target: str) -> None:
    @jit(target)
    def decode(Q, K, V, splits=2):
        heads, D = T.const("heads, D")
        N = T.dynamic("N")
        Q: T.Tensor((heads, D), T.float32)
        K: T.Tensor((N, D), T.float32)
        V: T.Tensor((N, D), T.float32)
        O = T.empty((heads, D), T.float32)  # noqa: E741
        part = T.alloc_global((heads, splits, D), T.float32)
        stats = T.alloc_global((heads, splits, 2), T.float32)
        with T.Kernel(splits, heads, threads=32) as (s, h):
            acc = T.alloc_fragment((D,), T.float32)
            T.clear(acc)
            top = T.alloc_var(T.float32, init=-T.infinity(T.float32))
            total = T.alloc_var(T.float32, init=0.0)
            size = T.ceildiv(N, splits)
            for n in T.serial(s * size, T.min(N, (s + 1) * size)):
                score = T.alloc_var(T.float32, init=0.0)
                for d in T.serial(D):
                    score += Q[h, d] * K[n, d]
                grown = T.max(top, score)
                shrink = T.exp(top - grown)
                weight = T.exp(score - grown)
                top = grown
                total = total * shrink + weight
                for d in T.Parallel(D):
                    acc[d] = acc[d] * shrink + weight * V[n, d]
            for d in T.Parallel(D):
                part[h, s, d] = acc[d]
            stats[h, s, 0] = top
            stats[h, s, 1] = total
        with T.Kernel(heads, threads=32) as h:
            for d in T.Parallel(D):
                top = T.alloc_var(T.float32, init=-T.infinity(T.float32))
                for s in T.serial(splits):
                    top = T.max(top, stats[h, s, 0])
                up = T.alloc_var(T.float32, init=0.0)
                down = T.alloc_var(T.float32, init=0.0)
                for s in T.serial(splits):
                    weight = T.exp(stats[h, s, 0] - top)
                    up += weight * part[h, s, d]
                    down += weight * stats[h, s, 1]
                O[h, d] = up / down
        return O

    q = normal(2, 32)
    for n in (10, 7):
        k, v = normal(n, 32), normal(n, 32)
        expected = torch.softmax(q.double() @ k.double().T, 1) @ v.double()
        close(decode(q, k, v), expected, 1e-5)
