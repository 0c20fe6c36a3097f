"""Forms of calls: outputs of a T.prim_func, names before types, votes and addresses outside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

N = 64


def compiled_for(func: Any, target: str) -> Any:
    """Compiles for a target and runs on tensors of the CPU."""
    kernel = tilelang.compile(func, target="auto" if target == "cuda" else target)
    device = "cuda" if target == "cuda" else "cpu"

    def call(*args: Any) -> Any:
        result = kernel(*(a.to(device) if isinstance(a, torch.Tensor) else a for a in args))
        return [each.cpu() for each in result] if isinstance(result, list) else result.cpu()

    return call


def test_a_prim_func_returns_what_it_allocates(target: str) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), n: T.int32):
        B = T.empty((m * 2,), "float32")
        C = T.empty((n + 1,), "int32")
        with T.Kernel(1, threads=N):
            for i in T.Parallel(m * 2):
                B[i] = A[i % m] + 1
            for i in T.Parallel(n + 1):
                C[i] = i * i
        return C, B

    a = normal(37)
    c, b = compiled_for(main, target)(a, 9)
    equal(b, torch.cat([a, a]) + 1)
    equal(c, torch.arange(10) ** 2)


def test_one_iteration_writes(target: str) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((4,), "float32"), k: T.int32):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(m):
                if i == m - 1:
                    B[0] = A[i]
                if i >= k and i < k + 1:
                    B[1] = A[i]
            for i in T.Parallel(32):
                B[2] = A[i // 32]
                if i % 64 == 7:
                    B[3] += A[i]

    a, b = normal(37), poison(4)
    b[3] = 1
    run(main, target, a, b, 5)
    equal(b, torch.stack([a[36], a[5], a[0], a[7] + 1]))


def test_one_output_of_a_prim_func_in_the_lazy_style(target: str) -> None:
    @tilelang.jit(target="auto" if target == "cuda" else target)
    def made(n: int) -> Any:
        @T.prim_func
        def main(A: T.Tensor((n,), "float16")):
            B = T.empty((n,), "float32")
            scratch = T.empty((n,), "float32")
            with T.Kernel(1, threads=N):
                for i in T.Parallel(n):
                    scratch[i] = A[i] * 2
            with T.Kernel(1, threads=N):
                for i in T.Parallel(n):
                    B[i] = scratch[n - 1 - i]
            return B

        return main

    a = normal(100, dtype="float16")
    result = made(100)(a.cuda() if target == "cuda" else a)
    close(result.cpu(), a.double().flip(0) * 2)


def test_outputs_that_are_named_twice() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        B = T.empty((N,), "float32")
        with T.Kernel(1, threads=N):
            T.copy(A, B)
        return B

    with pytest.raises(errors.ArgumentError, match="main, which returns its outputs itself"):
        tilelang.compile(main, out_idx=[-1], target="sm_80")


PRELUDE = (
    "__device__ float twice(float x) { return x * 2; } __device__ void put(float* p) { *p = 7; }"
)


def test_calls_by_name_first(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N, prelude=PRELUDE):
            t = T.get_thread_binding()
            B[t] = T.call_extern("twice", A[t], dtype="float32")
            B[t] += T.call_extern("float32", "twice", B[t])
            B[t] += T.call_intrin("tl.exp", T.float32(0), dtype="float32")
            if t == 0:
                T.call_extern("put", T.address_of(B[1]), dtype="void")

    a = normal(N)
    expected = a * 6 + 1
    b = run(main, target, a, poison(N))
    close(torch.cat([b[:1], b[2:]]), torch.cat([expected[:1], expected[2:]]))


@pytest.mark.parametrize("args", [("float32",), ("f",), (), ("float32", 3)])
def test_calls_without_a_name(args: Any) -> None:
    with pytest.raises(errors.SemanticsError, match="needs the name of a function"):

        @T.prim_func
        def main(A: T.Tensor((N,), "float32")):
            with T.Kernel(1, threads=N):
                A[0] = T.call_extern(*args)


VOTES = [T.any_sync, T.all_sync, T.ballot_sync, T.ballot, T.syncthreads_count, T.syncthreads_or]


@pytest.mark.parametrize("vote", VOTES)
def test_votes_outside_of_a_function_are_expressions(vote: Any) -> None:
    from tilelang.tvm import tirx

    assert isinstance(vote(1), tirx.Call)
    assert isinstance(vote(True), tirx.Call)
    with pytest.raises(errors.DTypeError, match="requires an integer or boolean predicate"):
        vote(tirx.FloatImm("float32", 0.5))


def test_dot_products_require_bytes() -> None:
    for kinds in [("float16", "float16", "int32"), ("int8", "int8", "float32")]:
        with pytest.raises(
            errors.DTypeError, match=rf"dp4a requires int8 or uint8 .* not {kinds[0]}"
        ):

            @T.prim_func
            def main(
                A: T.Tensor((4,), kinds[0]),
                B: T.Tensor((4,), kinds[1]),
                C: T.Tensor((1,), kinds[2]),
            ):
                T.dp4a(A, B, C)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_two_and_four_sums_of_other_types_and_of_tiles(dtype: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 8), "float32"), B: T.Tensor((N, 8), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            T.atomic_addx2(B[t, 0:2], A[t, 0:2])
            T.atomic_addx2(B[t, 2], A[t, 2])
            for v in T.serial(2):
                T.atomic_addx2(B[t, 4 + v * 2], A[t, 4 + v * 2])

    a, b = normal(N, 8), normal(N, 8, dtype=dtype)
    kind = getattr(torch, dtype)
    expected = (b.float() + a.to(kind).float()).to(kind)
    equal(run(main, target, a, b), expected)


def test_sums_of_other_widths() -> None:
    with pytest.raises(errors.ShapeError, match="must be 2 adjacent elements"):

        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1, threads=N):
                T.atomic_addx2(B, A)


def test_tensors_at_addresses_outside_of_kernels(target: str) -> None:
    @T.prim_func
    def main(a: T.ptr, b: T.ptr, m: T.int32, n: T.int32):
        A = T.make_tensor(a, (m, n), "float32")
        B = T.make_tensor(b, (n, m), "float32")
        with T.Kernel(1, threads=N):
            for i, j in T.Parallel(m, n):
                B[j, i] = A[i, j]
        with T.Kernel(1, threads=N):
            for i, j in T.Parallel(n, m):
                B[i, j] += 1

    a, b = normal(7, 9), poison(9, 7)
    equal(run(main, target, a, b, 7, 9), a.T + 1)


def test_addresses_that_the_host_would_have_to_read() -> None:
    with pytest.raises(errors.ScopeError, match=r"T.make_tensor at `.*` must be inside"):

        @T.prim_func
        def main(ptrs: T.Tensor((4,), T.ptr), out: T.Tensor((N,), "float32")):
            A = T.make_tensor(ptrs[0], (N,), "float32")
            with T.Kernel(1, threads=N):
                T.copy(A, out)
