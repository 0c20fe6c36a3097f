"""What is refused on sm_100a, and what each is told."""

from __future__ import annotations

import pytest
from sm100_kernels import compile_sm100

import tilelang.language as T
from tilelang import errors


def gemm(a=(128, 64), b=(64, 64), c=(128, 64), types=("float16",) * 2 + ("float32",), **options):
    """A kernel of one T.gemm; A and C lie where ``a_scope`` and ``c_scope`` say."""
    scopes = {"shared": T.alloc_shared, "tmem": T.alloc_tmem, "fragment": T.alloc_fragment}
    a_scope = scopes[options.pop("a_scope", "shared")]
    b_scope = scopes[options.pop("b_scope", "shared")]
    c_scope = scopes[options.pop("c_scope", "tmem")]
    threads = options.pop("threads", 128)

    @T.prim_func
    def kernel(C: T.Tensor(c, types[2])):
        with T.Kernel(1, threads=threads):
            a_tile = a_scope(a, types[0])
            b_tile = b_scope(b, types[1])
            c_tile = c_scope(c, types[2])
            T.gemm(a_tile, b_tile, c_tile, clear_accum=True, **options)
            T.copy(c_tile, C)

    return kernel


GEMMS = [
    ({"a": (96, 64), "c": (96, 64)}, "ShapeError", "M must be 32, 64 or a multiple of 128"),
    ({"a": (96, 64), "c": (96, 64)}, "ShapeError", "with M = 128: T.copy"),
    ({"a": (96, 64), "c": (96, 64)}, "ShapeError", "or compute the transposed gemm"),
    ({"a": (16, 64), "c": (16, 64)}, "ShapeError", "allocate tiles with M = 64"),
    (
        {"a": (32, 64), "b": (64, 96), "c": (32, 96)},
        "ShapeError",
        "N must be 64, 128 or 256 if M is 32",
    ),
    (
        {"a": (32, 64), "a_scope": "tmem", "c": (32, 64)},
        "ShapeError",
        "A of 32 rows must be in shared memory",
    ),
    ({"b": (64, 36), "c": (128, 36)}, "ShapeError", "allocate tiles with N = 40"),
    (
        {
            "types": ("int8", "int8", "int32"),
            "b": (36, 64),
            "c": (128, 36),
            "transpose_B": True,
        },
        "ShapeError",
        "multiple of 8 (M = 128, N = 36, K = 64); allocate tiles with N = 40",
    ),
    ({"b": (64, 36), "c": (128, 36)}, "ShapeError", "multiple of 8"),
    (
        {"a": (128, 24), "a_scope": "tmem", "b": (24, 64)},
        "ShapeError",
        "K must be a multiple of 16",
    ),
    ({"types": ("float16", "bfloat16", "float32")}, "DTypeError", "A is float16 and B is bfloat16"),
    (
        {"types": ("bfloat16", "bfloat16", "float16")},
        "DTypeError",
        "C is float16, but a product of bfloat16",
    ),
    ({"types": ("int8", "int8", "float32")}, "DTypeError", "C is float32, but a product of int8"),
    ({"types": ("int8", "int8", "int32"), "b": (64, 24), "c": (128, 24)}, "ShapeError", "of 16"),
    ({"a": (64, 128), "a_scope": "tmem", "transpose_A": True}, "Error", "transpose_A=True"),
    ({"b_scope": "tmem", "b": (64, 64)}, "Error", "B"),
    ({"c_scope": "shared"}, "Error", "C"),
    (
        {"a_scope": "tmem", "b": (64, 24), "c": (128, 24)},
        "ShapeError",
        "N must be a multiple of 16",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), GEMMS)
def test_gemm(arguments, kind, message):
    with pytest.raises(errors.UserError) as caught:
        compile_sm100(gemm(**arguments))
    text = str(caught.value)
    assert message in text
    assert type(caught.value).__name__.endswith(kind)
    assert "test_refusals.py" in text and "^" in text, "the message shows the line"


def refused(function) -> str:
    with pytest.raises(errors.UserError) as caught:
        compile_sm100(function)
    text = str(caught.value)
    assert "test_refusals.py" in text and "^" in text
    return text


def test_accumulator_used_as_an_operand():
    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_tmem([128, 64], "float16")
            c = T.alloc_tmem([128, 64], "float16")
            T.gemm(a, b, s, clear_accum=True)
            T.gemm(s, b, c, clear_accum=True)
            T.copy(c, C)

    text = refused(kernel)
    assert "use two buffers" in text


def test_threads_are_no_warpgroups():
    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=96):
            tile = T.alloc_tmem([128, 64], "float32")
            T.fill(tile, 1.0)
            T.copy(tile, C)

    assert "whole warpgroups" in refused(kernel)


@pytest.mark.parametrize(("rows", "enough"), [(32, 64), (96, 128), (200, 256)])
def test_rows(rows, enough):
    @T.prim_func
    def kernel(C: T.Tensor((rows, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([rows, 64], "float32")
            T.fill(tile, 1.0)
            T.copy(tile, C)

    text = refused(kernel)
    assert "64 rows or a multiple of 128" in text
    assert f"allocate {enough} rows" in text


def test_too_many_columns():
    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            first = T.alloc_tmem([128, 400], "float32")
            second = T.alloc_tmem([128, 256], "bfloat16")
            T.fill(first, 1.0)
            T.fill(second, 1.0)
            T.copy(first[:, 0:64], C)
            T.copy(second[:, 0:64], C)
            T.copy(first[:, 0:64], C)

    text = refused(kernel)
    assert "528 columns" in text
    assert "first (128, 400) float32: 400 columns" in text
    assert "second (128, 256) bfloat16: 128 columns" in text


def test_rows_chosen_at_run_time():
    @T.prim_func
    def kernel(C: T.Tensor((64, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([128, 64], "float32")
            part = T.alloc_fragment((64, 64), "float32")
            T.fill(tile, 1.0)
            T.copy(tile[n : n + 64, 0:64], part)
            T.copy(part, C)

    assert "rows cannot" in refused(kernel)


def test_columns_that_are_no_whole_cells():
    @T.prim_func
    def kernel(C: T.Tensor((128, 16), "bfloat16"), n: T.int32):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([128, 64], "bfloat16")
            part = T.alloc_fragment((128, 16), "bfloat16")
            T.fill(tile, 1.0)
            T.copy(tile[0:128, n : n + 16], part)
            T.copy(part, C)

    assert "whole 32-bit columns" in refused(kernel)


def test_rows_inside_a_warp_cannot_be_stored():
    @T.prim_func
    def kernel(X: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([128, 64], "float32")
            part = T.alloc_fragment((8, 64), "float32")
            T.copy(X[0:8, 0:64], part)
            T.copy(part, tile[8:16, 0:64])

    assert "no tcgen05.st moves" in refused(kernel)


def test_an_element_is_stored():
    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([128, 64], "float32")
            for i, j in T.Parallel(128, 64):
                tile[i, j] = 1.0
            T.copy(tile, C)

    assert "cannot be written one by one" in refused(kernel)


def test_an_element_outside_a_parallel_loop():
    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([128, 64], "float32")
            T.fill(tile, 1.0)
            C[0, 0] = tile[0, 0]

    assert "has no element access" in refused(kernel)


def test_a_layout_that_the_tensor_core_cannot_read():
    from tilelang.layout import Layout

    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem([128, 64], "float32")
            T.annotate_layout({a: Layout((128, 64), lambda i, j: i * 72 + j)})
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    assert "tcgen05.mma cannot read" in refused(kernel)


def test_a_slice_that_straddles_atoms():
    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 128), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem([128, 64], "float32")
            T.gemm(a[:, 32:96], b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    message = refused(kernel)
    assert "slice a[0:128, 32:96] must begin at a row that is a multiple of 8" in message
    assert "a multiple of 64, or of 16 if it also ends by the next multiple of 64" in message


# Slices of a (rows, columns) buffer that instructions do not find: rows, columns, and the message.
C_SLICES = [
    (128, slice(0, 64), slice(0, 64), "rows in lanes (64,64):(1,0)"),
    (128, slice(64, 128), slice(0, 64), "an instruction of M = 64 has them in lanes"),
    (256, slice(64, 192), slice(0, 64), "lanes"),
]


@pytest.mark.parametrize("scope", ["tmem", "fragment"])
@pytest.mark.parametrize(("rows", "row_slice", "columns", "message"), C_SLICES)
def test_rows_of_an_accumulator_that_no_instruction_reaches(
    rows, row_slice, columns, message, scope
):
    alloc = {"tmem": T.alloc_tmem, "fragment": T.alloc_fragment}[scope]
    m = row_slice.stop - row_slice.start

    @T.prim_func
    def kernel(C: T.Tensor((rows, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = alloc((rows, 64), "float32")
            T.clear(c)
            T.gemm(a, b, c[row_slice, columns], transpose_B=True)
            T.copy(c, C)

    assert message in refused(kernel)


# dtype, rows of the buffer, rows and columns of the slice, and the message.
A_SLICES = [
    ("bfloat16", 128, slice(0, 64), slice(0, 64), "an instruction of M = 64 has them in lanes"),
    ("bfloat16", 128, slice(64, 128), slice(0, 64), "an instruction of M = 64 has them in lanes"),
    ("bfloat16", 128, slice(0, 128), slice(1, 17), "multiple of 2 elements"),
    ("float8_e4m3fn", 128, slice(0, 128), slice(1, 33), "multiple of 4 elements"),
    ("int8", 128, slice(0, 128), slice(2, 34), "multiple of 4 elements"),
    ("int8", 64, slice(0, 64), slice(30, 62), "begins inside a 32-bit column"),
]


@pytest.mark.parametrize(("dtype", "rows", "row_slice", "columns", "message"), A_SLICES)
def test_parts_of_a_that_no_instruction_reaches(dtype, rows, row_slice, columns, message):
    m, k = row_slice.stop - row_slice.start, columns.stop - columns.start
    accumulator = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def kernel(A: T.Tensor((rows, 64), dtype), C: T.Tensor((m, 64), accumulator)):
        with T.Kernel(1, threads=128):
            a = T.alloc_tmem((rows, 64), dtype)
            b = T.alloc_shared((64, k), dtype)
            c = T.alloc_tmem((m, 64), accumulator)
            T.copy(A, a)
            T.gemm(a[row_slice, columns], b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    assert message in refused(kernel)


@pytest.mark.parametrize("columns", [slice(0, 64), slice(32, 96)])
def test_a_and_c_overlap(columns):
    @T.prim_func
    def kernel(X: T.Tensor((128, 128), "float32"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            t = T.alloc_tmem((128, 128), "float32")
            b = T.alloc_shared((64, 64), "float32")
            T.copy(X, t)
            T.gemm(t[:, columns], b, t[:, 0:64], transpose_B=True, clear_accum=True)
            T.copy(t, C)

    assert "A and C overlap in tensor memory" in refused(kernel)


def test_rows_chosen_by_a_loop():
    @T.prim_func
    def kernel(C: T.Tensor((2, 128, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([256, 64], "float32")
            T.fill(tile, 1.0)
            for block in T.serial(2):
                T.copy(tile[block * 128 : (block + 1) * 128, :], C[block, 0, 0])

    text = refused(kernel)
    assert "a constant index for each" in text
    assert "T.copy(tile[block" in text, "the message shows the use, not the allocation"


def test_rows_of_two_blocks():
    """What the layout algebra cannot do names the line that asks for it."""

    @T.prim_func
    def kernel(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_tmem([256, 64], "float32")
            T.fill(tile, 1.0)
            T.copy(tile[64:192, :], C)

    assert "T.copy(tile[64:192" in refused(kernel)


@pytest.mark.parametrize(
    ("shape", "dtype", "columns"),
    [((64, 33), "float32", 33), ((64, 1), "float32", 1), ((64, 34), "float16", 17)],
)
def test_an_odd_number_of_columns_of_64_rows(shape, dtype, columns):
    @T.prim_func
    def kernel(A: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment(shape, dtype)
            t = T.alloc_tmem(shape, dtype)
            T.copy(A, f)
            T.copy(f, t)
            T.copy(t, f)
            T.copy(f, A)

    with pytest.raises(errors.LayoutError) as caught:
        compile_sm100(kernel)
    text = str(caught.value)
    assert f"two 32-bit columns at a time, and this one has {columns}. Give it one more" in text
    assert "T.copy(f, t)" in text
