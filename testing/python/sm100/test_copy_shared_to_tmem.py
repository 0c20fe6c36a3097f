"""shared -> tensor memory by tcgen05.cp: round trips, operands of products, order.

Where the bytes go is proven beside the layouts. Here whole kernels run under the emulator's
sanitizer, which reports what is not waited for.
"""

from __future__ import annotations

import re

import pytest
import torch
from changed_ptx import emulate
from golden import ptx_opcodes
from sm100_kernels import (
    ACCUMULATOR,
    TORCH,
    as_read,
    check_product,
    compile_sm100,
    poisoned,
    random_bits,
    random_values,
    same_bits,
)
from tmem_cp_cases import accumulated, cps, registers_to_tmem, ts_gemm

import tilelang
import tilelang.language as T
from tilelang.emulator import EmulatorError
from tilelang.layout import make_swizzled_layout
from tilelang.runtime.nvrtc import compile_cuda

DTYPES = tuple(TORCH)
#: Bytes of a row: every remainder of a swizzle atom, and tiles of several.
ROWS = (16, 32, 48, 64, 96, 128, 160, 256)


def round_trips(dtype, m, widths, threads, by_threads=False, swizzle=None):
    """X to Y through shared and tensor memory, a slice of columns for each width."""
    total = sum(widths)

    @T.prim_func
    def round_trip(X: T.Tensor((m, total), dtype), Y: T.Tensor((m, total), dtype)):
        with T.Kernel(1, threads=threads):
            begin = 0
            for n in widths:
                source = T.alloc_shared((m, n), dtype)
                tile = T.alloc_tmem([m, n], dtype)
                if swizzle is not None:
                    layout = make_swizzled_layout(source, swizzle_bytes=swizzle)
                    T.annotate_layout({source: layout})
                T.copy(X[0:m, begin : begin + n], source, disable_tma=by_threads)
                T.copy(source, tile)
                T.copy(tile, Y[0:m, begin : begin + n])
                begin += n

    return round_trip


def check_round_trips(function, dtype, m, widths):
    kernel = compile_sm100(function)
    x, y = random_bits(m, sum(widths), dtype), random_bits(m, sum(widths), dtype)
    kernel(x, y)
    begin = 0
    for n in widths:
        part = slice(begin, begin + n)
        assert same_bits(x[:, part], y[:, part]), f"{m} x {n}"
        begin += n
    assert not registers_to_tmem(kernel)
    size = TORCH[dtype].itemsize
    wide = sum(m // 128 * (n * size // 32) for n in widths)
    narrow = sum(m // 128 * (n * size // 16 % 2) for n in widths)
    shapes = cps(kernel)
    assert (shapes.count("128x256b"), shapes.count("128x128b")) == (wide, narrow)


@pytest.mark.parametrize("by_threads", [False, True], ids=["tma", "threads"])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trips(dtype, m, threads, by_threads):
    widths = tuple(row // TORCH[dtype].itemsize for row in ROWS if row * m <= 128 * 160)
    check_round_trips(round_trips(dtype, m, widths, threads, by_threads), dtype, m, widths)


@pytest.mark.parametrize("by_threads", [False, True], ids=["tma", "threads"])
@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_annotated_swizzles(dtype, swizzle, by_threads):
    widths = tuple(k * swizzle // TORCH[dtype].itemsize for k in (1, 2, 3) if k * swizzle <= 256)
    function = round_trips(dtype, 128, widths, 128, by_threads, swizzle)
    check_round_trips(function, dtype, 128, widths)


@pytest.mark.parametrize("threads", [32, 64, 384])
def test_any_number_of_whole_warps(threads):
    """The copy needs no warpgroup; here a product shows what it did."""
    m, n, k = 128, 32, 64

    @T.prim_func
    def product(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=max(threads, 128)):
            a_shared = T.alloc_shared((m, k), "bfloat16")
            b_shared = T.alloc_shared((n, k), "bfloat16")
            a = T.alloc_tmem([m, k], "bfloat16")
            c = T.alloc_tmem([m, n], "float32")
            T.copy(A, a_shared)
            T.copy(B, b_shared)
            if T.get_thread_binding() < threads:
                T.copy(a_shared, a)
            T.sync_threads()
            T.gemm(a, b_shared, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    kernel = compile_sm100(product)
    assert cps(kernel) == ["128x256b"] * 4
    a, b = random_values(m, k, "bfloat16"), random_values(n, k, "bfloat16")
    c = poisoned(m, n, "float32")
    kernel(a, b, c)
    check_product(c, a, b.T)


@pytest.mark.parametrize("by_threads", [False, True], ids=["tma", "threads"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_slices_of_both_sides(dtype, by_threads):
    """Rows and columns of the shared tile go to columns of the tensor memory tile."""
    rows, m, size = 384, 128, TORCH[dtype].itemsize
    n = 256 // size
    #: First row, first unit of 16 bytes in shared and tensor memory, units.
    cuts = [(0, 0, 3, 2), (128, 5, 0, 3), (256, 8, 6, 8), (64, 15, 5, 1), (40, 3, 14, 2)]
    unit = 16 // size

    @T.prim_func
    def slices(
        X: T.Tensor((rows, n), dtype), Z: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(1, threads=128):
            source = T.alloc_shared((rows, n), dtype)
            first = T.alloc_shared((m, n), dtype)
            tile = T.alloc_tmem([m, n], dtype)
            T.copy(X, source, disable_tma=by_threads)
            T.copy(Z, first)
            T.copy(first, tile)
            for row, begin, to, units in cuts:
                T.copy(
                    source[row : row + m, begin * unit : (begin + units) * unit],
                    tile[0:m, to * unit : (to + units) * unit],
                )
            T.copy(tile, Y)

    kernel = compile_sm100(slices)
    assert not registers_to_tmem(kernel)
    x, y, z = (random_bits(r, n, dtype) for r in (rows, m, m))
    kernel(x, z, y)
    expected = z.clone()
    for row, begin, to, units in cuts:
        part = x[row : row + m, begin * unit : (begin + units) * unit]
        expected[:, to * unit : (to + units) * unit] = part
    assert same_bits(y, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_stages_chosen_at_run_time(dtype):
    stages, m, n = 3, 128, 128 // TORCH[dtype].itemsize

    @T.prim_func
    def staged(X: T.Tensor((stages, m, n), dtype), Y: T.Tensor((stages, m, n), dtype)):
        with T.Kernel(1, threads=128):
            source = T.alloc_shared((stages, m, n), dtype)
            tile = T.alloc_tmem([stages, m, n], dtype)
            for s in T.serial(stages):
                T.copy(X[s, 0:m, 0:n], source[s, :, :])
            for s in T.serial(stages):
                T.copy(source[(s + 1) % stages, :, :], tile[s, :, :])
            for s in T.serial(stages):
                T.copy(tile[s, :, :], Y[s, 0:m, 0:n])

    kernel = compile_sm100(staged)
    assert not registers_to_tmem(kernel)
    x, y = (random_bits(stages * m, n, dtype).reshape(stages, m, n) for _ in range(2))
    kernel(x, y)
    assert same_bits(y, x.roll(-1, 0))


def test_columns_and_rows_chosen_at_run_time():
    m, n, width = 128, 128, 64

    @T.prim_func
    def parts(X: T.Tensor((2 * m, n), "bfloat16"), Y: T.Tensor((2 * m, n), "bfloat16")):
        with T.Kernel(1, threads=128):
            source = T.alloc_shared((2 * m, n), "bfloat16")
            tile = T.alloc_tmem([m, n], "bfloat16")
            T.copy(X, source)
            for half in T.serial(2):
                for i in T.serial(n // width):
                    T.copy(
                        source[half * m : half * m + m, i * width : (i + 1) * width],
                        tile[0:m, i * width : (i + 1) * width],
                    )
                T.copy(tile, Y[half * m : half * m + m, 0:n])

    kernel = compile_sm100(parts)
    assert not registers_to_tmem(kernel)
    x, y = random_bits(2 * m, n, "bfloat16"), random_bits(2 * m, n, "bfloat16")
    kernel(x, y)
    assert same_bits(x, y)


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"]
)
def test_operand_a_of_products(dtype, m, threads):
    """The loop reuses the shared tile and the operand; a product shows every element of A."""
    n, steps, k = 48, 3, 128 // TORCH[dtype].itemsize
    kernel = compile_sm100(ts_gemm(m, n, k, steps, dtype, threads))
    assert cps(kernel) == ["128x256b"] * (m // 128 * 4)
    assert not registers_to_tmem(kernel)
    a, b = random_values(m, k * steps, dtype), random_values(n, k * steps, dtype)
    c = poisoned(m, n, ACCUMULATOR.get(dtype, "float32"))
    kernel(a, b, c)
    check_product(c, a, b.T)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float8_e4m3fn", "int8"])
def test_the_product_with_the_identity_is_the_operand(dtype):
    m, k = 128, 128 // TORCH[dtype].itemsize
    kernel = compile_sm100(ts_gemm(m, k, k, 1, dtype))
    a, c = random_values(m, k, dtype), poisoned(m, k, ACCUMULATOR.get(dtype, "float32"))
    kernel(a, torch.eye(k).to(a.dtype), c)
    assert torch.equal(c.double(), as_read(a))


@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize(("dtype", "accumulator"), [("bfloat16", "float32"), ("int8", "int32")])
def test_accumulators_begin_with_a_tile(dtype, accumulator, m):
    n, k = 64, 64
    kernel = compile_sm100(accumulated(m, n, k, dtype, accumulator))
    assert len(cps(kernel)) == m // 128 * (k * TORCH[dtype].itemsize // 32 + n * 4 // 32)
    a, b = random_values(m, k, dtype), random_values(n, k, dtype)
    d, c = random_values(m, n, accumulator).clamp(-1000, 1000), poisoned(m, n, accumulator)
    kernel(a, b, d, c)
    one = torch.eye(m).to(torch.float64)
    # D is a further product with 1, which the bound on the rounding then covers.
    check_product(c, torch.cat([a.double(), one], 1), torch.cat([b.T.double(), d.double()], 0))


@pytest.mark.parametrize("threads", [128, 256])
def test_loops_reuse_the_shared_tile_and_the_columns(threads):
    """Threads write the tile, tcgen05.cp reads it, tcgen05.ld reads the columns; again."""
    m, n, steps = 128, 32, 5

    @T.prim_func
    def loop(X: T.Tensor((steps * m, n), "float32"), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads):
            source = T.alloc_shared((m, n), "float32")
            tile = T.alloc_tmem([m, n], "float32")
            total = T.alloc_fragment((m, n), "float32")
            part = T.alloc_fragment((m, n), "float32")
            T.clear(total)
            for step in T.serial(steps):
                for i, j in T.Parallel(m, n):
                    source[i, j] = X[step * m + i, n - 1 - j] + 1.0
                T.copy(source, tile)
                T.copy(tile, part)
                for i, j in T.Parallel(m, n):
                    total[i, j] = total[i, j] * 0.5 + part[i, j]
            T.copy(total, Y)

    kernel = compile_sm100(loop)
    assert cps(kernel) == ["128x256b"] * 4
    x, y = random_values(steps * m, n, "float32"), poisoned(m, n, "float32")
    kernel(x, y)
    expected = torch.zeros(m, n)
    for step in range(steps):
        expected = expected * 0.5 + (x[step * m : step * m + m].flip(1) + 1.0)
    assert torch.equal(y, expected)


def test_stores_and_copies_take_turns_in_the_same_columns():
    """tcgen05.st, then tcgen05.cp over it, then st over half of that, by two warpgroups."""
    m, n = 128, 64

    @T.prim_func
    def turns(
        X: T.Tensor((m, n), "float32"),
        Z: T.Tensor((m, n), "float32"),
        Y: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=256):
            source = T.alloc_shared((m, n), "float32")
            tile = T.alloc_tmem([m, n], "float32")
            held = T.alloc_fragment((m, n), "float32")
            half = T.alloc_fragment((m, n // 2), "float32")
            T.copy(X, held)
            T.copy(held, tile)
            T.copy(Z, source)
            T.copy(source, tile)
            T.copy(X[0:m, 0 : n // 2], half)
            T.copy(half, tile[0:m, n // 4 : n // 4 * 3])
            T.copy(tile, Y)

    kernel = compile_sm100(turns)
    x, y, z = (random_bits(m, n, "float32") for _ in range(3))
    kernel(x, z, y)
    expected = z.clone()
    expected[:, n // 4 : n // 4 * 3] = x[:, : n // 2]
    assert same_bits(y, expected)


# ---- Order ----


def compile_direct(function):
    """Compiles a program whose result does not take the place of shared tiles that are copied."""
    options = {"tl.disable_result_staging": True}
    return tilelang.compile(function, target="sm_100a", pass_configs=options)


def test_a_copy_and_its_product_share_a_wait(golden):
    """tcgen05.cp and the tcgen05.mma that follow are in order: one commit, one wait."""
    ptx = compile_direct(ts_gemm(128, 32, 64, 1, "bfloat16")).get_ptx()
    golden("gemm_ts_cp", "\n".join(ptx_opcodes(ptx, r"^tcgen05|^mbarrier\.try|^fence\.proxy")))


def test_copies_into_different_columns_share_a_wait():
    kernel = compile_direct(accumulated(128, 64, 64, "bfloat16", "float32"))
    source = kernel.get_kernel_source()
    assert source.count("tl::tcgen05_commit") == 1


def test_copies_over_each_other_wait():
    m, n = 128, 32

    @T.prim_func
    def twice(
        X: T.Tensor((m, n), "float32"),
        Z: T.Tensor((m, n), "float32"),
        Y: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((m, n), "float32")
            z = T.alloc_shared((m, n), "float32")
            tile = T.alloc_tmem([m, n], "float32")
            T.copy(X, x)
            T.copy(Z, z)
            T.copy(x, tile)
            T.copy(z[0:m, 0:16], tile[0:m, 8:24])
            T.copy(tile, Y)

    kernel = compile_sm100(twice)
    assert kernel.get_kernel_source().count("tl::tcgen05_commit") == 2
    x, y, z = (random_bits(m, n, "float32") for _ in range(3))
    kernel(x, z, y)
    expected = x.clone()
    expected[:, 8:24] = z[:, :16]
    assert same_bits(y, expected)


@pytest.mark.parametrize(
    ("by_threads", "pattern", "replacement"),
    [
        (False, r"tl::mbarrier_wait\(cp_done\[0\], cp_parity\);", ""),
        (True, r"tl::fence_proxy_async\(\);", ""),
    ],
    ids=["wait", "proxy fence"],
)
def test_the_sanitizer_would_show(by_threads, pattern, replacement):
    """Without the wait, or without the fence, the same kernel is reported."""
    kernel = compile_sm100(round_trips("float32", 128, (32,), 128, by_threads))
    broken, count = re.subn(pattern, replacement, kernel.get_kernel_source())
    assert count >= 1
    emulate(kernel, compile_cuda(broken, "sm_100a").ptx)
    x, y = random_bits(128, 32, "float32"), random_bits(128, 32, "float32")
    with pytest.raises(EmulatorError, match=r"race|proxy|wait"):
        kernel(x, y)


def test_the_tensor_memory_accelerator_goes_first():
    """Where its boxes and tcgen05.cp want different layouts, the load keeps its engine."""
    m, n = 128, 64

    @T.prim_func
    def loads(X: T.Tensor((m, n), "bfloat16"), Y: T.Tensor((m, n), "bfloat16")):
        with T.Kernel(1, threads=128):
            source = T.alloc_shared((m, n), "bfloat16")
            tile = T.alloc_tmem([m, n], "bfloat16")
            for i in T.serial(8):
                T.copy(X[0:m, i * 8 : i * 8 + 8], source[0:m, i * 8 : i * 8 + 8])
            T.copy(source, tile)
            T.copy(tile, Y)

    kernel = compile_sm100(loads)
    assert "tma_load" in kernel.get_kernel_source() and cps(kernel) == ["128x256b"] * 4
    x, y = random_bits(m, n, "bfloat16"), random_bits(m, n, "bfloat16")
    kernel(x, y)
    assert same_bits(x, y)


def test_what_was_done_is_said():
    kernel = compile_sm100(round_trips("float32", 128, (32,), 128))
    assert "T.copy(source, tile) is done by tcgen05.cp" in [r.message for r in kernel.remarks]
