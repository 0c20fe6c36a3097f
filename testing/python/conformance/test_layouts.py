"""Layouts of shared tiles that users write as functions: rotated, XORed, folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

FUNCTIONS: dict[str, Callable[[int, int], Any]] = {
    "rotated": lambda i, j: (i, (j + i) % 64),
    "rotated by three": lambda i, j: i * 64 + (j + 3 * i) % 64,
    "backwards": lambda i, j: (i, 63 - j),
    "XOR": lambda i, j: (i, j ^ i),
    "chunks of eight rotated": lambda i, j: (i, (j + i * 8) % 64),
    "diagonals": lambda i, j: ((j - i) % 64, j),
    "folded": lambda i, j: (i, T.if_then_else(j < 32, 2 * j, 127 - 2 * j)),
    "by a multiplier": lambda i, j: (i, (j * 5 + i) % 64),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transposed(name: str, dtype: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((64, 64), dtype)
            T.annotate_layout({S: T.Layout((64, 64), FUNCTIONS[name])})
            T.copy(A, S)
            for i, j in T.Parallel(64, 64):
                B[i, j] = S[j, i]

    a = integers(64, 64, dtype=dtype)
    equal(run(main, target, a, poison(64, 64, dtype=dtype)), a.T)


def gemm(layout: Callable[[int, int], Any], stages: int) -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((128, 192), "float16"),
        B: T.Tensor((192, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(2, threads=128) as by:
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: T.Layout((64, 64), layout)})
            T.clear(c)
            for k in T.Pipelined(3, num_stages=stages):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, 0])

    return main


@pytest.mark.parametrize("stages", [0, 2])
@pytest.mark.parametrize("name", ["rotated", "XOR", "chunks of eight rotated", "folded"])
def test_operand_of_a_gemm(name: str, stages: int, target: str) -> None:
    """Slots of a pipeline are tiles of the layout after each other; what wgmma and tcgen05.mma
    cannot read is for mma.sync."""
    a, b = normal(128, 192, dtype="float16"), normal(192, 64, dtype="float16")
    func = gemm(FUNCTIONS[name], stages)
    close(run(func, target, a, b, poison(128, 64)), a.double() @ b.double(), 1e-3)
    if target in ("sm_90a", "sm_100a"):
        remarks = [str(r.message) for r in tilelang.compile(func, target=target).remarks]
        assert any("layout (i0" in r or "layout (i1" in r for r in remarks), remarks


def test_views_and_slices(target: str) -> None:
    layout = T.Layout((8, 32), lambda i, j: (i, (j + 5 * i) % 32))

    @T.prim_func
    def main(A: T.Tensor((8, 32), "int32"), B: T.Tensor((4, 16), "int32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((8, 32), "int32")
            T.annotate_layout({S: layout})
            T.copy(A, S)
            T.copy(S[2:6, 8:24], B)

    a = integers(8, 32)
    equal(run(main, target, a, poison(4, 16, dtype="int32")), a[2:6, 8:24])


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (lambda i, j: (i, j) if i < 4 else (i, 31 - j), "branches on the indices"),
        (lambda i, j: (i, [*range(16, 32), *range(7, 16), *range(7)][j]), "index of a list"),
        (lambda i, j: (i, (j + i) % 31), "puts two elements in one place"),
    ],
)
def test_functions_without_an_expression(layout: Any, message: str) -> None:
    @tilelang.jit(target="sm_80")
    def main(A: T.Tensor[[8, 32], T.int32]):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((8, 32), "int32")
            T.annotate_layout({S: T.Layout((8, 32), layout)})
            T.copy(A, S)
            T.copy(S, A)

    with pytest.raises((errors.UnsupportedError, errors.LayoutError), match=message) as caught:
        main(integers(8, 32))
    assert "T.copy" in str(caught.value) or "T.annotate_layout" in str(caught.value)


def test_random_permutations_of_rows(target: str) -> None:
    """(a i + b j + c) mod 32 for random odd a, b."""
    for _ in range(4):
        p, q, r = (2 * int(torch.randint(16, ())) + 1 for _ in range(3))
        layout = T.Layout((32, 32), lambda i, j, p=p, q=q, r=r: (i, (p * i + q * j + r) % 32))

        @T.prim_func
        def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, threads=64):
                S = T.alloc_shared((32, 32), "float32")
                T.annotate_layout({S: layout})  # noqa: B023
                T.copy(A, S)
                for i, j in T.Parallel(32, 32):
                    B[j, i] = S[i, j] + S[j, i]

        a = normal(32, 32)
        equal(run(main, target, a, poison(32, 32)), a + a.T)


@pytest.mark.parametrize("of_threads", [True, False])
def test_an_array_of_each_thread_has_no_layout(of_threads: bool, target: str) -> None:
    """Each thread has all four elements, whatever the layout says; a remark tells so."""

    @T.prim_func
    def main(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64, 4), "float32")):
        with T.Kernel(1, threads=64):
            own = T.alloc_local((4,), "float32")
            if of_threads:
                T.annotate_layout({own: T.Fragment((4,), forward_thread_fn=lambda i: i)})
            else:
                T.annotate_layout({own: T.Layout((4,), lambda i: 3 - i)})
            t = T.get_thread_binding()
            for i in T.serial(4):
                own[i] = A[t, i] * 2
            for i in T.serial(4):
                B[t, i] = own[3 - i]

    kernel = tilelang.compile(main, target=target)
    a, b = normal(64, 4), poison(64, 4)
    kernel(a, b)
    equal(b, a.flip(1) * 2)
    assert any("layout_map='own' has no effect" in str(remark) for remark in kernel.remarks)
