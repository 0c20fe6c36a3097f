"""fragment -> tensor memory -> fragment, bit for bit, over types, rows, columns and threads.

One kernel moves tiles of many widths. What the tensor core reads from the same cells is proven
in ``test_operand_a.py``: a store and a load with the same mistake would pass here.
"""

from __future__ import annotations

import pytest
from sm100_kernels import TORCH, compile_sm100, random_bits, same_bits

import tilelang.language as T

DTYPES = tuple(TORCH)
WIDTHS = (8, 16, 24, 40, 48, 64, 80, 96, 128, 192, 256)


def round_trips(dtype: str, m: int, widths: tuple[int, ...], threads: int):
    total = sum(widths)

    @T.prim_func
    def round_trip(X: T.Tensor((m, total), dtype), Y: T.Tensor((m, total), dtype)):
        with T.Kernel(1, threads=threads):
            begin = 0
            for n in widths:
                source = T.alloc_fragment((m, n), dtype)
                tile = T.alloc_tmem([m, n], dtype)
                result = T.alloc_fragment((m, n), dtype)
                T.copy(X[0:m, begin : begin + n], source)
                T.copy(source, tile)
                T.copy(tile, result)
                T.copy(result, Y[0:m, begin : begin + n])
                begin += n

    return round_trip


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_tiles(dtype, m, threads):
    # A tile takes at most 80 registers of a thread: ptxas may load the next one meanwhile.
    limit = 80 * threads // max(m, 128) * 4 // TORCH[dtype].itemsize
    check_widths(dtype, m, tuple(n for n in WIDTHS if n <= limit), threads)


WHOLE_ROWS = pytest.mark.may_spill("a thread holds a row of 256 words")


@pytest.mark.parametrize(
    ("dtype", "m", "n", "threads"),
    [
        pytest.param("float32", 128, 256, 128, marks=WHOLE_ROWS),
        ("float32", 64, 256, 128),
        pytest.param("int32", 256, 256, 256, marks=WHOLE_ROWS),
        ("bfloat16", 128, 256, 128),
        ("float16", 256, 256, 256),
        ("bfloat16", 128, 512, 256),
        ("float32", 128, 96, 384),
        ("uint8", 128, 96, 384),
        ("float16", 128, 64, 512),
    ],
)
def test_large_tiles_and_many_threads(dtype, m, n, threads):
    check_widths(dtype, m, (n,), threads)


@pytest.mark.may_spill("columns that do not divide are moved by some warpgroups alone")
@pytest.mark.parametrize("threads", [512, 640, 768, 896, 1024])
@pytest.mark.parametrize(("dtype", "n"), [("float32", 64), ("float32", 256), ("bfloat16", 320)])
def test_instructions_fit_the_registers_of_many_threads(dtype, n, threads):
    check_widths(dtype, 128, (n,), threads)


@pytest.mark.may_spill("64 words of a tile, and a thread has 64 registers")
def test_all_columns_and_1024_threads():
    check_widths("float32", 128, (512,), 1024)


def check_widths(dtype: str, m: int, widths: tuple[int, ...], threads: int) -> None:
    kernel = compile_sm100(round_trips(dtype, m, widths, threads))
    x, y = random_bits(m, sum(widths), dtype), random_bits(m, sum(widths), dtype)
    kernel(x, y)
    begin = 0
    for n in widths:
        part = slice(begin, begin + n)
        assert same_bits(x[:, part], y[:, part]), f"{m} x {n}"
        begin += n


def column_slices(dtype: str, m: int, n: int, cuts: tuple[tuple[int, int], ...], threads: int):
    """Y = X with the columns ``cuts`` (begin, width) overwritten by Z; W are those cuts of X."""

    @T.prim_func
    def slices(
        X: T.Tensor((m, n), dtype),
        Z: T.Tensor((m, n), dtype),
        Y: T.Tensor((m, n), dtype),
        W: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(1, threads=threads):
            whole = T.alloc_fragment((m, n), dtype)
            tile = T.alloc_tmem([m, n], dtype)
            T.copy(X, whole)
            T.copy(whole, tile)
            for begin, width in cuts:
                loaded = T.alloc_fragment((m, width), dtype)
                stored = T.alloc_fragment((m, width), dtype)
                T.copy(tile[0:m, begin : begin + width], loaded)
                T.copy(loaded, W[0:m, begin : begin + width])
                T.copy(Z[0:m, begin : begin + width], stored)
                T.copy(stored, tile[0:m, begin : begin + width])
            T.copy(tile, Y)

    return slices


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [64, 128])
@pytest.mark.parametrize("dtype", DTYPES)
def test_column_slices(dtype, m, threads):
    check_column_slices(dtype, m, 160, ((0, 16), (16, 32), (72, 8), (80, 48)), threads)


@pytest.mark.parametrize(("m", "threads"), [(256, 128), (256, 256), (256, 512), (384, 384)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_column_slices_of_several_blocks_of_rows(dtype, m, threads):
    """The blocks lie side by side, so that other columns lie between the parts of a slice."""
    check_column_slices(dtype, m, 80, ((0, 16), (16, 24), (72, 8)), threads)


def check_column_slices(dtype, m, n, cuts, threads):
    kernel = compile_sm100(column_slices(dtype, m, n, cuts, threads))
    x, y, z, w = (random_bits(m, n, dtype) for _ in range(4))
    expected_y, expected_w = x.clone(), w.clone()
    for begin, width in cuts:
        part = slice(begin, begin + width)
        expected_y[:, part] = z[:, part]
        expected_w[:, part] = x[:, part]
    kernel(x, z, y, w)
    assert same_bits(y, expected_y)
    assert same_bits(w, expected_w)


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize(("m", "begin", "rows"), [(128, 64, 64), (128, 32, 96), (256, 128, 128)])
def test_row_slices(dtype, m, begin, rows, threads):
    n = 48

    @T.prim_func
    def row_slice(
        X: T.Tensor((m, n), dtype), Z: T.Tensor((rows, n), dtype), Y: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(1, threads=threads):
            whole = T.alloc_fragment((m, n), dtype)
            part = T.alloc_fragment((rows, n), dtype)
            tile = T.alloc_tmem([m, n], dtype)
            T.copy(X, whole)
            T.copy(whole, tile)
            T.copy(Z, part)
            T.copy(part, tile[begin : begin + rows, 0:n])
            T.copy(tile, Y)

    x, y, z = (random_bits(rows, n, dtype) for rows in (m, m, rows))
    compile_sm100(row_slice)(x, z, y)
    expected = x.clone()
    expected[begin : begin + rows] = z
    assert same_bits(y, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_stages_chosen_at_run_time(dtype):
    stages, m, n = 3, 128, 40

    @T.prim_func
    def staged(X: T.Tensor((stages, m, n), dtype), Y: T.Tensor((stages, m, n), dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([stages, m, n], dtype)
            source = T.alloc_fragment((m, n), dtype)
            result = T.alloc_fragment((m, n), dtype)
            for s in T.serial(stages):
                T.copy(X[s, 0:m, 0:n], source)
                T.copy(source, tile[s, :, :])
            for s in T.serial(stages):
                T.copy(tile[(s + 1) % stages, :, :], result)
                T.copy(result, Y[s, 0:m, 0:n])

    x, y = (random_bits(stages * m, n, dtype).reshape(stages, m, n) for _ in range(2))
    compile_sm100(staged)(x, y)
    assert same_bits(y, x.roll(-1, 0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_columns_chosen_at_run_time(dtype):
    m, n, width = 128, 96, 32

    @T.prim_func
    def columns(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([m, n], dtype)
            part = T.alloc_fragment((m, width), dtype)
            for i in T.serial(n // width):
                T.copy(X[0:m, i * width : (i + 1) * width], part)
                T.copy(part, tile[0:m, i * width : (i + 1) * width])
            T.copy(tile, Y)

    x, y = random_bits(m, n, dtype), random_bits(m, n, dtype)
    compile_sm100(columns)(x, y)
    assert same_bits(x, y)


@pytest.mark.parametrize("threads", [128, 256])
def test_fragment_slices(threads):
    m, n = 128, 64

    @T.prim_func
    def halves(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_tmem([m, n // 2], "float32")
            whole = T.alloc_fragment((m, n), "float32")
            back = T.alloc_fragment((m, n), "float32")
            T.copy(X, whole)
            T.copy(whole[:, 0 : n // 2], tile)
            T.copy(tile, back[:, n // 2 : n])
            T.copy(whole[:, n // 2 : n], tile)
            T.copy(tile, back[:, 0 : n // 2])
            T.copy(back, Y)

    x, y = random_bits(m, n, "float32"), random_bits(m, n, "float32")
    compile_sm100(halves)(x, y)
    assert same_bits(y, x.roll(n // 2, 1))
