"""Polynomials of two iterations by instructions for two: pair_polynomials."""

import pytest
import torch

import tilelang
import tilelang.language as T

PAIR = "tl::exp2_fma_pair"


def on_fragment(columns, degree, share):
    """2 ** A by fragments of a row a thread; pairs of columns below ``share`` of eight so."""

    @T.prim_func
    def main(A: T.Tensor((128, columns), "float32"), B: T.Tensor((128, columns), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((128, columns), "float32")
            T.annotate_layout({a: T.Fragment((128, columns), lambda i, j: (i, j))})
            T.copy(A, a)
            for i, j in T.Parallel(128, columns):
                a[i, j] = T.if_then_else(
                    j // 2 % 8 < share,
                    T.exp2_fma(a[i, j] * 0.5, degree=degree),
                    T.exp2(a[i, j] * 0.5),
                )
            T.copy(a, B)

    return main


@pytest.mark.parametrize(
    ("target", "columns", "pairs"),
    [("sm_100a", 32, True), ("sm_100a", 33, False), ("sm_90a", 32, False)],
)
@pytest.mark.parametrize(("degree", "relative"), [(3, 1.02e-4), (5, 2.5e-7)])
def test_results(target, columns, pairs, degree, relative):
    kernel = tilelang.compile(on_fragment(columns, degree, 3), target=target)
    assert (PAIR in kernel.get_kernel_source()) == pairs
    a = torch.empty(128, columns).uniform_(-250, 250)
    a[0], a[1, ::3], a[2] = -float("inf"), float("nan"), float("inf")
    b = torch.full_like(a, 7.0)
    kernel(a, b)
    torch.testing.assert_close(
        b.double(), (a.double() * 0.5).exp2(), rtol=relative, atol=0, equal_nan=True
    )
    polynomial = torch.arange(columns) // 2 % 8 < 3
    if degree == 3:  # the others are more exact
        error = (b.double() / (a.double() * 0.5).exp2() - 1).abs()[3:]
        assert error[:, ~polynomial].max() < 1e-6 < error[:, polynomial].max()


def test_iterations_that_read_what_others_wrote():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32, 9), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_local((9,), "float32")
            x[0] = A[t]
            for i in T.unroll(8):
                x[i + 1] = T.exp2_fma(-x[i])
            for i in T.unroll(9):
                B[t, i] = x[i]

    kernel = tilelang.compile(main, target="sm_100a")
    assert PAIR not in kernel.get_kernel_source()
    a, b = torch.rand(32), torch.zeros(32, 9)
    kernel(a, b)
    expected = [a.double()]
    for _ in range(8):
        expected.append((-expected[-1]).exp2())
    torch.testing.assert_close(b.double(), torch.stack(expected, 1), rtol=1e-6, atol=0)
