"""The tiles that the compiler chooses for straightforward GEMMs on Blackwell."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

pytestmark = pytest.mark.over_field


def gemm(
    m, n, k, tile=(128, 128, 64), threads=128, dtype="bfloat16", out="bfloat16", form="NT",
    batches=0, epilogue="", stages=2,
):  # fmt: skip
    """C = A B; ``form``: whether A and B are transposed; ``epilogue``: what follows the sums."""
    rows, columns, depth = tile
    lead = (batches,) if batches else ()
    of_a = (k, m) if form[0] == "T" else (m, k)
    of_b = (n, k) if form[1] == "T" else (k, n)

    @T.prim_func
    def main(
        A: T.Tensor((*lead, *of_a), dtype),
        B: T.Tensor((*lead, *of_b), dtype),
        V: T.Tensor((n,), "float32"),
        C: T.Tensor((*lead, m, n), out),
    ):
        grid = (T.ceildiv(n, columns), T.ceildiv(m, rows), *lead)
        with T.Kernel(*grid, threads=threads) as block:
            bx, by = block[0], block[1]
            at = (block[2],) if batches else ()
            a = T.alloc_shared((depth, rows) if form[0] == "T" else (rows, depth), dtype)
            b = T.alloc_shared((columns, depth) if form[1] == "T" else (depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                if form[0] == "T":
                    T.copy(A[(*at, step * depth, by * rows)], a)
                else:
                    T.copy(A[(*at, by * rows, step * depth)], a)
                if form[1] == "T":
                    T.copy(B[(*at, bx * columns, step * depth)], b)
                else:
                    T.copy(B[(*at, step * depth, bx * columns)], b)
                T.gemm(a, b, c, transpose_A=form[0] == "T", transpose_B=form[1] == "T")
            if epilogue == "bias":
                for i, j in T.Parallel(rows, columns):
                    c[i, j] = T.max(c[i, j] + V[bx * columns + j], 0.0)
            T.copy(c, C[(*at, by * rows, bx * columns)])

    return main


def run(sm_count, m, n, k, **options):
    """What a Blackwell GPU with so many multiprocessors computes, the product, and the remarks."""
    target = with_sm_count(resolve("sm_100a"), sm_count)
    configs = options.pop("pass_configs", {})
    kernel = tilelang.compile(gemm(m, n, k, **options), target=target, pass_configs=configs)
    torch.manual_seed(0)
    lead = (options["batches"],) if options.get("batches") else ()
    a, b = torch.randn(*lead, m, k), torch.randn(*lead, k, n)
    dtype = getattr(torch, options.get("dtype", "bfloat16"))
    a, b, v = a.to(dtype), b.to(dtype), torch.randn(n)
    want = a.double() @ b.double()
    if options.get("epilogue") == "bias":
        want = (want + v).clamp(min=0)
    form = options.get("form", "NT")
    c = poisoned((*lead, m, n), options.get("out", "bfloat16"), "cpu")
    kernel(
        a.mT.contiguous() if form[0] == "T" else a, b.mT.contiguous() if form[1] == "T" else b, v, c
    )
    return c, want, " ".join(r.message for r in kernel.remarks)


def close(got, want):
    torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-1)


PAIRS = "pairs of blocks multiply"
SHARE = "share the iterations"


FORMS = [
    ((1024, 768, 192), {}),
    ((1000, 776, 200), {}),
    ((900, 520, 136), {"form": "NN"}),
    ((1024, 768, 192), {"form": "TN"}),
    ((520, 1000, 264), {"form": "TT"}),
    ((1024, 512, 256), {"dtype": "float8_e4m3fn", "tile": (128, 128, 128)}),
    ((512, 512, 64), {"dtype": "float32", "out": "float32", "tile": (128, 128, 32)}),
    ((1000, 520, 128), {"out": "float32"}),
    ((1000, 520, 128), {"epilogue": "bias"}),
    ((1000, 520, 128), {"tile": (256, 128, 64), "threads": 256}),
    ((1000, 520, 128), {"tile": (64, 64, 64)}),
    ((512, 520, 128), {"batches": 3}),
]


@pytest.mark.budget(3)
@pytest.mark.every_schedule
@pytest.mark.parametrize("columns", [64, 224, 256])
@pytest.mark.parametrize(("sizes", "options"), FORMS, ids=str)
def test_pairs_in_turn(sizes, options, columns):
    configs = {"tl.tile_pairs": True, "tl.tile_columns": columns}
    got, want, said = run(4, *sizes, pass_configs=configs, **options)
    assert PAIRS in said, said
    assert f"128 x {columns} elements" in said
    close(got, want)


@pytest.mark.every_schedule
@pytest.mark.parametrize("columns", [80, 112, 208])
@pytest.mark.parametrize(
    ("sizes", "options"), [FORMS[1], FORMS[4], FORMS[7], FORMS[8], FORMS[11]], ids=str
)
def test_pairs_of_any_multiple_of_16_columns(sizes, options, columns):
    configs = {"tl.tile_pairs": True, "tl.tile_columns": columns}
    options = options | {"form": options.get("form", "NT")}
    got, want, said = run(4, *sizes, pass_configs=configs, **options)
    assert PAIRS in said and f"128 x {columns} elements" in said, said
    close(got, want)


@pytest.mark.parametrize("columns", [112, 208])
def test_halves_of_contiguous_columns_have_rows_of_32_bytes(columns):
    """Half of the columns of an N-major B is a row of a shared tile."""
    configs = {"tl.tile_pairs": True, "tl.tile_columns": columns}
    got, want, said = run(4, 900, 520, 136, form="NN", pass_configs=configs)
    assert PAIRS not in said
    close(got, want)


@pytest.mark.parametrize(("pairs", "columns"), [(True, 160), (True, 224), (False, 112)])
@pytest.mark.parametrize("form", ["NN", "TN"])
def test_contiguous_columns_of_32_bits_are_loaded_by_tma(form, pairs, columns):
    """The rows of an N-major B of tf32 are whole swizzles of 32 elements."""
    options = {"form": form, "dtype": "float32", "out": "float32", "tile": (128, 128, 32)}
    configs = {"tl.tile_pairs": pairs, "tl.tile_columns": columns}
    got, want, said = run(4, 512, 520, 64, pass_configs=configs, **options)
    assert "is done by threads" not in said
    close(got, want)


FEW = [
    (1, 520, 1000, {}),
    (16, 264, 2048, {"form": "NN"}),
    (50, 520, 136, {"out": "float32"}),
    (64, 520, 264, {"form": "TT"}),
    (33, 520, 264, {"epilogue": "bias"}),
    (40, 512, 256, {"dtype": "float8_e4m3fn", "tile": (128, 128, 128)}),
    (7, 520, 264, {"tile": (256, 128, 64), "threads": 256}),
    (60, 520, 264, {"tile": (64, 64, 64)}),
    (64, 264, 136, {"batches": 3}),
]


@pytest.mark.every_schedule
@pytest.mark.parametrize("sms", [2, 148])
@pytest.mark.parametrize(("m", "n", "k", "options"), FEW, ids=str)
def test_few_rows_take_tiles_of_64(m, n, k, options, sms):
    got, want, said = run(sms, m, n, k, pass_configs={"tl.disable_split_k": True}, **options)
    assert "tiles of 64 x" in said, said
    close(got, want)


@pytest.mark.budget(3)
@pytest.mark.every_schedule
@pytest.mark.parametrize("columns", [96, 256])
@pytest.mark.parametrize(("sizes", "options"), FORMS, ids=str)
def test_blocks_in_turn(sizes, options, columns):
    configs = {"tl.tile_pairs": False, "tl.tile_columns": columns}
    got, want, said = run(4, *sizes, pass_configs=configs, **options)
    assert f"128 x {columns} elements" in said and PAIRS not in said
    close(got, want)


@pytest.mark.every_schedule
@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((16, 256, 2048), {}),
        ((100, 264, 1112), {"form": "NN"}),
        ((128, 256, 1024), {"out": "float32"}),
        ((128, 256, 1024), {"dtype": "float8_e4m3fn", "tile": (128, 128, 128)}),
    ],
    ids=str,
)
def test_blocks_share_iterations(sizes, options, parts):
    configs = {"tl.tile_parts": parts, "tl.tile_columns": 96}
    got, want, said = run(12, *sizes, pass_configs=configs, **options)
    assert SHARE in said, said
    close(got, want)


def test_one_multiprocessor_has_no_pairs():
    got, want, said = run(1, 288, 200, 128, pass_configs={"tl.tile_pairs": True})
    assert PAIRS not in said
    close(got, want)


def test_sums_stay_whole_if_asked():
    configs = {"tl.disable_split_k": True}
    got, want, said = run(8, 16, 256, 2048, pass_configs=configs)
    assert SHARE not in said
    close(got, want)


def test_the_option_keeps_the_tiles_of_the_program():
    got, want, said = run(4, 512, 512, 128, pass_configs={"tl.disable_tile_choice": True})
    assert "tiles of" not in said
    close(got, want)


@pytest.mark.every_schedule
@pytest.mark.parametrize("parts", [1, 2])
def test_a_grid_of_one_dimension(parts):
    @T.prim_func
    def rows(
        A: T.Tensor((100, 1024), "bfloat16"),
        B: T.Tensor((520, 1024), "bfloat16"),
        C: T.Tensor((100, 520), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(520, 128), threads=128) as bx:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(16, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[bx * 128, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[0, bx * 128])

    configs = {"tl.tile_parts": parts, "tl.tile_columns": 64}
    target = with_sm_count(resolve("sm_100a"), 4 if parts == 1 else 18)
    kernel = tilelang.compile(rows, target=target, pass_configs=configs)
    assert any("128 x 64 elements" in remark.message for remark in kernel.remarks)
    torch.manual_seed(0)
    a, b = torch.randn(100, 1024).bfloat16(), torch.randn(520, 1024).bfloat16()
    c = poisoned((100, 520), "bfloat16", "cpu")
    kernel(a, b, c)
    close(c, a.double() @ b.double().T)


@pytest.mark.parametrize("pairs", [False, True])
def test_each_block_computes_one_tile(pairs):
    configs = {"tl.disable_persistent_blocks": True, "tl.tile_pairs": pairs}
    got, want, said = run(4, 1000, 776, 200, pass_configs=configs)
    assert (PAIRS in said) == pairs
    close(got, want)
    target = with_sm_count(resolve("sm_100a"), 4)
    kernel = tilelang.compile(gemm(1000, 776, 200), target=target, pass_configs=configs)
    tiles = [remark for remark in kernel.remarks if "elements" in remark.message]
    assert tiles and kernel.profile().timing.ctas > 4


def test_stages_of_the_program_are_not_exceeded():
    configs = {"tl.disable_block_fitting": True, "tl.tile_columns": 128, "tl.tile_pairs": False}
    target = with_sm_count(resolve("sm_100a"), 8)
    kernels = [
        tilelang.compile(gemm(512, 512, 2048), target=target, pass_configs=each)
        for each in (configs, configs | {"tl.disable_block_fitting": False})
    ]
    given, fitted = (kernel.profile().timing.shared_bytes for kernel in kernels)
    assert given < fitted
    got, want, said = run(12, 16, 256, 2048, pass_configs={"tl.disable_block_fitting": True})
    assert SHARE not in said
    close(got, want)


def test_blocks_keep_the_order_of_the_grid():
    for configs in ({}, {"tl.disable_block_order": True}):
        got, want, _ = run(4, 1024, 1024, 128, pass_configs=configs)
        close(got, want)


def test_a_remark_names_the_statement_that_excludes_wider_tiles():
    @T.prim_func
    def main(
        A: T.Tensor((2048, 1024), "bfloat16"),
        B: T.Tensor((2048, 1024), "bfloat16"),
        C: T.Tensor((2048, 2048), "bfloat16"),
    ):
        with T.Kernel(16, 16, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(16, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 128, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                c[i, j] = c[i, j] * (bx + 1)  # depends on the block, not on the column
            T.copy(c, C[by * 128, bx * 128])

    target = with_sm_count(resolve("sm_100a"), 16)
    kernel = tilelang.compile(main, target=target)
    (excluded,) = [r for r in kernel.remarks if "do not each belong" in r.message]
    assert "% less time" in excluded.message
    assert "c[i, j] * (bx + 1)" in str(excluded.span) or excluded.span.line > 0
