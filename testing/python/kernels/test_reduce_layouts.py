"""Reductions whose result other statements lay out: it goes by way of a fragment of its own."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import LayoutError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("threads", [64, 128])
@pytest.mark.parametrize(("rows", "columns", "dim"), [(4, 128, 0), (3, 64, 0), (64, 24, 1)])
def test_the_result_has_a_layout_already(rows, columns, dim, threads, clear):
    """The row vector is copied as vectors; the reduction leaves it spread over all threads."""
    kept = (rows, columns)[1 - dim]

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, columns), "int32"),
        Y: T.Tensor((kept,), "int32"),
        Z: T.Tensor((2, kept), "int32"),
    ):
        with T.Kernel(1, threads=threads):
            x, y = T.alloc_fragment((rows, columns), "int32"), T.alloc_fragment((kept,), "int32")
            z = T.alloc_fragment((2, kept), "int32")
            T.copy(X, x)
            T.copy(Y, y)
            T.reduce_sum(x, y, dim=dim, clear=clear)
            for i, j in T.Parallel(2, kept):
                z[i, j] = y[kept - 1 - j] + i
            T.copy(z, Z)

    x, y = torch.randint(-9, 9, (rows, columns)).int(), torch.randint(-9, 9, (kept,)).int()
    z = torch.full((2, kept), -77).int()
    tilelang.compile(kernel, target="sm_90a")(x, y, z)
    total = (x.sum(dim) + (0 if clear else y)).int().flip(0)
    assert torch.equal(z, torch.stack([total, total + 1]))


@pytest.mark.parametrize("flag", [0, 1])
def test_one_vector_from_two_reductions(flag):
    """Under a branch that is taken or not, and of two widths."""

    @T.prim_func
    def kernel(X: T.Tensor((3, 128), "float32"), Y: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            narrow, wide = (
                T.alloc_fragment((3, 64), "float32"),
                T.alloc_fragment((3, 128), "float32"),
            )
            part, full = T.alloc_fragment((64,), "float32"), T.alloc_fragment((128,), "float32")
            T.copy(X, wide)
            T.copy(X[:, 0:64], narrow)
            T.clear(part)
            T.clear(full)
            if n == 0:
                T.reduce_absmax(narrow, part, dim=0)
            else:
                T.reduce_min(wide, full, dim=0)
                T.copy(full[32:96], part)
            T.copy(part, Y)

    x, y = torch.randint(-60, 60, (3, 128)).float(), torch.full((64,), torch.nan)
    tilelang.compile(kernel, target="sm_90a")(x, y, flag)
    assert torch.equal(y, x.amin(0)[32:96] if flag else x[:, :64].abs().amax(0))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("threads", [32, 128])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_fragment_that_nothing_writes(dim: int, threads: int, target: str) -> None:
    """Compiles: the reduction chooses a layout that nothing else decides."""

    @T.prim_func
    def main(A: T.Tensor((48,), "float32")):
        with T.Kernel(1, threads=threads):
            forgotten = T.alloc_fragment((48, 48), "float32")
            sums = T.alloc_fragment((48,), "float32")
            T.reduce_sum(forgotten, sums, dim=dim)
            T.copy(sums, A)

    assert "forgotten" in tilelang.compile(main, target=target).get_kernel_source()


def test_a_slice_of_a_fragment_that_nothing_writes() -> None:
    @T.prim_func
    def main(A: T.Tensor((48,), "float32")):
        with T.Kernel(1, threads=128):
            forgotten = T.alloc_fragment((48, 48), "float32")
            sums = T.alloc_fragment((48,), "float32")
            T.reduce_sum(forgotten[0:48, 0:16], sums, dim=1)
            T.copy(sums, A)

    with pytest.raises(LayoutError, match="nothing but slices uses fragment 'forgotten'"):
        tilelang.compile(main, target="sm_100a")
