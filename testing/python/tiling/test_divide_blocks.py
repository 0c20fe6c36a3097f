"""Blocks of elementwise programs that the compiler divides, and the programs that it leaves."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T

DIVIDED = "blocks compute what one does in the program"


def add(m, n, rows=64, columns=128, dtype="bfloat16", panel=0):
    """C = 2 A + B; tiles of 64 x 128 with 128 threads."""

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            if panel:
                T.use_swizzle(panel)
            for i, j in T.Parallel(rows, columns):
                row, column = by * rows + i, bx * columns + j
                C[row, column] = A[row, column] * 2 + B[row, column]

    return main


def said(kernel):
    return " ".join(remark.message for remark in kernel.remarks)


def run(kernel, m, n, dtype):
    torch.manual_seed(0)
    a, b = (torch.randint(-9, 10, (m, n)).to(getattr(torch, dtype)) for _ in range(2))
    c = poisoned((m, n), dtype, "cpu") if dtype != "int32" else torch.full((m, n), 77).int()
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() * 2 + b.double())


@pytest.mark.every_schedule
@pytest.mark.parametrize("sizes", [(128, 256), (200, 264), (61, 131), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int32"])
def test_parts_cover_all_rows(sizes, dtype):
    kernel = tilelang.compile(add(*sizes, dtype=dtype), target="sm_100a")
    assert DIVIDED in said(kernel)
    run(kernel, *sizes, dtype)


def test_a_part_loads_at_most_32_registers_a_thread():
    for dtype, parts in (("bfloat16", 2), ("float32", 4)):
        kernel = tilelang.compile(add(512, 512, dtype=dtype), target="sm_100a")
        assert kernel.profile().timing.ctas == parts * 4 * 8, dtype
        assert f"{parts} {DIVIDED}" in said(kernel)


def test_dynamic_sizes():
    m, n = T.dynamic("m, n")
    kernel = tilelang.compile(add(m, n), target="sm_100a")
    assert DIVIDED in said(kernel)
    run(kernel, 130, 200, "bfloat16")
    run(kernel, 7, 8, "bfloat16")


@pytest.mark.parametrize(
    ("options", "target", "configs"),
    [
        ({}, "sm_90a", {}),
        ({}, "sm_100a", {"tl.disable_block_fitting": True}),
        ({"rows": 16}, "sm_100a", {}),
        ({"panel": 2}, "sm_100a", {}),
    ],
    ids=str,
)
def test_programs_that_stay(options, target, configs):
    kernel = tilelang.compile(add(200, 264, **options), target=target, pass_configs=configs)
    assert DIVIDED not in said(kernel)
    run(kernel, 200, 264, "bfloat16")


def test_loops_over_shared_tiles_stay():
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float32"), B: T.Tensor((256, 256), "float32")):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            tile = T.alloc_shared((128, 128), "float32")
            T.copy(A[by * 128, bx * 128], tile)
            for i, j in T.Parallel(128, 128):
                B[by * 128 + i, bx * 128 + j] = tile[i, 127 - j]

    kernel = tilelang.compile(main, target="sm_100a")
    assert DIVIDED not in said(kernel)
    a = torch.randn(256, 256)
    b = poisoned((256, 256), "float32", "cpu")
    kernel(a, b)
    want = torch.cat([half.flip(1) for half in a.split(128, 1)], 1)
    assert torch.equal(b, want)
