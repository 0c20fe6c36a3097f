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
