"""Views whose memory has fewer, more or other dimensions of extent 1: the view's own count."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T
from tilelang import errors

ROWS, COLUMNS = 24, 24  # square: a dimension that is taken for another gives results of one shape
#: Of memory, of the view, the dimension, and whether results keep it.
SHAPES = [
    ((ROWS, 40), (ROWS, 1, 40), 2, False),
    ((ROWS, COLUMNS), (1, ROWS, COLUMNS), 1, True),
    ((ROWS, COLUMNS), (1, ROWS, COLUMNS), -2, False),
    ((ROWS, COLUMNS), (ROWS, 1, COLUMNS), -1, True),
    ((ROWS, COLUMNS), (ROWS, COLUMNS, 1), 1, False),
    ((ROWS, COLUMNS), (ROWS, 1, COLUMNS), 1, True),
    ((1, ROWS, COLUMNS), (ROWS, COLUMNS), 0, False),
    ((ROWS, 1, COLUMNS), (1, ROWS, COLUMNS, 1), 1, True),
    ((ROWS, 40), (ROWS, 5, 8), 1, True),
]
REDUCTIONS: dict[str, Any] = {
    "sum": lambda x, d: x.sum(d, True),
    "max": lambda x, d: x.amax(d, True),
    "min": lambda x, d: x.amin(d, True),
    "abssum": lambda x, d: x.abs().sum(d, True),
    "absmax": lambda x, d: x.abs().amax(d, True),
}
SCOPES = {"fragment": T.alloc_fragment, "shared": T.alloc_shared}


def _without(shape: tuple[int, ...], dim: int, keeps: bool) -> tuple[int, ...]:
    dim %= len(shape)
    return (*shape[:dim], *([1] if keeps else []), *shape[dim + 1 :])


@pytest.mark.every_schedule
@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("case", SHAPES, ids=str)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("clear", [True, False], ids=["clear", "onto"])
def test_reductions(op: str, case: Any, scope: str, clear: bool, target: str) -> None:
    memory, shape, dim, keeps = case
    results = _without(shape, dim, keeps)
    reduce = getattr(T, f"reduce_{op}")

    @T.prim_func
    def main(A: T.Tensor(memory, "float32"), B: T.Tensor(results, "float32")):
        with T.Kernel(1, threads=64):
            tile = SCOPES[scope](memory, "float32")
            found = T.alloc_fragment(results, "float32")
            T.copy(A, tile)
            T.fill(found, 0.5)
            reduce(T.reshape(tile, shape), found, dim=dim, clear=clear)
            T.copy(found, B)

    a = normal(*memory)
    wanted = REDUCTIONS[op](a.double().view(shape), dim)
    if not clear:
        half = torch.full_like(wanted, 0.5)
        kind = {"sum": torch.add, "min": torch.minimum, "abssum": torch.add}
        wanted = kind.get(op, torch.maximum)(wanted, half)
    close(run(main, target, a, poison(*results)), wanted.reshape(results))


@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor"])
def test_bit_reductions_of_words(op: str, target: str) -> None:
    reduce = getattr(T, f"reduce_{op}")

    @T.prim_func
    def main(A: T.Tensor((COLUMNS, 2 * COLUMNS), "int16"), B: T.Tensor((1, COLUMNS), "int32")):
        with T.Kernel(1, threads=32):
            words = T.alloc_shared((COLUMNS, 2 * COLUMNS), "int16")
            found = T.alloc_fragment((1, COLUMNS), "int32")
            T.copy(A, words)
            reduce(T.view(words, (1, COLUMNS, COLUMNS), "int32"), found, dim=1)
            T.copy(found, B)

    a = integers(COLUMNS, 2 * COLUMNS, low=-(2**15), high=2**15, dtype="int64").short()
    wanted = torch.zeros(COLUMNS, dtype=torch.int32) - int(op == "bitand")
    combine = {"bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor}[op]
    for row in a.view(torch.int32):
        wanted = combine(wanted, row)
    equal(run(main, target, a, poison(1, COLUMNS, dtype="int32")), wanted[None])


@pytest.mark.every_schedule
@pytest.mark.parametrize("results", [(ROWS, 1, 4), (ROWS, 4)], ids=str)
def test_partial_and_several(results: tuple[int, ...], target: str) -> None:
    """Partial results of rows, and reductions along several dimensions of a tile and a tensor."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, 40), "float32"),
        P: T.Tensor(results, "float32"),
        R: T.Tensor((ROWS,), "float32"),
        C: T.Tensor((40,), "float32"),
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((ROWS, 40), "float32")
            partial = T.alloc_fragment(results, "float32")
            rows = T.alloc_fragment((ROWS,), "float32")
            columns = T.alloc_fragment((40,), "float32")
            T.copy(A, x)
            T.reduce_sum(T.reshape(x, (ROWS, 1, 40)), T.reshape(partial, (ROWS, 1, 4)), dim=-1)
            T.reduce_sum(T.reshape(x, (ROWS, 1, 40)), rows, dim=(1, 2))
            T.reduce_max(T.reshape(A, (1, ROWS, 40)), columns, dim=1, chunk=7)
            T.copy(partial, P)
            T.copy(rows, R)
            T.copy(columns, C)

    a = normal(ROWS, 40)
    p, r, c = poison(*results), poison(ROWS), poison(40)
    run(main, target, a, p, r, c)
    close(p.view(ROWS, 4), a.double().view(ROWS, 10, 4).sum(1))
    close(r, a.double().sum(1))
    equal(c, a.amax(0))


@pytest.mark.every_schedule
def test_records_and_scans(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((ROWS, COLUMNS), "float32"),
        N: T.Tensor((COLUMNS,), "int32"),
        K: T.Tensor((3, COLUMNS), "float32"),
        S: T.Tensor((ROWS, COLUMNS), "float32"),
        X: T.Tensor((COLUMNS, ROWS), "float32"),
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((ROWS, COLUMNS), "float32")
            sums = T.alloc_shared((ROWS, COLUMNS), "float32")
            turned = T.alloc_shared((COLUMNS, 1, ROWS), "float32")
            place = T.alloc_fragment((COLUMNS,), "int32")
            best = T.alloc_fragment((3, COLUMNS), "float32")
            at = T.alloc_fragment((3, COLUMNS), "int32")
            T.copy(A, x)
            seen = T.reshape(x, (1, ROWS, COLUMNS))
            T.reduce_argmax(seen, place, dim=1)
            T.reduce_topk(
                seen, T.reshape(best, (1, 3, COLUMNS)), T.reshape(at, (1, 3, COLUMNS)), dim=1
            )
            T.cumsum(seen, T.reshape(sums, (1, ROWS, COLUMNS)), dim=1)
            T.transpose(x, T.reshape(turned, (COLUMNS, ROWS)))
            T.copy(place, N)
            T.copy(best, K)
            T.copy(sums, S)
            T.copy(turned, T.reshape(X, (COLUMNS, 1, ROWS)))

    a = normal(ROWS, COLUMNS)
    i, k = poison(COLUMNS, dtype="int32"), poison(3, COLUMNS)
    s, x = poison(ROWS, COLUMNS), poison(COLUMNS, ROWS)
    run(main, target, a, i, k, s, x)
    equal(i, a.argmax(0))
    equal(k, a.topk(3, 0).values)
    close(s, a.double().cumsum(0))
    equal(x, a.T)


@pytest.mark.every_schedule
def test_corners_take_the_extents_of_the_view(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 40), "float32"), B: T.Tensor((8, 9, 40), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 40), "float32")
            T.copy(A, x)
            T.fill(T.reshape(B, (72, 40)), 1)
            T.sync_threads()
            T.atomic_add(B[0, 4, 0], T.reshape(x, (8, 1, 40)))

    a = normal(8, 40)
    wanted = torch.ones(8, 9, 40)
    wanted[:, 4] += a
    close(run(main, target, a, poison(8, 9, 40)), wanted)


def test_operands_of_gemm(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((1, 64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, T.reshape(b, (64, 1, 64)))
            T.fill(T.reshape(c, (64, 1, 64)), 0)
            T.gemm(T.reshape(a, (64, 64)), T.reshape(b, (1, 64, 64)), c)
            T.copy(c, C)

    a, b = normal(64, 64, dtype="float16"), normal(64, 64, dtype="float16")
    close(run(main, target, a, b, poison(64, 64)), a.double() @ b.double(), 1e-3)


def _gemm_of(memory: tuple[int, ...], shape: tuple[int, ...]) -> None:
    @T.prim_func
    def main(C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared(memory, "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            T.gemm(T.reshape(a, shape), b, c)
            T.copy(c, C)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(
        errors.ShapeError, match=r"A of T.gemm must have two dimensions .*, got shape \(64, 1, 64\)"
    ):
        _gemm_of((64, 64), (64, 1, 64))


def test_errors_name_the_dimensions_of_the_view() -> None:
    def reduced(dim: Any, results: tuple[int, ...]) -> None:
        @T.prim_func
        def main(A: T.Tensor((8, 40), "float32")):
            with T.Kernel(1, threads=64):
                x = T.alloc_fragment((8, 40), "float32")
                found = T.alloc_fragment(results, "float32")
                T.copy(A, x)
                T.reduce_sum(T.reshape(x, (8, 1, 40)), found, dim=dim)

    with pytest.raises(errors.ShapeError, match="reduction of x, which has 3 dimensions"):
        reduced(3, (8,))
    with pytest.raises(
        errors.ShapeError, match=r"of \(8, 1, 40\) along dimension 2 gives \(8, 1\)"
    ):
        reduced(2, (9,))
    with pytest.raises(errors.ShapeError, match=r"along dimensions \(1, 2\) gives \(8\)"):
        reduced((-1, 1), (40,))
