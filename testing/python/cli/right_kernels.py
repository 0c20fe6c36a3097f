"""Kernels that are right, of several kinds, with their references: NAME and NAME_reference."""

from __future__ import annotations

import torch
from cli.cases import Case, integers, normal

import tilelang
import tilelang.language as T


def _gemm(dtype: str, out: str, accum: str = "float32"):
    @tilelang.jit
    def gemm(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], dtype]
        B: T.Tensor[[N, K], dtype]
        C = T.empty((M, N), out)
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), dtype)
            b = T.alloc_shared((64, 64), dtype)
            c = T.alloc_fragment((64, 64), accum)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 64, bx * 64])
        return C

    return gemm


def product(a, b):
    return a.float() @ b.float().T


gemm_long = _gemm("bfloat16", "float32")
gemm_tf32 = _gemm("float32", "float32")
gemm_half = _gemm("float16", "float16")
gemm_fp8 = _gemm("float8_e4m3fn", "float32")
gemm_int8 = _gemm("int8", "int32", "int32")
gemm_long_reference = gemm_tf32_reference = gemm_fp8_reference = product


def gemm_half_reference(a, b):
    return a @ b.T


def gemm_int8_reference(a, b):
    return a.int() @ b.int().T


@tilelang.jit
def quantize(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    Q = T.empty((M, N), T.float8_e4m3fn)
    S = T.empty((M,), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0], x)
        T.reduce_absmax(x, most)
        scale = T.max(most[0], 1e-10) / 448.0
        for j in T.Parallel(N):
            Q[row, j] = T.cast(x[j] / scale, "float8_e4m3fn")
        S[row] = scale
    return Q, S


def quantize_reference(x):
    scale = x.float().abs().amax(-1).clamp_min(1e-10) / 448.0
    return (x.float() / scale[:, None]).to(torch.float8_e4m3fn), scale


@tilelang.jit
def softmax(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0], x)
        T.reduce_max(x, most)
        for j in T.Parallel(N):
            x[j] = T.exp(x[j] - most[0])
        T.reduce_sum(x, total)
        for j in T.Parallel(N):
            Y[row, j] = x[j] / total[0]
    return Y


def softmax_reference(x):
    return torch.softmax(x, -1)


@tilelang.jit
def online_softmax(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(M, threads=64) as row:
        x = T.alloc_fragment((64,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        before = T.alloc_fragment((1,), T.float32)
        part = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.fill(most, -1e38)
        T.clear(total)
        for k in T.serial(T.ceildiv(N, 64)):
            for j in T.Parallel(64):
                inside = k * 64 + j < N
                x[j] = T.if_then_else(inside, T.cast(X[row, k * 64 + j], "float32"), -1e38)
            T.copy(most, before)
            T.reduce_max(x, most, clear=False)
            for j in T.Parallel(64):
                x[j] = T.exp2((x[j] - most[0]) * 1.4426950408889634)
            T.reduce_sum(x, part)
            total[0] = total[0] * T.exp2((before[0] - most[0]) * 1.4426950408889634) + part[0]
        for k in T.serial(T.ceildiv(N, 64)):
            for j in T.Parallel(64):
                if k * 64 + j < N:
                    value = T.cast(X[row, k * 64 + j], "float32")
                    Y[row, k * 64 + j] = T.exp2((value - most[0]) * 1.4426950408889634) / total[0]
    return Y


def online_softmax_reference(x):
    return torch.softmax(x.float(), -1).bfloat16()


@tilelang.jit
def layer_norm(X, W, B):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    W: T.Tensor[[N], T.float32]
    B: T.Tensor[[N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        square = T.alloc_fragment((N,), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0], x)
        T.reduce_sum(x, mean)
        mean[0] = mean[0] / N
        for j in T.Parallel(N):
            square[j] = (x[j] - mean[0]) * (x[j] - mean[0])
        T.reduce_sum(square, total)
        for j in T.Parallel(N):
            Y[row, j] = (x[j] - mean[0]) * T.rsqrt(total[0] / N + 1e-5) * W[j] + B[j]
    return Y


def layer_norm_reference(x, w, b):
    return torch.nn.functional.layer_norm(x, w.shape, w, b)


@tilelang.jit
def rms_norm(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    Y = T.empty((M, N), T.bfloat16)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_fragment((N,), T.float32)
        square = T.alloc_fragment((N,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[row, 0], x)
        for j in T.Parallel(N):
            square[j] = x[j] * x[j]
        T.reduce_sum(square, total)
        for j in T.Parallel(N):
            Y[row, j] = T.cast(x[j] * T.rsqrt(total[0] / N + 1e-6), "bfloat16")
    return Y


def rms_norm_reference(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).bfloat16()


@tilelang.jit
def attention(Q, K, V):
    H, S = T.const("H, S")
    Q: T.Tensor[[H, S, 64], T.bfloat16]
    K: T.Tensor[[H, S, 64], T.bfloat16]
    V: T.Tensor[[H, S, 64], T.bfloat16]
    Out = T.empty((H, S, 64), T.bfloat16)
    with T.Kernel(T.ceildiv(S, 64), H, threads=128) as (bx, head):
        q = T.alloc_shared((64, 64), T.bfloat16)
        k = T.alloc_shared((64, 64), T.bfloat16)
        v = T.alloc_shared((64, 64), T.bfloat16)
        s = T.alloc_fragment((64, 64), T.float32)
        p = T.alloc_fragment((64, 64), T.bfloat16)
        o = T.alloc_fragment((64, 64), T.float32)
        most = T.alloc_fragment((64,), T.float32)
        before = T.alloc_fragment((64,), T.float32)
        scale = T.alloc_fragment((64,), T.float32)
        part = T.alloc_fragment((64,), T.float32)
        total = T.alloc_fragment((64,), T.float32)
        T.copy(Q[head, bx * 64, 0], q)
        T.clear(o)
        T.clear(total)
        T.fill(most, -1e30)
        for j in T.Pipelined(T.ceildiv(S, 64), num_stages=1):
            T.copy(K[head, j * 64, 0], k)
            T.clear(s)
            T.gemm(q, k, s, transpose_B=True)
            for m, n in T.Parallel(64, 64):
                s[m, n] = T.if_then_else(j * 64 + n < S, s[m, n] * 0.18033688, -1e30)
            T.copy(most, before)
            T.reduce_max(s, most, dim=1, clear=False)
            for m in T.Parallel(64):
                scale[m] = T.exp2(before[m] - most[m])
            for m, n in T.Parallel(64, 64):
                s[m, n] = T.exp2(s[m, n] - most[m])
            T.reduce_sum(s, part, dim=1)
            for m in T.Parallel(64):
                total[m] = total[m] * scale[m] + part[m]
            T.copy(s, p)
            for m, n in T.Parallel(64, 64):
                o[m, n] *= scale[m]
            T.copy(V[head, j * 64, 0], v)
            T.gemm(p, v, o)
        for m, n in T.Parallel(64, 64):
            o[m, n] /= total[m]
        T.copy(o, Out[head, bx * 64, 0])
    return Out


def attention_reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@tilelang.jit
def running_sum(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    Y = T.empty((M, N), T.float32)
    with T.Kernel(M, threads=128) as row:
        x = T.alloc_shared((N,), T.float32)
        T.copy(X[row, 0], x)
        T.cumsum(x)
        T.copy(x, Y[row, 0])
    return Y


def running_sum_reference(x):
    return x.cumsum(-1)


@tilelang.jit
def argmax(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float32]
    At = T.empty((M,), T.int32)
    with T.Kernel(M, threads=32) as row:
        best = T.alloc_var(T.float32, init=-T.infinity(T.float32))
        at = T.alloc_var(T.int32, init=0)
        for j in T.serial(N):
            if X[row, j] > best:
                best = X[row, j]
                at = j
        At[row] = at
    return At


def argmax_reference(x):
    return x.argmax(-1)


@tilelang.jit
def split_sum(X):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((1,), T.float32)
    with T.Kernel(1, threads=32):
        Y[0] = 0.0
    with T.Kernel(T.ceildiv(N, 256), threads=128) as block:
        x = T.alloc_fragment((256,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[block * 256], x)
        T.reduce_sum(x, total)
        for i in T.Parallel(1):
            T.atomic_add(Y[i], total[i])
    return Y


def split_sum_reference(x):
    return x.sum().reshape(1)


def _elementwise(function, dtype: str = "float32", out: str = "float32"):
    @tilelang.jit
    def kernel(X):
        N = T.const("N")
        X: T.Tensor[[N], dtype]
        Y = T.empty((N,), out)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
            for i in T.Parallel(128):
                Y[block * 128 + i] = function(X[block * 128 + i], N)
        return Y

    return kernel


gelu = _elementwise(lambda x, _: 0.5 * x * (1.0 + T.erf(x * 0.7071067811865476)))
relu = _elementwise(lambda x, _: T.max(x, 0.0), "float16", "float16")
tiny = _elementwise(lambda x, _: x * 1e-5)
mean_gradient = _elementwise(lambda x, n: T.if_then_else(x > 0, 1.0, -1.0) / n)
positive = _elementwise(lambda x, _: x > 0, out="bool")
int8_quantize = _elementwise(
    lambda x, _: T.cast(T.clamp(T.round(x * 30.0), -128.0, 127.0), "int8"), out="int8"
)


def gelu_reference(x):
    return torch.nn.functional.gelu(x)


def relu_reference(x):
    return x.relu()


def tiny_reference(x):
    return x * 1e-5


def mean_gradient_reference(x):
    return torch.where(x > 0, 1.0, -1.0) / x.numel()


def positive_reference(x):
    return x > 0


def int8_quantize_reference(x):
    return (x * 30.0).round().clamp(-128, 127).to(torch.int8)


@tilelang.jit
def transpose(X):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.float16]
    Y = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        x = T.alloc_shared((32, 32), T.float16)
        T.copy(X[by * 32, bx * 32], x)
        for i, j in T.Parallel(32, 32):
            if bx * 32 + i < N and by * 32 + j < M:
                Y[bx * 32 + i, by * 32 + j] = x[j, i]
    return Y


def transpose_reference(x):
    return x.T.contiguous()


_half = {"dtype": "bfloat16"}
CASES = {
    "gemm_long": Case("M=64,N=64,K=8192", normal((64, 8192), (64, 8192), **_half)),
    "gemm_tf32": Case("M=64,N=64,K=512", normal((64, 512), (64, 512))),
    "gemm_half": Case("M=70,N=90,K=300", normal((70, 300), (90, 300), dtype="float16")),
    "gemm_fp8": Case("M=64,N=64,K=512", normal((64, 512), (64, 512), dtype="float8_e4m3fn")),
    "gemm_int8": Case("M=64,N=64,K=512", integers((64, 512), (64, 512), dtype="int8")),
    "quantize": Case("M=8,N=256", normal((8, 256), **_half)),
    "softmax": Case("M=4,N=4096", normal((4, 4096))),
    "online_softmax": Case("M=8,N=300", normal((8, 300), **_half)),
    "layer_norm": Case("M=8,N=300", normal((8, 300), (300,), (300,))),
    "rms_norm": Case("M=8,N=256", normal((8, 256), **_half)),
    "attention": Case("H=2,S=128", normal((2, 128, 64), (2, 128, 64), (2, 128, 64), **_half)),
    "running_sum": Case("M=4,N=1024", normal((4, 1024))),
    "argmax": Case("M=8,N=200", normal((8, 200))),
    "split_sum": Case("N=10000", normal((10000,))),
    "gelu": Case("N=1000", normal((1000,))),
    "relu": Case("N=1000", normal((1000,), dtype="float16")),
    "tiny": Case("N=1000", normal((1000,))),
    "mean_gradient": Case("N=1000", normal((1000,))),
    "positive": Case("N=1000", normal((1000,))),
    "int8_quantize": Case("N=1000", normal((1000,))),
    "transpose": Case("M=50,N=70", normal((50, 70), dtype="float16")),
}
