"""What each pass changes, as a difference of readable IR; and a program that it leaves alone."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tilelang.transform import pipeline, run_pass


def around(name: str, func: Any, target: str) -> tuple[str, str]:
    """Returns the program before and after the first pass of that name."""
    for step in pipeline():
        after = run_pass(step, func, target)
        if step == name:
            return str(func), str(after)
        func = after
    raise AssertionError(f"there is no pass {name}")


def slices_of_tensor_memory():
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem((128, 64), "float32")
            part = T.alloc_fragment((128, 32), "float32")
            for i in T.unroll(2):
                T.copy(A[:, i * 32 : i * 32 + 32], part)
                T.copy(part, tile[:, i * 32 : i * 32 + 32])
            for i in T.unroll(2):
                T.copy(tile[:, i * 32 : i * 32 + 32], part)
                T.copy(part, C[:, i * 32 : i * 32 + 32])

    return main


def loop_over_tensors():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i in T.unroll(2):
                for t in T.Parallel(128):
                    C[i * 128 + t] = A[i * 128 + t] + 1

    return main


def gemm(rows: int = 64, threads: int = 128, **options: Any):
    @T.prim_func
    def main(
        A: T.Tensor((rows, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((rows, 64), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((rows, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, **options)
            T.copy(c, C)

    return main


def promoted():
    return gemm(promote_every=32)


def roles_in_their_own_words():
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=256):
            upper = T.alloc_fragment((64, 64), "float16")
            lower = T.alloc_fragment((64, 64), "float16")
            if T.get_thread_binding(0) // 32 < 4:
                T.copy(A[0:64, :], upper)
                T.copy(upper, C[0:64, :])
            else:
                T.copy(A[64:128, :], lower)
                T.copy(lower, C[64:128, :])

    return main


def one_fragment_of_two_roles():
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=256):
            part = T.alloc_fragment((64, 64), "float16")
            if T.get_thread_binding(0) < 128:
                T.copy(A[0:64, :], part)
                T.copy(part, C[0:64, :])
            else:
                T.copy(A[64:128, :], part)
                T.copy(part, C[64:128, :])

    return main


def arrival_of_all_threads():
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_tmem((128, 64), "float32")
            out = T.alloc_fragment((128, 64), "float32")
            done = T.alloc_barrier(1)
            T.copy(A, a)
            T.copy(B, b)
            if T.get_thread_binding(0) >= 128:
                T.tcgen05_gemm(a, b, acc, mbar=None, clear_accum=True)
            T.tcgen05_mma_arrive(done)
            T.mbarrier_wait_parity(done, 0)
            if T.get_thread_binding(0) < 128:
                T.copy(acc, out)
                T.copy(out, C)

    return main


def tile_of_two_warpgroups():
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((128, 64), "float16"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            out = T.alloc_shared((128, 64), "float16")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, out)
            T.copy(out, C)

    return main


def chained_gemms():
    """P overlays the columns of S, which is dead then."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((128, 64), "float16"),
        V: T.Tensor((128, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((128, 64), "float16")
            v = T.alloc_shared((128, 64), "float16")
            s = T.alloc_fragment((128, 128), "float32")
            p = T.alloc_fragment((128, 128), "float16")
            o = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(V, v)
            T.gemm(a, b, s, transpose_B=True, clear_accum=True)
            T.copy(s, p)
            T.gemm(p, v, o, clear_accum=True)
            T.copy(o, C)

    return main


def tiles_of_two_groups():
    """Each half of the threads transposes a tile of its own."""

    @T.prim_func
    def main(A: T.Tensor((128, 32), "float32"), C: T.Tensor((128, 32), "float32")):
        with T.Kernel(1, threads=128):
            upper = T.alloc_shared((64, 32), "float32")
            lower = T.alloc_shared((64, 32), "float32")
            t = T.get_thread_binding(0)
            if t < 64:
                for j in T.serial(32):
                    upper[t, j] = A[t, j]
                for j in T.serial(32):
                    C[t, j] = upper[63 - t, j]
            else:
                for j in T.serial(32):
                    lower[t - 64, j] = A[t, j]
                for j in T.serial(32):
                    C[t, j] = lower[127 - t, j]

    return main


CHANGES = [
    ("expand_unrolled", slices_of_tensor_memory, "sm_100a"),
    ("promote_accumulators", promoted, "sm_90a"),
    ("resolve_roles", roles_in_their_own_words, "sm_90a"),
    ("assign_arrivals", arrival_of_all_threads, "sm_100a"),
    ("split_fragments", one_fragment_of_two_roles, "sm_90a"),
    ("stage_tensor_memory", chained_gemms, "sm_100a"),
    ("divide_stores", tile_of_two_warpgroups, "sm_90a"),
    ("plan_tensor_memory", chained_gemms, "sm_100a"),
    ("number_barriers", tiles_of_two_groups, "sm_90a"),
]


@pytest.mark.parametrize("name, kernel, target", CHANGES, ids=[case[0] for case in CHANGES])
def test_what_a_pass_changes(
    name: str, kernel: Callable[[], Any], target: str, golden: Any
) -> None:
    before, after = around(name, kernel(), target)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    assert before != after
    golden(name, "\n".join(list(lines)[2:]))


LEAVES = [
    ("expand_unrolled", loop_over_tensors, "sm_100a"),
    ("promote_accumulators", gemm, "sm_90a"),
    ("resolve_roles", gemm, "sm_90a"),
    ("assign_arrivals", gemm, "sm_100a"),
    ("split_fragments", roles_in_their_own_words, "sm_90a"),
    ("stage_tensor_memory", gemm, "sm_90a"),
    ("divide_stores", tile_of_two_warpgroups, "sm_100a"),
    ("plan_tensor_memory", loop_over_tensors, "sm_100a"),
    ("number_barriers", loop_over_tensors, "sm_90a"),
]


@pytest.mark.parametrize("name, kernel, target", LEAVES, ids=[case[0] for case in LEAVES])
def test_what_a_pass_leaves_alone(name: str, kernel: Callable[[], Any], target: str) -> None:
    before, after = around(name, kernel(), target)
    assert before == after
