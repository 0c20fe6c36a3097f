"""Macros, references and annotations of parameters."""

from __future__ import annotations

import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T

N = 64


@T.macro
def scaled(tile: T.LocalBuffer((4,), "float32"), factor):
    for i in T.serial(4):
        tile[i] = tile[i] * factor


def test_a_macro_takes_a_local_array(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            x = T.alloc_local((4,), "float32")
            for i in T.serial(4):
                x[i] = A[t, i]
            scaled(x, 3.0)
            for i in T.vectorized(4):
                B[t, i] = x[i]

    a = normal(N, 4)
    close(run(main, target, a, poison(N, 4)), a * 3)


@T.macro
def advanced(place: T.Ref, step):
    place = place + step


def test_a_macro_writes_through_a_reference(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            x = T.alloc_var("int32", init=t)
            for i in range(3):
                advanced(x, i + 1)
            B[t] = x

    equal(run(main, target, poison(N, dtype="int32")), torch.arange(N) + 6)


def test_intrinsics_by_name(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = T.call_intrin("float32", "tl.exp2", A[t])

    a = normal(N)
    close(run(main, target, a, poison(N)), a.double().exp2())


def test_functions_of_c(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N, prelude="__device__ int twice(int x) { return 2 * x; }"):
            T.import_source("__device__ void put(int* at, int x) { *at = x; }")
            t = T.get_thread_binding()
            T.call_extern("void", "put", T.address_of(B[t]), T.call_extern("int32", "twice", A[t]))

    a = integers(N)
    equal(run(main, target, a, poison(N, dtype="int32")), a * 2)


def test_a_fact_and_a_hint(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), n: T.int32):
        with T.Kernel(1, threads=N):
            T.assume(n <= N)
            T.annotate_min_blocks_per_sm(2)
            T.annotate_l2_hit_ratio({A: 0.5})
            t = T.get_thread_binding()
            if t < n:
                B[t] = A[t] + 1

    a, b = normal(N), torch.zeros(N)
    run(main, target, a, b, 40)
    close(b, torch.cat([a[:40] + 1, torch.zeros(24)]))


def test_values_outside_of_a_tensor(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((20, 24), "float32"), n: T.int32, B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_safe_value({A: -1.5})
            S = T.alloc_shared((32, 32), "float32")
            T.copy(A[4, 0], S)
            T.copy(S, B)
            if T.get_thread_binding() == 0:
                B[0, 0] = A[n, 0]

    a = normal(20, 24)
    expected = torch.full((32, 32), -1.5)
    expected[:16, :24] = a[4:]
    expected[0, 0] = -1.5
    equal(run(main, target, a, 30, poison(32, 32)), expected)


def test_options_of_a_function(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        T.annotate_pass_configs({"tl.disable_tma_lower": True})
        T.annotate_compile_flags("-DFACTOR=3")
        T.annotate_restrict_buffers(A)
        with T.Kernel(
            1, threads=N, prelude="__device__ float times(float x) { return FACTOR * x; }"
        ):
            t = T.get_thread_binding()
            B[t] = T.call_extern("float32", "times", A[t])

    a = normal(N)
    close(run(main, target, a, poison(N)), a * 3)
