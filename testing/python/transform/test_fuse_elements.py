"""Elementwise programs whose threads have little of each tile become loops over tensors."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import run_pass

TARGETS = ("sm_100a", "sm_90a", "sm_80", "sm_120a")


def scaled_sum(rows, columns, block, threads, dtype="bfloat16", scope="fragment", own=False):
    """C = 2 (A + B) + bias, by tiles of block[0] x block[1]; `own`: in the place of A."""
    alloc = T.alloc_fragment if scope == "fragment" else T.alloc_shared

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), dtype),
        B: T.Tensor((rows, columns), dtype),
        Bias: T.Tensor((columns,), "float32"),
        C: T.Tensor((rows, columns), dtype),
    ):
        with T.Kernel(T.ceildiv(columns, block[1]), T.ceildiv(rows, block[0]), threads=threads) as (
            bx,
            by,
        ):
            a = alloc(block, dtype)
            b = alloc(block, dtype)
            total = T.alloc_fragment(block, "float32")
            T.copy(A[by * block[0], bx * block[1]], a)
            T.copy(B[by * block[0], bx * block[1]], b)
            for i, j in T.Parallel(*block):
                total[i, j] = a[i, j] + b[i, j]
            for i, j in T.Parallel(*block):
                twice = total[i, j] * 2
                a[i, j] = twice + Bias[bx * block[1] + j]
            if own:
                T.copy(a, A[by * block[0], bx * block[1]])
            else:
                T.copy(a, C[by * block[0], bx * block[1]])

    return main


def is_fused(program):
    text = str(run_pass("fuse_elements", program))
    assert ("alloc" in text) == (text == str(program))
    return "alloc" not in text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scope", ["fragment", "shared"])
@pytest.mark.parametrize(
    ("sizes", "block", "threads", "dtype"),
    [
        ((70, 512), (1, 256), 256, "bfloat16"),
        ((9, 1000), (1, 512), 512, "float16"),
        ((40, 333), (4, 64), 128, "float32"),
    ],
)
@pytest.mark.parametrize("own", [False, True])
def test_results(target, scope, sizes, block, threads, dtype, own):
    program = scaled_sum(*sizes, block, threads, dtype, scope, own)
    assert is_fused(program)
    element = getattr(torch, dtype)
    a, b = torch.randn(2, *sizes).to(element)
    bias, c = torch.randn(sizes[1]), torch.full(sizes, torch.nan).to(element)
    wanted = (2 * (a + b).float() + bias).to(element)
    tilelang.compile(program, target=target)(a, b, bias, c)
    torch.testing.assert_close(a if own else c, wanted, rtol=0, atol=1e-6)


def test_rows_without_vectors_keep_their_tiles_where_threads_have_vectors():
    assert is_fused(scaled_sum(64, 1024, (1, 1024), 128))
    assert is_fused(scaled_sum(64, 1023, (1, 1024), 256))
    assert not is_fused(scaled_sum(64, 1023, (1, 1024), 128))


def elsewhere(kind, rows=48, columns=128, tile=(16, 64)):
    """C = 2 A of other elements than the loop's own; D has half of the columns."""
    tall, wide = tile

    @T.prim_func
    def main(
        A: T.Tensor((rows, columns), "bfloat16"),
        D: T.Tensor((rows, columns // 2), "bfloat16"),
        F: T.Tensor((columns,), "float32"),
        C: T.Tensor((rows, columns), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(columns, wide), T.ceildiv(rows, tall), threads=128) as (bx, by):
            a = T.alloc_shared(tile, "bfloat16")
            d = T.alloc_shared((tall, wide // 2), "bfloat16")
            f = T.alloc_fragment((wide,), "float32")
            c = T.alloc_fragment(tile, "bfloat16")
            T.copy(A[by * tall, bx * wide], a)
            T.copy(D[by * tall, bx * (wide // 2)], d)
            T.copy(F[bx * wide], f)
            if kind == "computed factor":
                for j in T.Parallel(wide):
                    f[j] = T.exp(f[j])
            for i, j in T.Parallel(*tile):
                if kind == "other of a pair":
                    c[i, j] = a[i, j ^ 1] * 2
                elif kind == "half":
                    c[i, j] = d[i, j // 2] * 2
                elif kind == "window":
                    c[i, j] = a[i, T.min(j + 1, wide - 1)] + a[i, j]
                elif kind in ("factor", "computed factor"):
                    c[i, j] = a[i, j] * f[j]
            T.copy(c, C[by * tall, bx * wide])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kind", "fuses"),
    [("other of a pair", True), ("half", True), ("factor", True), ("window", False),
     ("computed factor", False)],
)  # fmt: skip
def test_other_elements_of_tiles(target, kind, fuses):
    program = elsewhere(kind)
    assert is_fused(program) == fuses
    torch.manual_seed(0)
    a, d = torch.randn(48, 128).bfloat16(), torch.randn(48, 64).bfloat16()
    f, c = torch.randn(128), torch.full((48, 128), torch.nan).bfloat16()
    tilelang.compile(program, target=target)(a, d, f, c)
    at = torch.arange(128)
    wanted = {
        "other of a pair": a[:, at ^ 1] * 2,
        "half": d[:, at // 2] * 2,
        "window": a[:, torch.minimum(at + 1, at // 64 * 64 + 63)] + a,
        "factor": a.float() * f,
        "computed factor": a.float() * f.exp(),
    }[kind].bfloat16()
    torch.testing.assert_close(c, wanted, rtol=1e-2, atol=0)


def test_the_chosen_blocks_take_less_time():
    program = scaled_sum(4096, 1024, (1, 256), 256)
    kept = tilelang.compile(
        program, target="sm_100a", pass_configs={"tl.disable_block_fitting": True}
    )
    fused = tilelang.compile(program, target="sm_100a")
    assert fused.profile().timing.grid_us < kept.profile().timing.grid_us


def with_statement(kind):
    @T.prim_func
    def main(A: T.Tensor((64, 128), "float32"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(64, threads=128) as row:
            a = T.alloc_shared((1, 128), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(A[row, 0], a)
            if kind == "name of an element":
                first = a[0, 0]
                for i, j in T.Parallel(1, 128):
                    a[i, j] = a[i, j] - first
            elif kind == "name behind a store":
                for i, j in T.Parallel(1, 128):
                    a[i, j] = a[i, j] + 1
                T.copy(a, C[row + 64, 0])
                first = C[row + 64, 0]
                for i, j in T.Parallel(1, 128):
                    a[i, j] = a[i, j] * first
            elif kind == "reduction":
                T.reduce_sum(a, s, dim=1)
                for i, j in T.Parallel(1, 128):
                    a[i, j] = s[i]
            elif kind == "other element":
                for i, j in T.Parallel(1, 128):
                    C[row, j] = a[i, 127 - j]
            elif kind == "condition":
                for i, j in T.Parallel(1, 128):
                    if j < 64:
                        a[i, j] = 0
            elif kind == "atomic":
                for i, j in T.Parallel(1, 128):
                    T.atomic_add(C[row, j], a[i, j])
            elif kind == "thread":
                for i, j in T.Parallel(1, 128):
                    a[i, j] = a[i, j] + T.get_thread_binding()
            elif kind == "two results":
                for i, j in T.Parallel(1, 128):
                    a[i, j] = a[i, j] + 1
                    A[row, j] = a[i, j]
            elif kind == "column":
                for i, j in T.Parallel(1, 128):
                    C[j, row] = a[i, j]
            elif kind == "read after it is written":
                for i, j in T.Parallel(1, 128):
                    C[row, j] = a[i, j]
                for i, j in T.Parallel(1, 128):
                    a[i, j] = C[row, j]
            elif kind == "uninitialised":
                b = T.alloc_fragment((1, 128), "float32")
                for i, j in T.Parallel(1, 128):
                    a[i, j] = b[i, j]
            if kind not in ("other element", "column"):
                T.copy(a, C[row, 0])

    return main


@pytest.mark.parametrize(
    "kind",
    ["reduction", "other element", "condition", "atomic", "thread", "two results", "column",
     "read after it is written", "uninitialised", "copies alone",
     "name of an element", "name behind a store"],
)  # fmt: skip
def test_other_programs_keep_their_tiles(kind):
    assert not is_fused(with_statement(kind))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["name of an element", "name behind a store"])
def test_names_of_elements(target, kind):
    a, c = torch.randn(64, 128), torch.full((128, 128), torch.nan)
    tilelang.compile(with_statement(kind), target=target)(a, c)
    wanted = a - a[:, :1] if kind == "name of an element" else (a + 1) * (a[:, :1] + 1)
    assert torch.equal(c[:64], wanted)
