"""Values in registers that decide which tile operators run, how often, and on which tiles."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T

BLOCKS, N, K = 6, 64, 32


def held(kind: str, count: int) -> Any:
    return (
        T.alloc_local((count,), "int32") if kind == "local" else T.alloc_fragment((count,), "int32")
    )


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("kind", "form"),
    [("fragment", "condition"), ("fragment", "name"), ("fragment", "variable"), ("local", "name")],
)
def test_blocks_that_a_mask_leaves_out(kind: str, form: str, target: str) -> None:
    """Copies and gemms of a pipelined loop, under an element that all threads share."""

    @T.prim_func
    def main(
        A: T.Tensor((N, BLOCKS * K), "float16"),
        B: T.Tensor((BLOCKS * K, N), "float16"),
        Mask: T.Tensor((BLOCKS,), "int32"),
        C: T.Tensor((N, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((N, K), "float16"), T.alloc_shared((K, N), "float16")
            c, mask = T.alloc_fragment((N, N), "float32"), held(kind, BLOCKS)
            chosen = T.alloc_var("int32")
            T.copy(Mask, mask)
            T.clear(c)
            for k in T.Pipelined(BLOCKS, num_stages=2):
                if form == "name":
                    value = mask[k] * 2
                elif form == "variable":
                    chosen = mask[k] * 2
                    value = chosen
                else:
                    value = mask[k]
                if value != 0:
                    T.copy(A[0, k * K], a)
                    T.copy(B[k * K, 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C)

    a, b = normal(N, BLOCKS * K, dtype="float16"), normal(BLOCKS * K, N, dtype="float16")
    mask = torch.tensor([1, 0, 0, 3, 1, 0], dtype=torch.int32)
    kept = mask.bool().repeat_interleave(K)
    c = run(main, target, a, b, mask, poison(N, N))
    close(c, a[:, kept].double() @ b[kept].double(), 1e-2)


@pytest.mark.parametrize("kind", ["fragment", "local"])
def test_tiles_and_their_number(kind: str, target: str) -> None:
    """Which tiles are copied, as a table says; a computed element tells how many."""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCKS * 16, N), "float32"),
        Table: T.Tensor((BLOCKS,), "int32"),
        B: T.Tensor((BLOCKS * 16, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tile, table = T.alloc_shared((16, N), "float32"), held(kind, BLOCKS)
            used, count = T.alloc_fragment((BLOCKS,), "int32"), T.alloc_fragment((1,), "int32")
            T.copy(Table, table)
            for i in T.Parallel(BLOCKS):
                used[i] = T.if_then_else(Table[i] >= 0, 1, 0)
            T.reduce_sum(used, count, dim=0)
            for k in T.serial(count[0]):
                T.copy(A[table[k] * 16, 0], tile)
                T.copy(tile, B[k * 16, 0])

    a = normal(BLOCKS * 16, N)
    table = torch.tensor([4, 0, 5, 2, -1, -1], dtype=torch.int32)
    b = torch.full_like(a, 7.0)
    run(main, target, a, table, b)
    expected = torch.full_like(a, 7.0).view(BLOCKS, 16, N)
    expected[:4] = a.view(BLOCKS, 16, N)[table[:4].long()]
    equal(b, expected.view(-1, N))


@pytest.mark.parametrize("threads", [32, 128, 256])
def test_elements_of_fragments_by_themselves(threads: int, target: str) -> None:
    """Stored, named, under conditions, as bounds, at indices known at run time alone."""

    @T.prim_func
    def main(A: T.Tensor((64, 48), "float32"), n: T.int32, B: T.Tensor((12,), "float32")):
        with T.Kernel(1, threads=threads):
            f, rows = T.alloc_fragment((64, 48), "float32"), T.alloc_fragment((64,), "float32")
            most = T.alloc_fragment((1,), "float32")
            T.copy(A, f)
            T.reduce_max(f, rows, dim=1)
            T.reduce_max(rows, most, dim=0)
            B[0] = most[0]
            for k in T.serial(4):
                B[k + 1] = f[k * 7 + n, k]
            twice = f[63, 47] * 2
            if rows[1] > f[2, 0]:
                B[5] = twice
            else:
                B[5] = -twice
            for q in T.serial(T.cast(f[0, 0], "int32")):
                B[6 + q] = f[q, 0]

    a = normal(64, 48)
    a[0, 0] = 5
    b = torch.zeros(12)
    run(main, target, a, 2, b)
    sign = 1 if a[1].max() > a[2, 0] else -1
    expected = [a.max(), *(a[k * 7 + 2, k] for k in range(4)), a[63, 47] * 2 * sign, *a[:5, 0], 0]
    equal(b, torch.tensor([float(x) for x in expected]))


def test_an_element_that_threads_chose_for_themselves(target: str) -> None:
    """Each thread reads the element of its own index."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), "int32")
            T.copy(A, f)
            t = T.get_thread_binding()
            B[t] = f[63 - t]

    a = integers(64)
    equal(run(main, target, a, poison(64, dtype="int32")), a.flip(0))
