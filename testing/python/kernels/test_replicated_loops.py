"""Loops over fragments of which several threads hold copies, and that write memory as well; and
fragments whose uses ask for different layouts."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS = 8, 256


def run(kernel, *arguments) -> None:
    tilelang.compile(kernel, target="sm_100a")(*arguments)


def rows_and_columns(body, dtype="float32"):
    """Sums rows of X, which leaves copies of a row's sum in many threads, then runs ``body``."""

    @T.prim_func
    def kernel(
        X: T.Tensor((ROWS, COLUMNS), "float32"),
        M: T.Tensor((ROWS,), dtype),
        Y: T.Tensor((ROWS, COLUMNS), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((ROWS, COLUMNS), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            mean = T.alloc_fragment((ROWS,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(ROWS):
                body(i, total, mean, M)
            for i, j in T.Parallel(ROWS, COLUMNS):
                Y[i, j] = x[i, j] - mean[i]

    return kernel


def store_both(i, total, mean, M):
    mean[i] = total[i] / COLUMNS
    M[i] = mean[i]


@T.macro
def store_both_under_conditions(i, total, mean, M):
    mean[i] = total[i] / COLUMNS
    if i < 5:
        M[i] = mean[i]
    else:
        M[i] = mean[i]


def add_atomically(i, total, mean, M):
    mean[i] = total[i] / COLUMNS
    T.atomic_add(M[i], mean[i])


def read_what_it_writes(i, total, mean, M):
    M[i] = M[i] + total[i] / COLUMNS
    mean[i] = M[i]


def use_what_an_atomic_returns(i, total, mean, M):
    mean[i] = T.atomic_add(M[i], total[i] / COLUMNS, return_prev=True) + total[i] / COLUMNS


@pytest.mark.parametrize(
    "body",
    [
        store_both,
        store_both_under_conditions,
        add_atomically,
        read_what_it_writes,
        use_what_an_atomic_returns,
    ],
)
def test_registers_and_memory(body):
    x = torch.randint(-8, 8, (ROWS, COLUMNS)).float()
    m, y = torch.zeros(ROWS), torch.full((ROWS, COLUMNS), float("nan"))
    run(rows_and_columns(body), x, m, y)
    assert torch.equal(m.double(), x.double().mean(1))
    assert torch.equal(y.double(), x.double() - x.double().mean(1, keepdim=True))


def test_vectors_of_registers_and_memory():
    """A replicated loop over rows of vectors."""

    @T.prim_func
    def kernel(
        X: T.Tensor((4, 8, 64), "float32"),
        S: T.Tensor((8, 64), "float32"),
        Y: T.Tensor((8, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((8, 64, 4), "float32")
            total = T.alloc_fragment((8, 64), "float32")
            twice = T.alloc_fragment((8, 64), "float32")
            for i, j, k in T.Parallel(8, 64, 4):
                x[i, j, k] = X[k, i, j]
            T.reduce_sum(x, total, dim=2)
            for i, j in T.Parallel(8, 64):
                twice[i, j] = 2 * total[i, j]
                S[i, j] = total[i, j]
            T.copy(twice, Y)

    x = torch.randint(-8, 8, (4, 8, 64)).float()
    s, y = torch.full((8, 64), float("nan")), torch.full((8, 64), float("nan"))
    run(kernel, x, s, y)
    assert torch.equal(s, x.sum(0))
    assert torch.equal(y, 2 * x.sum(0))


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("clear", [True, False])
def test_result_in_another_layout(threads, clear):
    """A reduction over columns into a vector whose layout comes from a reduction over rows."""

    @T.prim_func
    def kernel(
        X: T.Tensor((64, 64), "float32"),
        S: T.Tensor((64,), "float32"),
        Y: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((64, 64), "float32")
            y = T.alloc_fragment((64,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, y, dim=1)
            T.copy(y, S)
            T.reduce_sum(x, y, dim=0, clear=clear)
            T.copy(y, Y)

    x = torch.randint(-8, 8, (64, 64)).float()
    s, y = torch.full((64,), float("nan")), torch.full((64,), float("nan"))
    run(kernel, x, s, y)
    assert torch.equal(s, x.sum(1))
    assert torch.equal(y, x.sum(0) if clear else x.sum(0) + x.sum(1))


def test_result_in_a_row_of_a_fragment():
    @T.prim_func
    def kernel(X: T.Tensor((3, 16, 64), "float32"), Y: T.Tensor((3, 16), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((16, 64), "float32")
            y = T.alloc_fragment((3, 16), "float32")
            for k in T.unroll(3):
                T.copy(X[k, 0:16, 0:64], x)
                T.reduce_max(x, y[k, 0:16], dim=1)
            T.copy(y, Y)

    x, y = torch.randn(3, 16, 64), torch.full((3, 16), float("nan"))
    run(kernel, x, y)
    assert torch.equal(y, x.amax(2))


def test_combining_parts_of_attention():
    """Largest exponents over parts, a row of a fragment in a loop, and rows times a vector."""
    parts, rows, width = 4, 128, 32

    @T.prim_func
    def kernel(
        L: T.Tensor((parts, rows), "float32"),
        P: T.Tensor((rows, parts, width), "float32"),
        Out: T.Tensor((rows, width), "float32"),
    ):
        with T.Kernel(1, threads=128):
            lse = T.alloc_fragment((parts, rows), "float32")
            one = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows, width), "float32")
            result = T.alloc_fragment((rows, width), "float32")
            T.clear(total)
            T.clear(result)
            T.copy(L, lse)
            T.reduce_max(lse, largest, dim=0)
            for k in T.serial(parts):
                T.copy(lse[k, :], one)
                for i in T.Parallel(rows):
                    total[i] += T.exp2(one[i] - largest[i])
            for k in T.serial(parts):
                T.copy(P[:, k, :], part)
                for i in T.Parallel(rows):
                    one[i] = T.exp2(lse[k, i] - largest[i]) / total[i]
                for i, j in T.Parallel(rows, width):
                    result[i, j] += part[i, j] * one[i]
            T.copy(result, Out)

    scores, p = torch.randn(parts, rows), torch.randn(rows, parts, width)
    o = torch.full((rows, width), float("nan"))
    run(kernel, scores, p, o)
    weights = torch.softmax(scores.double() * torch.log(torch.tensor(2.0)).double(), 0)
    expected = torch.einsum("kr,rkw->rw", weights, p.double())
    torch.testing.assert_close(o.double(), expected, rtol=1e-4, atol=1e-4)
