"""Reductions to more records than shared memory holds, or to a number known only at run time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

import tilelang
import tilelang.language as T
from tilelang.language.record_turns import BYTES_OF_TURN, turns_over


def kernel_of(op: str, shape: tuple[int, ...], dim: int, target: str = "sm_90a", dynamic=None):
    """A kernel of one block; ``dynamic`` is a dimension whose extent comes with the call."""
    extents = [T.dynamic("n") if d == dynamic else n for d, n in enumerate(shape)]
    kept = [extent for d, extent in enumerate(extents) if d != dim]

    @T.prim_func
    def main(
        X: T.Tensor(extents, "float32"),
        place: T.Tensor(kept, "int32"),
        A: T.Tensor(kept, "float32"),
        B: T.Tensor(kept, "float32"),
    ):
        with T.Kernel(1, threads=128):
            if op == "argmax":
                T.reduce_argmax(X, place, dim=dim, values=A)
            elif op == "argmin":
                T.reduce_argmin(X, place, dim=dim)
            elif op == "logsumexp":
                T.reduce_logsumexp(X, A, dim=dim)
            else:
                T.reduce_welford(X, A, B, dim=dim)

    return tilelang.compile(main, target=target)


def check(kernel, op: str, shape: tuple[int, ...], dim: int) -> None:
    x = torch.randn(shape)
    kept = x.amax(dim).shape
    index = torch.full(kept, -7, dtype=torch.int32)
    a, b = torch.full(kept, float("nan")), torch.full(kept, float("nan"))
    kernel(x, index, a, b)
    if op in ("argmax", "argmin"):
        assert torch.equal(index.long(), getattr(x, op)(dim))
    if op == "argmax":
        assert torch.equal(a, x.amax(dim))
    if op == "logsumexp":
        torch.testing.assert_close(a.double(), x.double().logsumexp(dim), rtol=1e-5, atol=1e-5)
    if op == "welford":
        torch.testing.assert_close(a.double(), x.double().mean(dim), rtol=1e-5, atol=1e-6)
        var = x.double().var(dim, correction=0)
        torch.testing.assert_close(b.double(), var, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("op", ["argmax", "argmin", "logsumexp", "welford"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((3, 9001), 0), ((9001, 3), 1), ((70, 3, 131), 1)], ids=str
)
def test_many_results(op, shape, dim, target):
    kernel = kernel_of(op, shape, dim, target)
    assert kernel.n_spills == 0
    check(kernel, op, shape, dim)


@pytest.mark.parametrize("op", ["argmax", "welford"])
@pytest.mark.parametrize(("shape", "dim", "dynamic"), [((3, 5003), 0, 1), ((5003, 3), 1, 0)])
def test_a_number_of_results_that_comes_with_the_call(op, shape, dim, dynamic):
    kernel = kernel_of(op, shape, dim, dynamic=dynamic)
    for extent in (shape[dynamic], 4096, 1, 17):
        sized = tuple(extent if d == dynamic else n for d, n in enumerate(shape))
        check(kernel, op, sized, dim)


def test_results_beside_others_keep_their_places():
    rows, columns = 2, 9000

    @T.prim_func
    def main(X: T.Tensor((4, rows, columns)), Y: T.Tensor((3, columns), "int32")):
        with T.Kernel(1, threads=128):
            T.reduce_argmax(X[2, :, :], Y[1, :], dim=1)

    x, y = torch.randn(4, rows, columns), torch.full((3, columns), -1, dtype=torch.int32)
    tilelang.compile(main, target="sm_90a")(x, y)
    assert torch.equal(y[1].long(), x[2].argmax(0))
    assert (y[[0, 2]] == -1).all()


@settings(max_examples=examples(100), deadline=None)
@given(shape=st.lists(st.integers(1, 70000), min_size=1, max_size=3), size=st.integers(1, 64))
def test_turns_cover_all_results_once(shape, size):
    total, covered = 1, 0
    for extent in shape:
        total *= extent
    for spans in turns_over(shape, size):
        part, held = 1, size
        for span in spans:
            part *= span.turns * span.size
            held *= span.held
            assert span.size <= span.held
        covered += part
        assert held <= max(BYTES_OF_TURN, size)
    assert covered == total
