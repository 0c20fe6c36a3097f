"""Products with a triangular matrix: the loop over K ends at the diagonal of a block's rows."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def product(m, n, tile, ends):
    """C = the block-wise lower triangle of A (m, m) times B (m, n)."""
    rows, columns = tile
    depth = 64

    @T.prim_func
    def main(
        A: T.Tensor((m, m), "bfloat16"),
        B: T.Tensor((m, n), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), "bfloat16")
            b = T.alloc_shared((depth, columns), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            first = by * rows
            steps = T.ceildiv(first + rows, depth)
            if ends == "from the first row":
                steps = first // depth + rows // depth
            if ends == "from the block":
                steps = T.ceildiv((by + 1) * rows, depth)
            for step in T.Pipelined(steps, num_stages=3):
                T.copy(A[first, step * depth], a)
                T.copy(B[step * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[first, bx * columns])

    return main


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_120a", "sm_80"])
@pytest.mark.parametrize("ends", ["from the last row", "from the first row", "from the block"])
@pytest.mark.parametrize("tile", [(64, 64), (256, 64), (128, 128)])
def test_each_block_has_its_own_end(tile, ends, target):
    m, n = 512, 1024
    kernel = tilelang.compile(product(m, n, tile, ends), target=target)
    a, b = torch.randn(m, m).bfloat16(), torch.randn(m, n).bfloat16()
    c = torch.full((m, n), float("nan"))
    kernel(a, b, c)
    row = torch.arange(m)
    seen = row[None] < ((row // tile[0] + 1) * tile[0])[:, None]
    torch.testing.assert_close(c.double(), (a.double() * seen) @ b.double(), rtol=1e-3, atol=1e-2)


def some_rows(form):
    """Blocks of some rows multiply: by their index, by a tensor, or behind an early return."""

    @T.prim_func
    def main(
        A: T.Tensor((512, 256), "bfloat16"),
        B: T.Tensor((256, 256), "bfloat16"),
        L: T.Tensor((4,), "int32"),
        C: T.Tensor((512, 256), "float32"),
    ):
        with T.Kernel(2, 4, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            if form == "early return" and L[by] == 0:
                T.thread_return()
            if by % 2 == 0 if form == "index" else L[by] > 0:
                T.clear(c)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[by * 128, k * 64], a)
                    T.copy(B[k * 64, bx * 128], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * 128, bx * 128])

    return main


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("form", ["index", "tensor", "early return"])
def test_blocks_that_do_not_multiply_are_in_no_pair(form, target):
    kernel = tilelang.compile(some_rows(form), target=target)
    assert not any("pairs of blocks multiply" in r.message for r in kernel.remarks)
    a, b = torch.randint(-2, 3, (512, 256)).bfloat16(), torch.randint(-2, 3, (256, 256)).bfloat16()
    multiplies = torch.tensor([1, 0, 1, 0], dtype=torch.int32)
    c = torch.full((512, 256), -7.0)
    kernel(a, b, multiplies, c)
    wanted = torch.where(multiplies.repeat_interleave(128)[:, None] > 0, a.float() @ b.float(), -7)
    torch.testing.assert_close(c, wanted, rtol=0, atol=0)
