"""Columns of tensors that loops read go through shared tiles."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import remarks_of

TARGETS = ("sm_100a", "sm_90a", "sm_80", "sm_120a")


def transposed(rows, columns, tile=(32, 32), dtype="bfloat16", form="loop", threads=128):
    """B = A^T + 1, spelled in one of several forms."""
    tall, wide = tile
    alloc = T.alloc_shared if "shared" in form else T.alloc_fragment

    @T.prim_func
    def main(A: T.Tensor((rows, columns), dtype), B: T.Tensor((columns, rows), dtype)):
        with T.Kernel(T.ceildiv(columns, wide), T.ceildiv(rows, tall), threads=threads) as (
            bx,
            by,
        ):
            x, y = bx * wide, by * tall
            if form == "loop":
                for i, j in T.Parallel(wide, tall):
                    B[x + i, y + j] = A[y + j, x + i] + 1
            elif form == "loop along rows":
                for i, j in T.Parallel(tall, wide):
                    B[x + j, y + i] = A[y + i, x + j] + 1
            else:
                a = alloc((tall, wide), dtype)
                b = alloc((wide, tall), dtype)
                T.copy(A[y, x], a)
                if "written" in form:
                    for i, j in T.Parallel(tall, wide):
                        b[j, i] = a[i, j] + 1
                else:
                    for i, j in T.Parallel(wide, tall):
                        b[i, j] = a[j, i] + 1
                T.copy(b, B[x, y])

    return main


FORMS = ("loop", "loop along rows", "fragments", "shared tiles", "written shared tiles")


def is_staged(program, target="sm_100a") -> bool:
    found = [r.message for r in remarks_of("stage_columns", program, target)]
    return any("neighbouring threads read elements of different rows" in text for text in found)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("sizes", "tile", "dtype"),
    [
        ((96, 64), (32, 32), "bfloat16"),
        ((61, 77), (32, 32), "float32"),
        ((50, 1023), (16, 64), "float16"),
        ((33, 40), (64, 32), "int8"),
        ((1, 777), (32, 32), "float32"),
        ((70, 64), (64, 32), "float8_e4m3fn"),
    ],
)
def test_results(target, form, sizes, tile, dtype):
    element = T.dtype(dtype).as_torch()
    a = torch.arange(sizes[0] * sizes[1]).reshape(sizes).remainder(13).float().to(element)
    b = torch.full(sizes[::-1], 99).to(element)
    tilelang.compile(transposed(*sizes, tile, dtype, form), target=target)(a, b)
    assert torch.equal(b.float(), a.float().T + 1)


def test_all_forms_take_the_same_time():
    def time(form, **configs):
        program = transposed(4096, 4096, (64, 64), form=form)
        kernel = tilelang.compile(program, target="sm_100a", pass_configs=configs)
        return kernel.profile().timing.grid_us

    times = [time(form) for form in FORMS]
    assert max(times) < 1.05 * min(times)
    kept = {"tl.disable_column_staging": True, "tl.disable_block_fitting": True}
    assert max(times) < 0.6 * time("fragments", **kept)


def batched(batch, rows, columns):
    """B[z] = A[z]^T * F by columns of F, too, and C beside."""

    @T.prim_func
    def main(
        A: T.Tensor((batch, rows, columns), "float32"),
        F: T.Tensor((rows, columns), "float32"),
        C: T.Tensor((batch, columns, rows), "float32"),
        B: T.Tensor((batch, columns, rows), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, 16), T.ceildiv(rows, 32), batch, threads=64) as (x, y, z):
            for i, j in T.Parallel(16, 32):
                c, r = x * 16 + i, y * 32 + j
                B[z, c, r] = A[z, r, c] * F[r, c] + C[z, c, r]

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_several_tensors(target):
    assert is_staged(batched(2, 40, 24), target)
    a, f, c = torch.randn(2, 40, 24), torch.randn(40, 24), torch.randn(2, 24, 40)
    b = torch.full((2, 24, 40), torch.nan)
    tilelang.compile(batched(2, 40, 24), target=target)(a, f, c, b)
    wanted = (a.double() * f).transpose(1, 2) + c
    torch.testing.assert_close(b.double(), wanted, rtol=1e-6, atol=1e-6)


def other(kind):
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            if kind == "rows":
                for i, j in T.Parallel(128, 32):
                    B[i, j] = A[i, j]
            elif kind == "written":
                for i, j in T.Parallel(128, 32):
                    A[i, j] = A[j, i]
            elif kind == "narrow":
                for i, j in T.Parallel(4, 32):
                    B[i, j] = A[j, i]
            elif kind == "diagonal":
                for i, j in T.Parallel(32, 32):
                    B[i, j] = A[i + j, i]
            elif kind == "branch":
                first = A[0, 0]
                if first > 0:
                    for i, j in T.Parallel(32, 32):
                        B[i, j] = A[j, i]

    return main


@pytest.mark.parametrize("kind", ["rows", "written", "narrow", "diagonal", "branch"])
def test_other_loops_stay(kind):
    assert not is_staged(other(kind))
