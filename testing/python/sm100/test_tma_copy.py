"""T.copy between global and shared memory by the tensor memory accelerator.

CPU tensors run on the emulator. The reference is the copy itself: every element arrives, none
outside of the tensor is touched, what lies outside reads as zero.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tma_cases import (
    DTYPES,
    TARGETS,
    assert_same,
    check_through,
    compiled,
    poisoned,
    random_bits,
    through_shared,
)

import tilelang
import tilelang.language as T
from tilelang.runtime.nvrtc import compile_cuda
from tilelang.runtime.toolchain import find_ptxas


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str, target: str) -> None:
    kernel = compiled(through_shared(128, 192, 64, 64, dtype), target, loads=1, stores=1)
    check_through(kernel, (128, 192), dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "block"),
    [
        ((300, 264), (128, 64)),
        ((1, 128), (64, 128)),
        ((257, 8), (64, 32)),
        ((65, 1000), (24, 200)),
        ((130, 72), (16, 256)),
        ((511, 136), (256, 16)),
        ((40, 640), (40, 136)),
    ],
)
def test_ragged_edges(shape: tuple[int, int], block: tuple[int, int], target: str) -> None:
    kernel = compiled(through_shared(*shape, *block, "float16"), target, loads=1, stores=1)
    check_through(kernel, shape, "float16")


@pytest.mark.parametrize(
    ("block", "boxes"),
    [((64, 512), 8), ((512, 32), 2), ((264, 128), 3), ((16, 1024), 16), ((300, 64), 2)],
)
def test_large_tiles_are_cut_into_boxes(block: tuple[int, int], boxes: int) -> None:
    shape = (block[0] + 17, 2 * block[1] - 8)
    kernel = compiled(
        through_shared(*shape, *block, "float16"), "sm_100a", loads=boxes, stores=boxes
    )
    check_through(kernel, shape, "float16")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", [32, 64, 128, 256, 384])
def test_thread_counts(threads: int, target: str) -> None:
    func = through_shared(100, 128, 32, 64, "bfloat16", threads)
    check_through(compiled(func, target, loads=1, stores=1), (100, 128), "bfloat16")


@pytest.mark.parametrize("target", TARGETS)
def test_dynamic_rows(target: str) -> None:
    m = T.dynamic("m")
    kernel = compiled(through_shared(m, 128, 64, 64, "float32"), target, loads=1, stores=1)
    for rows in (1, 63, 64, 65, 200):
        check_through(kernel, (rows, 128), "float32")


def test_dynamic_row_length() -> None:
    """Rows of unknown length may not be multiples of 16 bytes: TMA goes along those that are."""
    n = T.dynamic("n")

    @T.prim_func
    def func(A: T.Tensor((100, n), "float16"), B: T.Tensor((100, n), "float16")):
        with T.Kernel(T.ceildiv(n, 64), threads=128) as bx:
            tile = T.alloc_shared((100, 64), "float16")
            T.copy(A[0, bx * 64], tile)
            T.copy(tile, B[0, bx * 64])

    kernel = tilelang.compile(func, target="sm_100a")
    check_through(kernel, (100, 77), "float16")
    check_through(kernel, (100, 80), "float16")


@pytest.mark.parametrize("target", TARGETS)
def test_strided_tensor(target: str) -> None:
    """A slice of a wider tensor: what lies beside it is neither read nor written."""
    rows, columns, pitch = 100, 72, 128

    @T.prim_func
    def func(
        A: T.StridedTensor((rows, columns), (pitch, 1), "float16"),
        B: T.StridedTensor((rows, columns), (pitch, 1), "float16"),
    ):
        with T.Kernel(T.ceildiv(columns, 32), T.ceildiv(rows, 48), threads=128) as (bx, by):
            tile = T.alloc_shared((48, 32), "float16")
            T.copy(A[by * 48, bx * 32], tile)
            T.copy(tile, B[by * 48, bx * 32])

    kernel = compiled(func, target, loads=1, stores=1)
    source, result = random_bits((rows, pitch), "float16"), poisoned((rows, pitch), "float16")
    expected = result.clone()
    expected[:, :columns] = source[:, :columns]
    kernel(source[:, :columns], result[:, :columns])
    assert_same(result, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_one_dimension(target: str) -> None:
    @T.prim_func
    def func(A: T.Tensor((5000,), "float32"), B: T.Tensor((5000,), "float32")):
        with T.Kernel(T.ceildiv(5000, 1024), threads=128) as bx:
            tile = T.alloc_shared((1024,), "float32")
            T.copy(A[bx * 1024], tile)
            T.copy(tile, B[bx * 1024])

    kernel = compiled(func, target, loads=4, stores=4, rank=1)
    check_through(kernel, (5000,), "float32")


@pytest.mark.parametrize("target", TARGETS)
def test_three_dimensions(target: str) -> None:
    @T.prim_func
    def func(A: T.Tensor((3, 50, 80), "float16"), B: T.Tensor((3, 50, 80), "float16")):
        with T.Kernel(2, 3, threads=128) as (bx, batch):
            tile = T.alloc_shared((32, 80), "float16")
            T.copy(A[batch, bx * 32 : bx * 32 + 32, 0:80], tile)
            T.copy(tile, B[batch, bx * 32 : bx * 32 + 32, 0:80])

    kernel = compiled(func, target, loads=1, stores=1, rank=3)
    check_through(kernel, (3, 50, 80), "float16")


@pytest.mark.parametrize("target", TARGETS)
def test_three_dimensional_box(target: str) -> None:
    @T.prim_func
    def func(A: T.Tensor((7, 12, 24), "int32"), B: T.Tensor((7, 12, 24), "int32")):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((4, 12, 24), "int32")
            T.copy(A[bx * 4 : bx * 4 + 4, 0:12, 0:24], tile)
            T.copy(tile, B[bx * 4 : bx * 4 + 4, 0:12, 0:24])

    kernel = compiled(func, target, loads=1, stores=1, rank=3)
    check_through(kernel, (7, 12, 24), "int32")


@pytest.mark.parametrize("target", TARGETS)
def test_four_dimensions(target: str) -> None:
    """Attention's [batch, sequence, heads, size]: rows of one head are far apart."""
    shape = (2, 70, 3, 64)

    @T.prim_func
    def func(A: T.Tensor(shape, "bfloat16"), B: T.Tensor(shape, "bfloat16")):
        with T.Kernel(2, 3, 2, threads=128) as (bx, head, batch):
            tile = T.alloc_shared((64, 64), "bfloat16")
            T.copy(A[batch, bx * 64 : bx * 64 + 64, head, 0:64], tile)
            T.copy(tile, B[batch, bx * 64 : bx * 64 + 64, head, 0:64])

    kernel = compiled(func, target, loads=1, stores=1, rank=4)
    check_through(kernel, shape, "bfloat16")


def test_five_dimensions() -> None:
    shape = (2, 2, 3, 20, 32)

    @T.prim_func
    def func(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(2, 2, threads=64) as (i, j):
            tile = T.alloc_shared((3, 20, 32), "float32")
            T.copy(A[i, j, 0:3, 0:20, 0:32], tile)
            T.copy(tile, B[i, j, 0:3, 0:20, 0:32])

    check_through(compiled(func, "sm_100a", loads=1, stores=1, rank=5), shape, "float32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bytes_wide", [32, 64, 128])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_swizzled_layout(dtype: str, bytes_wide: int, target: str) -> None:
    """Loads and stores undo each other's swizzle; threads read the swizzled tile by its layout."""
    columns = 256 // getattr(torch, dtype).itemsize

    @T.prim_func
    def func(
        A: T.Tensor((60, columns), dtype),
        B: T.Tensor((60, columns), dtype),
        C: T.Tensor((60, columns), dtype),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, columns), dtype)
            layout = tilelang.layout.make_swizzled_layout(tile, swizzle_bytes=bytes_wide)
            T.annotate_layout({tile: layout})
            T.copy(A[0, 0], tile)
            T.copy(tile, B[0, 0])
            for i, j in T.Parallel(60, columns):
                C[i, j] = tile[i, j]

    boxes = 256 // bytes_wide
    kernel = compiled(func, target, loads=boxes, stores=boxes)
    source = random_bits((60, columns), dtype)
    by_tma, by_threads = poisoned((60, columns), dtype), poisoned((60, columns), dtype)
    kernel(source, by_tma, by_threads)
    assert_same(by_threads, source)
    assert_same(by_tma, source)


def loading(
    block: tuple[int, int], row: Callable[[Any], Any], column: Callable[[Any], Any], blocks: int
) -> Any:
    """Returns a kernel that loads a tile at a corner and stores it by threads."""

    @T.prim_func
    def func(A: T.Tensor((50, 72), "float16"), B: T.Tensor((blocks, *block), "float16")):
        with T.Kernel(blocks, threads=128) as bx:
            tile = T.alloc_shared(block, "float16")
            T.copy(A[row(bx) : row(bx) + block[0], column(bx) : column(bx) + block[1]], tile)
            for i, j in T.Parallel(*block):
                B[bx, i, j] = tile[i, j]

    return func


@pytest.mark.parametrize("target", TARGETS)
def test_outside_reads_zero(target: str) -> None:
    """Corners before the tensor and beyond it."""
    func = loading((32, 40), lambda b: b * 20 - 35, lambda b: b * 32 - 48, 6)
    kernel = compiled(func, target, loads=1, **{"tl.disable_block_fitting": True})
    source, result = random_bits((50, 72), "float16"), poisoned((6, 32, 40), "float16")
    kernel(source, result)
    padded = torch.zeros(300, 300, dtype=torch.float16)
    padded[100:150, 100:172] = source
    for block in range(6):
        row, column = 65 + 20 * block, 52 + 32 * block
        assert_same(result[block], padded[row : row + 32, column : column + 40])


@pytest.mark.parametrize("target", TARGETS)
def test_columns_off_the_grid_of_16_bytes_go_by_threads(target: str) -> None:
    """A tensor copy must begin at a multiple of 16 bytes of the last dimension."""
    func = loading((32, 40), lambda b: b * 20, lambda b: b * 4 + 1, 2)
    kernel = compiled(func, target, loads=0)
    source, result = random_bits((50, 72), "float16"), poisoned((2, 32, 40), "float16")
    kernel(source, result)
    padded = torch.zeros(100, 100, dtype=torch.float16)
    padded[:50, :72] = source
    for block in range(2):
        row, column = 20 * block, 4 * block + 1
        assert_same(result[block], padded[row : row + 32, column : column + 40])


def test_stages_and_slices_of_the_shared_buffer() -> None:
    @T.prim_func
    def func(A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16")):
        with T.Kernel(1, threads=128):
            stages = T.alloc_shared((2, 64, 64), "float16")
            for step in T.serial(4):
                T.copy(A[step * 64 : step * 64 + 64, 0:64], stages[step % 2, 0:64, 0:64])
                T.copy(stages[step % 2, 16:64, 0:64], B[step * 64 + 16 : step * 64 + 64, 0:64])

    kernel = compiled(func, "sm_100a", loads=1, stores=1)
    source, result = random_bits((256, 64), "float16"), poisoned((256, 64), "float16")
    expected = result.clone()
    for step in range(4):
        rows = slice(step * 64 + 16, step * 64 + 64)
        expected[rows] = source[rows]
    kernel(source, result)
    assert_same(result, expected)


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ("evict_normal", "evict_normal"),
        ("evict_first", "evict_first"),
        ("evict_last", "evict_last"),
        (0, "evict_normal"),
        (1, "evict_first"),
        (2, "evict_last"),
    ],
)
def test_eviction_policy(given: str | int, policy: str) -> None:
    func = through_shared(64, 64, 64, 64, "float16", eviction_policy=given)
    kernel = compiled(func, "sm_100a", loads=1, stores=1)
    hinted = policy != "evict_normal"
    assert (f"L2::{policy}" in kernel.get_ptx()) == hinted
    assert ("L2::cache_hint" in kernel.get_ptx()) == hinted
    check_through(kernel, (64, 64), "float16")


@pytest.mark.parametrize(
    "func",
    [
        pytest.param(through_shared(64, 64, 64, 64, "float16", disable_tma=True), id="disabled"),
        pytest.param(through_shared(64, 60, 64, 64, "float16"), id="row pitch of 120 bytes"),
        pytest.param(through_shared(64, 64, 8, 32, "float16"), id="512 bytes"),
        pytest.param(through_shared(64, 64, 64, 4, "float16"), id="rows of 8 bytes"),
        pytest.param(through_shared(64, 64, 64, 64, "float16", 48), id="no whole warps"),
    ],
)
def test_copied_by_threads(func: Any) -> None:
    shape = (64, 60) if func is not None and "60" in str(func.params[0]) else (64, 64)
    check_through(compiled(func, "sm_100a"), shape, "float16")


def test_switched_off() -> None:
    func = through_shared(64, 64, 64, 64, "float16")
    key = tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER
    kernel = tilelang.compile(func, target="sm_100a", pass_configs={key: True})
    assert "cp.async.bulk" not in kernel.get_ptx()
    check_through(kernel, (64, 64), "float16")


def test_sm_80_has_no_tma() -> None:
    kernel = compiled(through_shared(64, 64, 64, 64, "float16"), "sm_80")
    check_through(kernel, (64, 64), "float16")


def test_padded_layout_falls_back_to_threads() -> None:
    @T.prim_func
    def func(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({tile: tilelang.layout.make_padded_layout(tile, 8)})
            T.copy(A, tile)
            T.copy(tile, B)

    check_through(compiled(func, "sm_100a"), (64, 64), "float16")


def test_misaligned_tensor_is_refused() -> None:
    kernel = compiled(through_shared(64, 64, 64, 64, "float16"), "sm_100a", loads=1, stores=1)
    storage = random_bits((64 * 64 + 4,), "float16")
    with pytest.raises(tilelang.errors.TileLangError, match="16"):
        kernel(storage[4:].view(64, 64), poisoned((64, 64), "float16"))


@pytest.mark.requires_cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_on_a_gpu(dtype: str) -> None:
    """The same on hardware: tiles through shared memory and back, ragged on both sides."""
    major, minor = torch.cuda.get_device_capability()
    target = {9: "sm_90a", 10: "sm_100a"}.get(major)
    if target is None:
        pytest.skip(f"compute capability {major}.{minor} has no tensor memory accelerator")
    shape = (1000, 1040)
    kernel = compiled(through_shared(*shape, 128, 64, dtype), target, loads=1, stores=1)
    source, result = random_bits(shape, dtype).cuda(), poisoned(shape, dtype).cuda()
    kernel(source, result)
    assert_same(result.cpu(), source.cpu())


def test_no_rows() -> None:
    m = T.dynamic("m")
    kernel = compiled(through_shared(m, 128, 64, 64, "float32"), "sm_100a", loads=1, stores=1)
    kernel(torch.empty(0, 128), torch.empty(0, 128))


@pytest.mark.parametrize("target", TARGETS)
def test_index_from_memory(target: str) -> None:
    """Pages of a cache, chosen by a table; a page beyond the cache reads as zero."""

    @T.prim_func
    def func(
        cache: T.Tensor((9, 24, 64), "float16"),
        table: T.Tensor((6,), "int32"),
        out: T.Tensor((6, 24, 64), "float16"),
    ):
        with T.Kernel(2, threads=128) as bx:
            page = T.alloc_shared((24, 64), "float16")
            for step in T.serial(3):
                T.copy(cache[table[bx * 3 + step], 0:24, 0:64], page)
                T.copy(page, out[bx * 3 + step, 0:24, 0:64])

    kernel = compiled(func, target, loads=1, stores=1, rank=3)
    cache, out = random_bits((9, 24, 64), "float16"), poisoned((6, 24, 64), "float16")
    table = torch.tensor([8, 0, 3, 9, 5, -2], dtype=torch.int32)
    kernel(cache, table, out)
    expected = torch.zeros_like(out)
    inside = [0, 1, 2, 4]
    expected[inside] = cache[table[inside].long()]
    assert_same(out, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_accepts_every_form(target: str, tmp_path: Path) -> None:
    """Ranks 1 to 5, loads and stores, with and without a cache policy."""
    calls = []
    for rank in range(1, 6):
        corner = ", ".join(f"c + {d}" for d in range(rank))
        for policy in ("", "<tl::L2Policy::evict_first>", "<tl::L2Policy::evict_last>"):
            calls.append(f"tl::tma_load{policy}(&map, barrier, tile, {corner});")
            calls.append(f"tl::tma_store{policy}(&map, tile, {corner});")
    source = f"""
    #include <tl_templates/cuda/common.h>
    #include <tl_templates/cuda/copy_sm90.h>
    extern "C" __global__ void kernel(const __grid_constant__ CUtensorMap map, int c) {{
      __shared__ alignas(128) unsigned char tile[1024];
      __shared__ uint64_t barrier;
      tl::prefetch_tensor_map(&map);
      {" ".join(calls)}
      tl::tma_store_commit();
      tl::tma_store_wait<0>();
      tl::tma_store_wait_read<1>();
    }}
    """
    ptx = compile_cuda(source, target).ptx
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.[1-5]d", ptx)) == len(calls) == 30
    (tmp_path / "kernel.ptx").write_text(ptx)
    command = [str(find_ptxas()), f"-arch={target}", str(tmp_path / "kernel.ptx")]
    command += ["-o", str(tmp_path / "kernel.cubin")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
