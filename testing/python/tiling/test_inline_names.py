"""A GEMM that names its indices gets the tiles of one that does not."""

from __future__ import annotations

import pytest
import torch
from tma_cases import poisoned

import tilelang
import tilelang.language as T

pytestmark = pytest.mark.over_field


def program(rows, columns, depth, named, shift=None):
    """C (rows, columns) = A B, in tiles of 128 x 128."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "bfloat16"),
        B: T.Tensor((depth, columns), "bfloat16"),
        first: T.Tensor((1,), "int32"),
        C: T.Tensor((rows, columns), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(columns, 128), T.ceildiv(rows, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            if named:
                row = by * 128
                column = bx * 128
                start = first[0] if shift else 0
                for k in T.Pipelined(T.ceildiv(depth, 64), num_stages=3):
                    step = k * 64 + start
                    T.copy(A[row, step], a)
                    T.copy(B[step, column], b)
                    T.gemm(a, b, c)
                T.copy(c, C[row, column])
            else:
                for k in T.Pipelined(T.ceildiv(depth, 64), num_stages=3):
                    T.copy(A[by * 128, k * 64], a)
                    T.copy(B[k * 64, bx * 128], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * 128, bx * 128])

    return main


def said(target, **options):
    """What remarks say of tiles, blocks and stages; their places in the source differ."""
    remarks = tilelang.lower(program(4096, 4096, 1024, **options), target=target).remarks
    topics = ("tiles", "order", "threads", "pipeline")
    return [remark.message for remark in remarks if remark.topic in topics]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_tiles_do_not_depend_on_names(target):
    assert said(target, named=True) == said(target, named=False)
    assert said(target, named=True) or target == "sm_80"


@pytest.mark.every_schedule
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_named_indices_name_the_same_elements(target, shift):
    """Also where a name loads memory, and stays."""
    rows, columns, depth = 300, 264, 136
    kernel = tilelang.compile(program(rows, columns, depth, True, shift), target=target)
    a, b = torch.randn(rows, depth).bfloat16(), torch.randn(depth, columns).bfloat16()
    c = poisoned((rows, columns), "bfloat16")
    kernel(a, b, torch.tensor([8 if shift else 0], dtype=torch.int32), c)
    start = 8 if shift else 0
    want = a[:, start:].double() @ b[start:].double()
    torch.testing.assert_close(c.double(), want, rtol=2e-2, atol=2e-1)
