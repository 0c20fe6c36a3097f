"""Kernels with parameters to choose."""

from __future__ import annotations

import tilelang
import tilelang.language as T


def copy_of(N: int, block: int, repeat: int = 1):
    """A copy that writes everything ``repeat`` times: the more, the slower."""

    @T.prim_func
    def copy_all(A: T.Tensor((N,), T.float32), B: T.Tensor((N,), T.float32)):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            tile = T.alloc_shared((block,), T.float32)
            for _ in T.serial(repeat):
                T.sync_threads()  # else the repetitions are one to the compiler
                T.copy(A[bx * block], tile)
                T.copy(tile, B[bx * block])

    return copy_all


@tilelang.jit(out_idx=-1)
def copies(N: int, block: int = 64, repeat: int = 1):
    return copy_of(N, block, repeat)


@tilelang.jit
def scaled(A, factor=2.0, block=32, repeat=1):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        tile = T.alloc_shared((block,), T.float32)
        for _ in T.serial(repeat):
            T.sync_threads()
            T.copy(A[bx * block], tile)
            for i in T.Parallel(block):
                B[bx * block + i] = tile[i] * factor
    return B
