"""Programs for B300 (sm_103a) and RTX 50 (sm_120a), which the emulator has as well."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang.errors import ResourceError, TargetError

TARGETS = pytest.mark.parametrize("target", ["sm_103a", "sm_120a"])
M, N, K = 136, 72, 160


def gemm(kind: str, result: str):
    @T.prim_func
    def main(A: T.Tensor((M, K), kind), B: T.Tensor((N, K), kind), C: T.Tensor((M, N), result)):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), kind)
            b = T.alloc_shared((64, 64), kind)
            c = T.alloc_fragment((128, 64), result)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 128, bx * 64])

    return main


@pytest.mark.every_schedule
@TARGETS
def test_gemm(target: str) -> None:
    a, b, c = normal(M, K, dtype="bfloat16"), normal(N, K, dtype="bfloat16"), poison(M, N)
    run(gemm("bfloat16", "float32"), target, a, b, c)
    close(c, a.double() @ b.double().T, 1e-3)


@TARGETS
@pytest.mark.parametrize("kind", ["float8_e4m3fn", "int8"])
def test_gemm_of_bytes(target: str, kind: str) -> None:
    if kind == "int8":
        a, b = integers(M, K, dtype=kind), integers(N, K, dtype=kind)
        c = poison(M, N, dtype="int32")
    else:
        a, b = (normal(rows, K).to(torch.float8_e4m3fn) for rows in (M, N))
        c = poison(M, N)
    run(gemm(kind, "int32" if kind == "int8" else "float32"), target, a, b, c)
    close(c, a.double() @ b.double().T, 1e-3)


@TARGETS
def test_rows(target: str) -> None:
    """Elements and a reduction of each row."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((M, K), "float32"), S: T.Tensor((M,))):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as by:
            a = T.alloc_fragment((8, K), "float32")
            s = T.alloc_fragment((8,), "float32")
            T.copy(A[by * 8, 0], a)
            T.reduce_max(a, s, dim=1)
            for i, j in T.Parallel(8, K):
                a[i, j] = a[i, j] - s[i]
            T.copy(a, B[by * 8, 0])
            T.copy(s, S[by * 8])

    a, b, s = normal(M, K), poison(M, K), poison(M)
    run(main, target, a, b, s)
    equal(s, a.amax(1))
    equal(b, a - a.amax(1, keepdim=True))


def test_what_a_card_has_not() -> None:
    @T.prim_func
    def accumulates():
        with T.Kernel(1, threads=128):
            c = T.alloc_tmem((128, 64), "float32")
            T.clear(c)

    @T.prim_func
    def cluster():
        with T.Kernel(2, threads=128, cluster_dims=2):
            T.cluster_sync()

    @T.prim_func
    def wide():
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((1024, 100), "uint8")
            T.clear(a)

    for kernel, error, text in (
        (accumulates, TargetError, "T.alloc_tmem: sm_120a"),
        (cluster, ResourceError, "sm_120a has no clusters"),
        (wide, ResourceError, "102400 bytes of shared memory; sm_120a has 101376"),
    ):
        with pytest.raises(error, match=text):
            tilelang.compile(kernel, target="sm_120a")
