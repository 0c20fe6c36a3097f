"""T.view of tensor memory: another type of elements on the columns of a tile."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

ROWS, COLUMNS = 128, 64


def through_view(kind: str, first: int, width: int, rows: int = ROWS) -> Any:
    """B = A by a store to columns [first, first + width) of a view of a float32 tile."""
    ratio = 4 // torch.empty(0, dtype=getattr(torch, kind)).element_size()

    @T.prim_func
    def main(A: T.Tensor((rows, width), kind), B: T.Tensor((rows, width), kind)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem((rows, COLUMNS), "float32")
            view = T.view(tile, shape=(rows, COLUMNS * ratio), dtype=kind)
            stored, loaded = (T.alloc_fragment((rows, width), kind) for _ in range(2))
            zero = T.alloc_fragment((rows, COLUMNS), "float32")
            T.clear(zero)
            T.copy(zero, tile)
            T.copy(A, stored)
            T.copy(stored, view[:, first : first + width])
            T.copy(view[:, first : first + width], loaded)
            T.copy(loaded, B)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("kind", "first", "width", "rows"),
    [
        ("bfloat16", 0, 128, 128),
        ("float16", 64, 64, 128),
        ("float8_e4m3fn", 128, 64, 128),
        ("int32", 16, 32, 128),
        ("bfloat16", 32, 64, 64),
    ],
)
def test_copies(kind: str, first: int, width: int, rows: int) -> None:
    kernel = tilelang.compile(through_view(kind, first, width, rows), target="sm_100a")
    a = torch.randint(-8, 9, (rows, width)).to(getattr(torch, kind))
    b = torch.full((rows, width), 77).to(getattr(torch, kind))
    kernel(a, b)
    assert torch.equal(a.float(), b.float())


def test_elements_of_a_tile_hold_those_of_its_view() -> None:
    """The halves of a 32-bit cell are two neighbours of the view."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 2 * COLUMNS), "uint16"), B: T.Tensor((ROWS, COLUMNS), "uint32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem((ROWS, COLUMNS), "uint32")
            halves = T.view(tile, dtype="uint16")
            stored = T.alloc_fragment((ROWS, 2 * COLUMNS), "uint16")
            loaded = T.alloc_fragment((ROWS, COLUMNS), "uint32")
            T.copy(A, stored)
            T.copy(stored, halves)
            T.copy(tile, loaded)
            T.copy(loaded, B)

    a = torch.randint(0, 1 << 16, (ROWS, 2 * COLUMNS)).to(torch.uint16)
    b = torch.zeros(ROWS, COLUMNS, dtype=torch.uint32)
    tilelang.compile(main, target="sm_100a")(a, b)
    assert torch.equal(a.view(torch.uint32), b)


@pytest.mark.every_schedule
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("rows", [64, 128])
def test_probabilities_over_scores(rows: int, by_hand: bool) -> None:
    """P takes the upper half of S, and is A of the second GEMM."""
    n, dim, half = 64, 32, 64

    @T.prim_func
    def main(
        Q: T.Tensor((rows, dim), "bfloat16"),
        K: T.Tensor((n, dim), "bfloat16"),
        V: T.Tensor((n, dim), "bfloat16"),
        Out: T.Tensor((rows, dim), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k = T.alloc_shared((rows, dim), "bfloat16"), T.alloc_shared((n, dim), "bfloat16")
            v = T.alloc_shared((n, dim), "bfloat16")
            s, o = T.alloc_tmem((rows, n), "float32"), T.alloc_tmem((rows, dim), "float32")
            p = T.view(s, (rows, 2 * n), "bfloat16")
            scores = T.alloc_fragment((rows, n), "float32")
            narrow = T.alloc_fragment((rows, n), "bfloat16")
            out = T.alloc_fragment((rows, dim), "float32")
            done = T.alloc_barrier([1, 1])
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            if by_hand:
                T.tcgen05_gemm(q, k, s, transpose_B=True, clear_accum=True, mbar=done[0])
                T.mbarrier_wait_parity(done[0], 0)
            else:
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.copy(s, scores)
            T.copy(scores, narrow)
            T.copy(narrow, p[:, half : half + n])
            if by_hand:
                T.tcgen05_gemm(p[:, half : half + n], v, o, clear_accum=True, mbar=done[1])
                T.mbarrier_wait_parity(done[1], 0)
            else:
                T.gemm(p[:, half : half + n], v, o, clear_accum=True)
            T.copy(o, out)
            T.copy(out, Out)

    kernel = tilelang.compile(main, target="sm_100a")
    q, k, v = (torch.randint(-2, 3, (m, dim)).bfloat16() for m in (rows, n, n))
    o = torch.full((rows, dim), float("nan"))
    kernel(q, k, v, o)
    assert torch.equal(o, (q.float() @ k.float().T).bfloat16().float() @ v.float())


def compile_view(shape: Any, kind: str, layout: Any = None) -> None:
    @T.prim_func
    def main(B: T.Tensor((ROWS, COLUMNS // 2), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem((ROWS, COLUMNS), "bfloat16")
            view = T.view(tile, shape, kind)
            if layout is not None:
                T.annotate_layout({tile: T.Layout((ROWS, COLUMNS), layout)})
            found = T.alloc_fragment((ROWS, COLUMNS // 2), "float32")
            T.copy(view, found)
            T.copy(found, B)

    tilelang.compile(main, target="sm_100a")


def test_elements_of_a_view_lie_together() -> None:
    with pytest.raises(errors.LayoutError, match="cannot reinterpret"):
        compile_view((ROWS, COLUMNS // 2), "float32", lambda i, j: [i, 2 * j])


def test_rows_stay_rows() -> None:
    with pytest.raises(errors.ShapeError, match="rows of tensor memory are lanes"):
        compile_view((2 * ROWS, COLUMNS // 4), "float32")
