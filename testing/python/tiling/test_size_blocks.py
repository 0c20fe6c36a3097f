"""Blocks of elementwise programs that the compiler joins or divides, and those that it leaves."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T

DIVIDED = "blocks compute what one does in the program"
JOINED = "do in the program: its threads have few elements"


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
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("tile", [(64, 128), (1, 4096), (2, 2048), (3, 1024)], ids=str)
def test_parts_cover_all_elements(sizes, dtype, target, tile):
    kernel = tilelang.compile(add(*sizes, *tile, dtype=dtype), target=target)
    assert DIVIDED in said(kernel)
    run(kernel, *sizes, dtype)


def test_a_part_loads_at_most_32_bytes_a_thread():
    for dtype, parts in (("bfloat16", 8), ("float32", 16)):
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
        ({}, "sm_100a", {"tl.disable_block_fitting": True}),
        ({"rows": 8}, "sm_100a", {}),
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


def scaled(n, dtype="bfloat16", result="bfloat16", block=256, threads=256):
    """C = 2 A + B of flat tensors, an element a thread."""

    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), result)):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            for i in T.Parallel(block):
                C[b * block + i] = A[b * block + i] * 2 + B[b * block + i]

    return main


def run_flat(kernel, n, dtype, result):
    torch.manual_seed(0)
    a, b = (torch.randint(-9, 10, (n,)).to(getattr(torch, dtype)) for _ in range(2))
    c = torch.full((n,), 77).to(getattr(torch, result))
    kernel(a, b, c)
    want = (a.double() * 2 + b.double()).to(getattr(torch, result))
    torch.testing.assert_close(c.double(), want.double())


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize(
    ("n", "dtype", "result", "count"),
    [
        (8 * 148 * 256, "bfloat16", "bfloat16", 8),
        (4 * 188 * 256 + 13, "float32", "bfloat16", 4),
        (4 * 188 * 256 + 2000, "int32", "int32", 4),
    ],
    ids=str,
)
def test_joined_blocks_cover_all_elements(target, n, dtype, result, count):
    kernel = tilelang.compile(scaled(n, dtype, result), target=target)
    assert JOINED in said(kernel)
    run_flat(kernel, n, dtype, result)
    if target == "sm_100a":
        blocks = -(-n // 256)
        assert kernel.profile().timing.ctas == -(-blocks // count)


def test_joined_blocks_have_vectors():
    kernel = tilelang.compile(scaled(2**20), target="sm_100a")
    assert "tl::load<8>(A" in kernel.get_kernel_source()
    kernel = tilelang.compile(scaled(2**20, "float32", "float8_e4m3fn"), target="sm_100a")
    assert "tl::load<4>(A" in kernel.get_kernel_source()


def test_joined_blocks_of_dynamic_sizes():
    n = T.dynamic("n")
    kernel = tilelang.compile(scaled(n, block=100, threads=128), target="sm_100a")
    assert JOINED in said(kernel)
    for size in (1, 99, 100, 1003, 2400):
        run_flat(kernel, size, "bfloat16", "bfloat16")


def test_joined_tiles_of_two_dimensions():
    """Joins along the axis that has enough blocks, also where the tile has few columns."""
    for rows, columns, m, n in ((4, 64, 64, 4160), (1, 256, 1200, 300)):
        kernel = tilelang.compile(add(m, n, rows=rows, columns=columns), target="sm_100a")
        assert JOINED in said(kernel)
        run(kernel, m, n, "bfloat16")


def test_rows_beyond_a_grid_stay_as_they_are():
    """Blocks that no tile of the grid has must not write, though the tensor goes on."""

    @T.prim_func
    def main(A: T.Tensor((2**18,), "int32")):
        with T.Kernel(601, threads=128) as b:
            for i in T.Parallel(128):
                A[b * 128 + i] = b

    kernel = tilelang.compile(main, target="sm_100a")
    assert JOINED in said(kernel)
    a = torch.full((2**18,), -1, dtype=torch.int32)
    kernel(a)
    want = torch.arange(2**18, dtype=torch.int32) // 128
    assert torch.equal(a, torch.where(want < 601, want, -1))


@pytest.mark.parametrize(
    ("n", "options", "configs"),
    [
        (2 * 148 * 256 - 256, {}, {}),  # multiprocessors without a block
        (2**19, {"threads": 32}, {}),
        (2**19, {}, {"tl.disable_block_fitting": True}),
    ],
    ids=str,
)
def test_blocks_that_are_not_joined(n, options, configs):
    kernel = tilelang.compile(scaled(n, **options), target="sm_100a", pass_configs=configs)
    assert JOINED not in said(kernel)


def test_transposes_are_not_joined():
    @T.prim_func
    def main(A: T.Tensor((512, 512), "bfloat16"), B: T.Tensor((512, 512), "bfloat16")):
        with T.Kernel(32, 32, threads=256) as (bx, by):
            for i, j in T.Parallel(16, 16):
                B[bx * 16 + i, by * 16 + j] = A[by * 16 + j, bx * 16 + i]

    assert JOINED not in said(tilelang.compile(main, target="sm_100a"))
