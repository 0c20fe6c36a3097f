"""Fragments that registers do not hold, and that the program reduces."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors


def rows_of(columns: int, body, dtype: str = "float32", threads: int = 128):
    @T.prim_func
    def main(
        X: T.Tensor((3, columns), dtype), S: T.Tensor((3,)), M: T.Tensor((3,)), Y: T.Tensor((3,))
    ):
        with T.Kernel(3, threads=threads) as row:
            x = T.alloc_fragment((1, columns), "float32")
            s, m = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[row, :], x)
            body(x, s, m, S, M, Y, row)

    return main


@T.macro
def total(x, s, m, S, M, Y, row):
    T.reduce_sum(x, s, dim=1)
    T.copy(s, S[row : row + 1])


@T.macro
def total_and_most(x, s, m, S, M, Y, row):
    T.reduce_sum(x, s, dim=1)
    T.reduce_max(x, m, dim=1)
    T.copy(s, S[row : row + 1])
    T.copy(m, M[row : row + 1])


@T.macro
def squares(x, s, m, S, M, Y, row):
    for i, j in T.Parallel(1, x.shape[1]):
        x[i, j] = x[i, j] * x[i, j]
    T.reduce_sum(x, s, dim=1)
    T.copy(s, S[row : row + 1])


def told(kernel) -> list[str]:
    return [r.message for r in kernel.remarks if "needs more registers than a thread" in r.message]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("body", [total, total_and_most], ids=["one", "two"])
@pytest.mark.parametrize(("columns", "dtype"), [(70001, "float32"), (40000, "float16")])
def test_reductions_go_through_the_tensor(body, columns, dtype, target):
    kernel = tilelang.compile(rows_of(columns, body, dtype), target=target)
    assert len(told(kernel)) == 1
    assert kernel.n_spills == 0 and kernel.n_regs < 128
    x = torch.randn(3, columns).to(getattr(torch, dtype))
    s, m, y = (torch.full((3,), float("nan")) for _ in range(3))
    kernel(x, s, m, y)
    torch.testing.assert_close(s.double(), x.double().sum(1), rtol=1e-4, atol=1e-2)
    if body is total_and_most:
        assert torch.equal(m, x.float().amax(1))


def test_a_fragment_that_fits_is_held():
    kernel = tilelang.compile(rows_of(8192, total_and_most), target="sm_90a")
    assert not told(kernel)
    assert kernel.get_ptx().count("ld.global") == 16


def test_a_row_beyond_the_tensor_has_zeros():
    @T.prim_func
    def main(X: T.Tensor((1, 50000)), M: T.Tensor((1,))):
        with T.Kernel(1, threads=128):
            x, m = T.alloc_fragment((60000,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[0, 0:60000], x)
            T.reduce_max(x, m, dim=0)
            T.copy(m, M)

    x, m = -torch.rand(1, 50000) - 1, torch.full((1,), float("nan"))
    tilelang.compile(main, target="sm_90a")(x, m)
    assert m.item() == 0


@pytest.mark.parametrize(
    ("body", "said"),
    [(squares, "contribute to a reducer"), (total, None)],
    ids=["changed", "only reduced"],
)
def test_the_refusal_prints_another_program(body, said):
    program = rows_of(100_000, body)
    if said is None:
        tilelang.compile(program, target="sm_90a")
        return
    with pytest.raises(errors.ResourceError) as refused:
        tilelang.compile(program, target="sm_90a")
    text = str(refused.value)
    assert "the register file has only" in text
    assert "T.reduce_sum reduces dimension 1 of 100000 elements" in text and said in text


def test_the_refusal_names_the_tensor_where_rows_are_also_stored():
    @T.prim_func
    def main(X: T.Tensor((3, 100_000)), Y: T.Tensor((3, 100_000)), S: T.Tensor((3,))):
        with T.Kernel(3, threads=128) as row:
            x, s = T.alloc_fragment((100_000,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[row, :], x)
            T.reduce_sum(x, s, dim=0)
            T.copy(x, Y[row, :])
            T.copy(s, S[row : row + 1])

    with pytest.raises(errors.ResourceError, match=r"T.reduce_sum\(X\[.*\], s.*, dim=-1\) goes"):
        tilelang.compile(main, target="sm_90a")
