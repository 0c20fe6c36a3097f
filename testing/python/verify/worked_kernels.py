"""Kernels that between them have every kind of synchronization the compiler makes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import tilelang.language as T

_ATTENTION = Path(__file__).resolve().parents[3] / "examples/flash_attention/attention_forward.py"


def gemm(stages: int = 3, tiles_of_a_block: int = 1) -> Any:
    """A (512, 512) by B^T (512, 512); a block computes one tile, or several one after the other."""
    m, n, k, size = 128, 128, 64, 512

    @T.prim_func
    def main(
        A: T.Tensor((size, size), "bfloat16"),
        B: T.Tensor((size, size), "bfloat16"),
        C: T.Tensor((size, size), "bfloat16"),
    ):
        with T.Kernel(16 // tiles_of_a_block, threads=128) as block:
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((n, k), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            out = T.alloc_shared((m, n), "bfloat16")
            for t in T.serial(tiles_of_a_block):
                row = (block * tiles_of_a_block + t) // 4 * m
                column = (block * tiles_of_a_block + t) % 4 * n
                T.clear(c)
                for step in T.Pipelined(size // k, num_stages=stages):
                    T.copy(A[row, step * k], a)
                    T.copy(B[column, step * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, out)
                T.copy(out, C[row, column])

    return main


def attention(target: str, causal: bool = False) -> Any:
    """The example, of 512 queries and keys."""
    spec = importlib.util.spec_from_file_location("attention_forward", _ATTENTION)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    shape = example.Shape(2, 512, 512, 4, 2, 128, 128)
    return example.attention(shape, causal=causal, **example.default_tiles(target, 128))


def chained_gemms() -> Any:
    """The first product, rounded in registers, is the A operand of the second."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((160, 32), "float16"),
        C: T.Tensor((160, 64), "float16"),
        Out: T.Tensor((64, 64), "float32"),
        steps: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_shared((32, 64), "float16")
            s = T.alloc_fragment((64, 32), "float32")
            p = T.alloc_fragment((64, 32), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(steps, num_stages=2):
                T.copy(B[j * 32, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for i, q in T.Parallel(64, 32):
                    p[i, q] = T.max(s[i, q], 0) * 0.125
                T.copy(C[j * 32, 0], c)
                T.gemm(p, c, acc)
            T.copy(acc, Out)

    return main


def gemm_of_tensor_memory() -> Any:
    """A by way of registers to tensor memory; B is loaded by threads."""
    m, n, k, block = 128, 32, 128, 32

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, block), "bfloat16")
            b = T.alloc_shared((n, block), "bfloat16")
            local = T.alloc_fragment((m, block), "bfloat16")
            a_tmem = T.alloc_tmem((m, block), "bfloat16")
            c_tmem = T.alloc_tmem((m, n), "float32")
            for step in T.serial(k // block):
                T.copy(A[0, step * block], a)
                for i, j in T.Parallel(n, block):
                    b[i, j] = B[i, step * block + j] * 0.5
                T.copy(a, local)
                T.copy(local, a_tmem)
                T.gemm(a_tmem, b, c_tmem, transpose_B=True, clear_accum=step == 0)
            T.copy(c_tmem, C)

    return main


def scheduled(scheduler: str, blocks: int) -> Any:
    """A (256, 128) by B^T (384, 128), by tiles that blocks ask for."""
    m, n, k = 128, 128, 64

    @T.prim_func
    def main(
        A: T.Tensor((256, 128), "bfloat16"),
        B: T.Tensor((384, 128), "bfloat16"),
        C: T.Tensor((256, 384), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((n, k), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            for y, x in T.Persistent((2, 3), blocks, block, scheduler=scheduler):
                T.clear(c)
                for step in T.Pipelined(2, num_stages=2):
                    T.copy(A[y * m, step * k], a)
                    T.copy(B[x * n, step * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[y * m, x * n])

    return main


#: name: (function, target)
KERNELS: dict[str, tuple[Any, str]] = {
    f"gemm_{target}": (gemm(), target) for target in ("sm_80", "sm_90a", "sm_100a")
} | {
    f"persistent_{target}": (gemm(tiles_of_a_block=4), target) for target in ("sm_90a", "sm_100a")
} | {
    f"attention_{target}": (attention(target), target) for target in ("sm_90a", "sm_100a")
} | {
    "causal_attention": (attention("sm_90a", causal=True), "sm_90a"),
    "chained_gemms": (chained_gemms(), "sm_90a"),
    "gemm_of_tensor_memory": (gemm_of_tensor_memory(), "sm_100a"),
    "counter_sm_80": (scheduled("counter", 4), "sm_80"),
    "counter_sm_90a": (scheduled("counter", 4), "sm_90a"),
    "clc_sm_100a": (scheduled("clc", 6), "sm_100a"),
}  # fmt: skip
