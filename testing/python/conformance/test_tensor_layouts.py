"""Tensors in global memory whose elements lie in the order of a layout: T.annotate_layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.layout import FormulaLayout, Layout

M, N = 64, 48

#: From (i, j) to where the element lies, and the same order by torch.
ORDERS: dict[str, tuple[Callable[..., Any], Callable[[torch.Tensor], torch.Tensor]]] = {
    "blocks": (
        lambda i, j: [i // 8, j // 8, i % 8, j % 8],
        lambda a: a.reshape(M // 8, 8, N // 8, 8).permute(0, 2, 1, 3),
    ),
    "fragments": (
        lambda i, j: [i // 8, j // 8, j % 2, 4 * (i % 8) + (j % 8) // 2],
        lambda a: a.reshape(M // 8, 8, N // 8, 4, 2).permute(0, 2, 4, 1, 3),
    ),
    "transposed": (lambda i, j: [j, i], lambda a: a.T),
    "swizzled": (
        lambda i, j: [i, (j // 8) ^ (i % 2), j % 8],
        lambda a: torch.stack(
            [row.reshape(-1, 2, 8).flip(1 if i % 2 else ()) for i, row in enumerate(a)]
        ),
    ),
}  # fmt: skip


def placed(order: str, a: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor of that order that holds ``a``."""
    return ORDERS[order][1](a).reshape(M, N).contiguous()


@pytest.mark.parametrize("order", ORDERS)
def test_elements(order: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(M // 16, threads=64) as bx:
            T.annotate_layout({B: T.Layout([M, N], ORDERS[order][0])})
            for i, j in T.Parallel(16, N):
                T.atomic_add(B[bx * 16 + i, j], A[bx * 16 + i, j])

    a, b = normal(M, N), normal(M, N)
    expected = b.double() + placed(order, a.double())
    close(run(main, target, a, b), expected)


@pytest.mark.parametrize(
    ("order", "dtype"),
    [*((order, "float16") for order in ORDERS), ("fragments", "float32"), ("blocks", "int8")],
)
def test_tiles(order: str, dtype: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(M // 32, threads=64) as bx:
            T.annotate_layout({A: ORDERS[order][0], B: T.Layout([M, N], ORDERS[order][0])})
            tile = T.alloc_shared((32, N), dtype)
            part = T.alloc_fragment((32, N), dtype)
            T.copy(A[bx * 32, 0], tile)
            T.copy(tile, part)
            T.copy(part, C[bx * 32 : bx * 32 + 32, :])
            T.copy(tile, B[bx * 32, 0])

    plain = normal(M, N).mul(10).to(getattr(torch, dtype))
    a, b = placed(order, plain), poison(M, N, dtype=dtype)
    c = run(main, target, a, b, poison(M, N, dtype=dtype))
    equal(c, plain)
    equal(b, a)


@pytest.mark.parametrize("rows", [40, 64])
def test_edges_are_those_of_the_tensor(rows: int, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((rows, N), "float32"), B: T.Tensor((64, N), "float32")):
        with T.Kernel(2, threads=32) as bx:
            T.annotate_layout({A: lambda i, j: [j // 8, i, j % 8]})
            T.annotate_safe_value({A: 7})
            tile = T.alloc_shared((32, N), "float32")
            T.copy(A[bx * 32, 0], tile)
            T.copy(tile, B[bx * 32, 0])

    plain = normal(rows, N)
    memory = plain.reshape(rows, N // 8, 8).transpose(0, 1).reshape(rows, N).contiguous()
    b = run(main, target, memory, poison(64, N))
    equal(b, torch.cat([plain, torch.full((64 - rows, N), 7.0)]))


def test_a_pipelined_gemm(target: str) -> None:
    size = 128

    @T.prim_func
    def main(
        A: T.Tensor((size, size), "float16"),
        B: T.Tensor((size, size), "float16"),
        C: T.Tensor((size, size), "float32"),
    ):
        with T.Kernel(1, threads=128):
            T.annotate_layout({A: lambda i, j: [i // 16, j // 32, i % 16, j % 32]})
            a = T.alloc_shared((size, 32), "float16")
            b = T.alloc_shared((32, size), "float16")
            c = T.alloc_fragment((size, size), "float32")
            T.clear(c)
            for k in T.Pipelined(size // 32, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = normal(size, size, dtype="float16"), normal(size, size, dtype="float16")
    memory = a.reshape(8, 16, 4, 32).transpose(1, 2).reshape(size, size).contiguous()
    close(run(main, target, memory, b, poison(size, size)), a.double() @ b.double(), 1e-3)


def test_each_kernel_of_a_function_has_its_own(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_layout({B: lambda i, j: [j, i]})
            T.copy(A, B)
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(M, N):
                B[i, j] += 1

    a = normal(M, N)
    equal(run(main, target, a, poison(M, N)), a.T.reshape(M, N) + 1)


def test_copies_are_by_threads() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_layout({A: lambda i, j: [j, i]})
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    remarks = [remark.message for remark in tilelang.compile(main, target="sm_90a").remarks]
    assert any(
        "done by threads: T.annotate_layout permutes the elements of A" in m for m in remarks
    )


def compile_with(shape: tuple[Any, ...], layout: Any, strides: Any = None) -> None:
    """Compiles a kernel that annotates its tensor."""
    tensor = T.StridedTensor(shape, strides, "float32") if strides else T.Tensor(shape, "float32")

    @T.prim_func
    def main(A: tensor):
        with T.Kernel(1, threads=32):
            T.annotate_layout({A: layout})
            A[(0,) * len(shape)] = 1

    tilelang.compile(main, target="sm_90a")


@pytest.mark.parametrize(
    ("shape", "layout", "strides", "message"),
    [
        ((60, 48), lambda i, j: [i // 8, j, i % 8], None, "place 3067; its memory has 2880"),
        ((64, 48), lambda i, j: [i // 2, j], None, "puts two elements in one place"),
        ((64, 48), lambda i, j: i * 64 + j, None, "reaches place"),
        ((64, 48), lambda i, j: [j, i], (64, 1), "it has strides"),
        ((T.dynamic("m"), 48), lambda i, j: [j, i], None, "constant integers"),
        ((2**16, 2**15), lambda i, j: [j, i], None, "2147483648 elements"),
        ((2**12, 2**12), lambda i, j: [j, 0 if i < 8 else i], None, "layout of 16777216 elements"),
        ((2**14, 2**14), lambda i, j: [i ^ j, i], None, "more than 16777216 values"),
        ((2**12, 2**12), lambda i, j: [i // 2, j], None, "puts two elements in one place"),
    ],
)  # fmt: skip
def test_wrong_layouts(shape: Any, layout: Any, strides: Any, message: str) -> None:
    with pytest.raises(errors.LayoutError, match=message):
        compile_with(shape, layout, strides)


def test_a_large_layout_is_no_layout_of_a_tile() -> None:
    with pytest.raises(errors.LayoutError, match="a layout of 4194304 elements is too large"):

        @T.prim_func
        def main(A: T.Tensor((64,), "int8")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((2048, 2048), "int8")
                T.annotate_layout({tile: lambda i, j: [j, i]})


def test_tma_copies_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            T.annotate_layout({A: lambda i, j: [j, i]})
            tile = T.alloc_shared((64, 64), "float32")
            barrier = T.alloc_barrier(1)
            if T.get_thread_binding() == 0:
                T.tma_copy(A, tile, barrier=barrier)
                T.mbarrier_arrive(barrier)
            T.mbarrier_wait_parity(barrier, 0)

    with pytest.raises(errors.LayoutError, match="permutes the elements of A"):
        tilelang.compile(main, target="sm_90a")


FUNCTIONS: list[tuple[tuple[int, ...], Callable[..., Any]]] = [
    (
        (2, 16, 3, 8),
        lambda b, s, h, d: [b, s // 8, h, d // 8, d % 2, 4 * (s % 8) + (d % 8) // 2],
    ),
    ((4, 6, 5), lambda i, j, k: [k, i, j]),
    ((16, 8), lambda i, j: [i, (j ^ i) & 7]),
    ((6, 4), lambda i, j: i * 4 + j),
    ((6, 4), lambda i, j: [i // 2, j]),
    ((6, 4), lambda i, j: [0, j, 3, i]),
    ((1, 4), lambda i, j: j),
]


@pytest.mark.parametrize(("shape", "function"), FUNCTIONS)
def test_large_layouts_are_the_same_map(shape: tuple[int, ...], function: Any) -> None:
    large, table = FormulaLayout(shape, function), Layout(shape, function)
    coordinates = list(np.ndindex(*shape))
    assert [large.forward(*coord) for coord in coordinates] == table.values()
    assert (large.size, large.cosize) == (table.size, table.cosize)
    assert large.is_injective == table.is_injective
    with pytest.raises(errors.BoundsError, match="is outside of shape"):
        large.forward(*shape)


def test_a_tensor_too_large_to_tabulate() -> None:
    shape = (8, 2048, 32, 128)
    layout = T.Layout(
        shape, lambda b, s, h, d: [b, s // 8, h, d // 8, d % 2, 4 * (s % 8) + d % 8 // 2]
    )
    assert isinstance(layout, FormulaLayout)
    assert layout.is_injective
    assert layout.cosize == layout.size == 2**26
    assert layout.forward(7, 2047, 31, 127) == 2**26 - 1
    assert layout(1, 9, 2, 3) == (((1 * 256 + 1) * 32 + 2) * 16 * 2 + 1) * 32 + 4 + 1
    compile_with(shape, layout)
