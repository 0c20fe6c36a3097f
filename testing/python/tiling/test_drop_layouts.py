"""Layouts that a program names as the compiler would, and serial loops of small grids."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout


def gemm(m, n, k, layouts="none", loop="pipelined", tile=64):
    """C = A B."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((k, n), "bfloat16"),
        C: T.Tensor((m, n), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            a = T.alloc_shared((tile, 64), "bfloat16")
            b = T.alloc_shared((64, tile), "bfloat16")
            out = T.alloc_shared((tile, tile), "bfloat16")
            c = T.alloc_fragment((tile, tile), "float32")
            if layouts == "swizzled":
                T.annotate_layout({x: make_swizzled_layout(x) for x in (a, b, out)})
            if layouts == "narrow":
                T.annotate_layout({a: make_swizzled_layout(a, swizzle_bytes=64)})
            T.clear(c)
            if loop == "pipelined":
                for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                    T.copy(A[by * tile, step * 64], a)
                    T.copy(B[step * 64, bx * tile], b)
                    T.gemm(a, b, c)
            else:
                for step in T.serial(T.ceildiv(k, 64)):
                    T.copy(A[by * tile, step * 64], a)
                    T.copy(B[step * 64, bx * tile], b)
                    T.gemm(a, b, c)
            T.copy(c, out)
            T.copy(out, C[by * tile, bx * tile])

    return main


def check(kernel, m, n, k):
    a = torch.randint(-3, 4, (m, k)).bfloat16()
    b = torch.randint(-3, 4, (k, n)).bfloat16()
    c = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
    kernel(a, b, c)
    wanted = (a.float() @ b.float()).bfloat16()
    torch.testing.assert_close(c.float(), wanted.float(), rtol=0, atol=0)


def tiles(kernel):
    return [tile for launch in kernel.schedule().launches for tile in launch.tiles]


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("layouts", ["none", "swizzled", "narrow"])
def test_layouts(layouts, target):
    sizes = 200, 136, 320
    kernel = tilelang.compile(gemm(*sizes, layouts), target=target)
    if target == "sm_100a":
        assert bool(tiles(kernel)) == (layouts != "narrow")
    check(kernel, *sizes)


@pytest.mark.parametrize("target", ["sm_80", "sm_120a"])
@pytest.mark.parametrize("layouts", ["swizzled", "narrow"])
def test_layouts_on_other_targets(layouts, target):
    kernel = tilelang.compile(gemm(72, 72, 128, layouts), target=target)
    check(kernel, 72, 72, 128)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("sizes", [(256, 192, 512), (130, 200, 128), (300, 300, 200)])
def test_serial_loops_of_small_grids(sizes, target):
    kernel = tilelang.compile(gemm(*sizes, loop="serial"), target=target)
    assert any("the loop over K is pipelined" in r.message for r in kernel.remarks)
    check(kernel, *sizes)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_a_grid_of_few_blocks_is_compiled_as_written(target):
    kernel = tilelang.compile(gemm(128, 128, 256, loop="serial"), target=target)
    assert not any("the loop over K is pipelined" in r.message for r in kernel.remarks)
    check(kernel, 128, 128, 256)
