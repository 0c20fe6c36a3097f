"""Kernels over the rows of a matrix in Triton, for benchmark/normalization.py: a row a program."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(x_ptr, y_ptr, columns, TILE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * columns + tl.arange(0, TILE)
    inside = tl.arange(0, TILE) < columns
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, (weights / tl.sum(weights, 0)).to(tl.bfloat16), mask=inside)


@triton.jit
def _rms_norm(x_ptr, w_ptr, y_ptr, columns, epsilon, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    at, inside = tl.program_id(0).to(tl.int64) * columns + column, column < columns
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w_ptr + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / columns + epsilon)
    tl.store(y_ptr + at, (x * scale * weight).to(tl.bfloat16), mask=inside)


@triton.jit
def _layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, columns, epsilon, TILE: tl.constexpr):
    column = tl.arange(0, TILE)
    at, inside = tl.program_id(0).to(tl.int64) * columns + column, column < columns
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w_ptr + column, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(b_ptr + column, mask=inside, other=0.0).to(tl.float32)
    centered = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, 0) / columns + epsilon)
    tl.store(y_ptr + at, (centered * scale * weight + bias).to(tl.bfloat16), mask=inside)


def kernels(epsilon: float) -> dict[str, Callable[..., torch.Tensor]]:
    """Functions of the matrix and its vectors, by the names of row_kernels.KERNELS."""

    def launch(kernel, constants):
        def run(x, *vectors):
            y = torch.empty_like(x)
            columns = x.shape[1]
            tile = triton.next_power_of_2(columns)
            kernel[(x.shape[0],)](x, *vectors, y, columns, *constants, TILE=tile, num_warps=8)
            return y

        return run

    return {
        "softmax": launch(_softmax, ()),
        "rms_norm": launch(_rms_norm, (epsilon,)),
        "layer_norm": launch(_layer_norm, (epsilon,)),
    }
