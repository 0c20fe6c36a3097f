"""Layouts of tensor memory that the program gives, and halves of tiles."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import TORCH, compile_sm100

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.layout import TmemLayout


def lane_of_half(row, upper=0):
    """The lane of a row of 64: 16 lanes of each 32."""
    return row % 16 + 32 * (row // 16) + 16 * upper


# Shape, place of an element as [lane, column], threads.
LAYOUTS = {
    "rows": ((128, 64), lambda i, j: [i, j], 128),
    "columns later": ((128, 40), lambda i, j: [i, j + 8], 128),
    "transposed": ((64, 128), lambda i, j: [j, i], 128),
    "stages": ((3, 128, 32), lambda s, i, j: [i, s * 48 + j], 128),
    "lanes of two dimensions": (
        (2, 32, 16, 4),
        lambda s, i, j, k: [i + 32 * k, s * 16 + j],
        128,
    ),
    "two warpgroups": ((128, 128), lambda i, j: [i, j], 256),
    "lower half": ((64, 96), lambda i, j: [lane_of_half(i), j], 128),
    "upper half": ((64, 96), lambda i, j: [lane_of_half(i, 1), j], 128),
    "both halves": ((2, 64, 32), lambda s, i, j: [lane_of_half(i, s), j], 128),
    "half, two warpgroups": ((64, 128), lambda i, j: [lane_of_half(i), j], 256),
}


def poisoned(shape, dtype):
    return torch.full(shape, float("nan")).to(TORCH[dtype])


def annotated(tile, forward):
    T.annotate_layout({tile: T.Layout(tile.shape, forward)})


def round_trip(shape, forward, threads, dtype):
    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment(shape, dtype)
            b = T.alloc_fragment(shape, dtype)
            t = T.alloc_tmem(shape, dtype)
            annotated(t, forward)
            T.copy(X, a)
            T.copy(a, t)
            T.copy(t, b)
            T.copy(b, Y)

    return kernel


def check_copy(kernel, shape, dtype="float32"):
    x, y = torch.randn(shape).to(TORCH[dtype]), poisoned(shape, dtype)
    compile_sm100(kernel)(x, y)
    assert torch.equal(x, y)


@pytest.mark.parametrize("name", LAYOUTS)
def test_round_trip(name):
    shape, forward, threads = LAYOUTS[name]
    check_copy(round_trip(shape, forward, threads, "float32"), shape)


@pytest.mark.parametrize(
    ("shape", "forward"),
    [
        ((128, 64), lambda i, j: [i, j]),
        ((128, 32), lambda i, j: [i, 2 * j]),
        ((64, 64), lambda i, j: [lane_of_half(i), j]),
        ((64, 64), lambda i, j: [lane_of_half(i, 1), j]),
    ],
    ids=["packed", "a column each", "half", "upper half"],
)
def test_elements_of_16_bits(shape, forward):
    check_copy(round_trip(shape, forward, 128, "bfloat16"), shape, "bfloat16")


def slices_of(tile, parts):
    width = tile.shape[-1] // parts
    rest = [slice(None)] * (len(tile.shape) - 1)
    return [tile[(*rest, slice(s * width, (s + 1) * width))] for s in range(parts)]


@pytest.mark.parametrize("stores", [1, 2])
@pytest.mark.parametrize("loads", [1, 4])
@pytest.mark.parametrize("name", ["rows", "stages", "two warpgroups", "lower half", "upper half"])
def test_in_slices(name, stores, loads):
    shape, forward, threads = LAYOUTS[name]

    @T.prim_func
    def kernel(X: T.Tensor(shape, "float32"), Y: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment(shape, "float32")
            b = T.alloc_fragment(shape, "float32")
            t = T.alloc_tmem(shape, "float32")
            annotated(t, forward)
            T.copy(X, a)
            for source, target in zip(slices_of(a, stores), slices_of(t, stores), strict=True):
                T.copy(source, target)
            for source, target in zip(slices_of(t, loads), slices_of(b, loads), strict=True):
                T.copy(source, target)
            T.copy(b, Y)

    check_copy(kernel, shape)


@pytest.mark.parametrize("annotate", [True, False])
def test_stage_by_stage(annotate):
    """A serial loop that chooses slices of fragments is unrolled."""
    shape, forward, threads = LAYOUTS["stages"]

    @T.prim_func
    def kernel(X: T.Tensor(shape, "float32"), Y: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment(shape, "float32")
            b = T.alloc_fragment(shape, "float32")
            t = T.alloc_tmem(shape, "float32")
            if annotate:
                annotated(t, forward)
            T.copy(X, a)
            for s in T.serial(3):
                T.copy(a[s, :, :], t[s, :, :])
            for s in T.serial(3):
                T.copy(t[2 - s, :, :], b[2 - s, :, :])
            T.copy(b, Y)

    check_copy(kernel, shape)


@pytest.mark.parametrize("half", [0, 1])
def test_rows_of_half_a_result(half):
    """64 of 128 rows of an accumulator."""

    @T.prim_func
    def kernel(
        A: T.Tensor((128, 64), "bfloat16"),
        B: T.Tensor((64, 64), "bfloat16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((128, 64), "float32")
            part = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c[half * 64 : half * 64 + 64, :], part)
            T.copy(part, C)

    a, b = torch.randn(128, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    c = poisoned((64, 64), "float32")
    compile_sm100(kernel)(a, b, c)
    expected = (a.double() @ b.double())[half * 64 : half * 64 + 64]
    torch.testing.assert_close(c.double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("threads", [128, 256])
def test_gemms_into_both_halves(threads):
    """Two results of 64 rows in the same columns; one gemm adds to a part of the columns."""

    @T.prim_func
    def kernel(
        A: T.Tensor((2, 64, 32), "bfloat16"),
        B: T.Tensor((32, 128), "bfloat16"),
        C: T.Tensor((2, 64, 128), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((2, 64, 32), "bfloat16")
            b = T.alloc_shared((32, 128), "bfloat16")
            c = T.alloc_tmem((2, 64, 128), "float32")
            f = T.alloc_fragment((64, 128), "float32")
            annotated(c, lambda s, i, j: [lane_of_half(i, s), j])
            T.copy(A, a)
            T.copy(B, b)
            for s in T.unroll(2):
                T.gemm(a[s, :, :], b, c[s, :, :], clear_accum=True)
            T.gemm(a[0, :, :], b[:, 64:128], c[1, :, 64:128])
            for s in T.unroll(2):
                T.copy(c[s, :, :], f)
                T.copy(f, C[s, :, :])

    a, b = torch.randn(2, 64, 32).bfloat16(), torch.randn(32, 128).bfloat16()
    c = poisoned((2, 64, 128), "float32")
    compile_sm100(kernel)(a, b, c)
    expected = a.double() @ b.double()
    expected[1, :, 64:] += expected[0, :, 64:]
    torch.testing.assert_close(c.double(), expected, rtol=1e-3, atol=1e-3)


def attention(rows: int, width: int, scores: int, steps: int, threads: int):
    @T.prim_func
    def kernel(
        Q: T.Tensor((rows, width), "bfloat16"),
        KV: T.Tensor((steps * scores, width), "bfloat16"),
        O: T.Tensor((rows, width), "float32"),  # noqa: E741
    ):
        with T.Kernel(1, threads=threads):
            q = T.alloc_shared((rows, width), "bfloat16")
            kv = T.alloc_shared((scores, width), "bfloat16")
            p = T.alloc_shared((rows, scores), "bfloat16")
            s = T.alloc_fragment((rows, scores), "float32")
            o = T.alloc_fragment((rows, width), "float32")
            T.clear(o)
            T.copy(Q, q)
            for i in T.serial(steps):
                T.copy(KV[i * scores, 0], kv)
                T.clear(s)
                T.gemm(q, kv, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(s, p)
                T.gemm(p, kv, o, policy=T.GemmWarpPolicy.FullCol)
            T.copy(o, O)

    return kernel


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("scores", [32, 64])
def test_scores_beside_a_result_of_all_columns(scores, threads):
    """A result of 64 x 512 takes all columns; the scores lie in the other lanes of some."""
    kernel = compile_sm100(attention(64, 512, scores, 2, threads))
    q, kv = torch.randn(64, 512).bfloat16(), torch.randn(2 * scores, 512).bfloat16()
    o = poisoned((64, 512), "float32")
    kernel(q, kv, o)
    p = (q.float() @ kv.float().T).bfloat16()
    expected = p.double() @ kv.double()
    assert ((o - expected).norm() / expected.norm()) < 1e-2
    assert "mma_sync" not in kernel.get_kernel_source()


def given(layout, shape=(128, 64)):
    @T.prim_func
    def kernel(X: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment(shape, "float32")
            t = T.alloc_tmem(shape, "float32")
            T.annotate_layout({t: layout})
            T.copy(t, f)
            T.copy(f, X)

    return kernel


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (lambda i, j: i * 64 + j, r"returns \[lane, column\]"),
        (lambda i, j: [i + 1, j], "reaches lane 128 and 32-bit column 63"),
        (lambda i, j: [i, j * 9], "reaches lane 127 and 32-bit column 567"),
        (lambda i, j: [i, j // 2], "puts two elements in one place"),
        (TmemLayout.operand_a(128, 64, 16), "32 bits, those of the layout 16"),
        (T.Fragment((128, 64), lambda i, j: (i, j)), "takes a T.Layout, not a Fragment"),
    ],
)
def test_refused(layout, text):
    with pytest.raises(errors.LayoutError, match=text):
        given(layout)


def test_a_layout_that_the_instruction_does_not_have():
    @T.prim_func
    def kernel(A: T.Tensor((128, 64), "bfloat16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_tmem((128, 128), "float32")
            f = T.alloc_fragment((128, 128), "float32")
            annotated(c, lambda i, j: [j, i])
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.copy(c, f)
            T.copy(f, C)

    with pytest.raises(errors.LayoutError, match="has its rows in lanes"):
        tilelang.compile(kernel, target="sm_100a")
