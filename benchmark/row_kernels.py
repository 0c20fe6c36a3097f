"""Memory-bound kernels over the rows of a matrix, with their formulas in torch."""

from collections.abc import Callable
from typing import Any

import tilelang
import tilelang.language as T

EPSILON = 1e-5


@tilelang.jit(out_idx=[-1])
def copy(m: int, n: int, dtype: str = "bfloat16", block: int = 1, threads: int = 512) -> Any:
    """Y = X, both (m, n)."""

    @T.prim_func
    def copy_rows(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=threads) as row:
            tile = T.alloc_fragment((block, n), dtype)
            T.copy(X[row * block, 0], tile)
            T.copy(tile, Y[row * block, 0])

    return copy_rows


@tilelang.jit(out_idx=[-1])
def softmax(m: int, n: int, dtype: str = "bfloat16", block: int = 1, threads: int = 128) -> Any:
    """Y = softmax of each row of X, both (m, n)."""
    log2e = 1.4426950408889634

    @T.prim_func
    def softmax_rows(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=threads) as row:
            source = T.alloc_fragment((block, n), dtype)
            x = T.alloc_fragment((block, n), "float32")
            largest = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[row * block, 0], source)
            T.copy(source, x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = T.exp2((x[i, j] - largest[i]) * log2e)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[row * block, 0])

    return softmax_rows


@tilelang.jit(out_idx=[-1])
def rms_norm(m: int, n: int, dtype: str = "bfloat16", block: int = 4, threads: int = 256) -> Any:
    """Y = X / sqrt(mean(X^2) + eps) * W by rows: X and Y (m, n), W (n,)."""

    @T.prim_func
    def rms_norm_rows(
        X: T.Tensor((m, n), dtype), W: T.Tensor((n,), dtype), Y: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(T.ceildiv(m, block), threads=threads) as row:
            source = T.alloc_fragment((block, n), dtype)
            square = T.alloc_fragment((block, n), "float32")
            weight = T.alloc_fragment((n,), dtype)
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[row * block, 0], source)
            T.copy(W, weight)
            for i, j in T.Parallel(block, n):
                square[i, j] = T.cast(source[i, j], "float32") * T.cast(source[i, j], "float32")
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / n + EPSILON)
            for i, j in T.Parallel(block, n):
                source[i, j] = source[i, j] * total[i] * weight[j]
            T.copy(source, Y[row * block, 0])

    return rms_norm_rows


@tilelang.jit(out_idx=[-1])
def layer_norm(m: int, n: int, dtype: str = "bfloat16", block: int = 1, threads: int = 128) -> Any:
    """Y = (X - mean) / sqrt(var + eps) * W + B by rows: X and Y (m, n), W and B (n,)."""

    @T.prim_func
    def layer_norm_rows(
        X: T.Tensor((m, n), dtype),
        W: T.Tensor((n,), dtype),
        B: T.Tensor((n,), dtype),
        Y: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(m, block), threads=threads) as row:
            source = T.alloc_fragment((block, n), dtype)
            x = T.alloc_fragment((block, n), "float32")
            square = T.alloc_fragment((block, n), "float32")
            weight = T.alloc_fragment((n,), dtype)
            bias = T.alloc_fragment((n,), dtype)
            mean = T.alloc_fragment((block,), "float32")
            scale = T.alloc_fragment((block,), "float32")
            T.copy(X[row * block, 0], source)
            T.copy(W, weight)
            T.copy(B, bias)
            T.copy(source, x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(block, n):
                x[i, j] = x[i, j] - mean[i] / n
            for i, j in T.Parallel(block, n):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, scale, dim=1)
            for i in T.Parallel(block):
                scale[i] = T.rsqrt(scale[i] / n + EPSILON)
            for i, j in T.Parallel(block, n):
                x[i, j] = x[i, j] * scale[i] * weight[j] + bias[j]
            T.copy(x, Y[row * block, 0])

    return layer_norm_rows


def references() -> dict[str, Callable[..., Any]]:
    """Returns the formulas of the kernels in torch, by name."""
    import torch
    from torch.nn import functional

    return {
        "copy": torch.clone,
        "softmax": lambda x: torch.softmax(x, -1),
        "rms_norm": lambda x, w: functional.rms_norm(x, (x.shape[-1],), w, EPSILON),
        "layer_norm": lambda x, w, b: functional.layer_norm(x, (x.shape[-1],), w, b, EPSILON),
    }


KERNELS = {"copy": copy, "softmax": softmax, "rms_norm": rms_norm, "layer_norm": layer_norm}
# Vectors of n elements that each kernel takes beside the matrix.
VECTORS = {"copy": 0, "softmax": 0, "rms_norm": 1, "layer_norm": 2}
