"""Epilogues in slices of columns: the result of the whole tile, to the bit."""

from __future__ import annotations

import re

import pytest
import torch
from epilogue.kernels import Problem, run

import tilelang
import tilelang.language as T

TARGETS = ["sm_90a", "sm_100a"]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def check(p: Problem, target: str, columns: list[int]):
    """Compares with float64, and slices with the whole tile; returns the kernels."""
    kernels = {}
    whole = {}
    for width in [0, *columns]:
        kernel, found, wanted = run(p, target, width)
        kernels[width] = kernel
        for name, value in wanted.items():
            step = {"float32": 2**-18, "float16": 2**-10, "bfloat16": 2**-7}.get(p.dtype, 2**-3)
            rtol = step if name == "d" else 2**-18
            torch.testing.assert_close(found[name].double(), value, rtol=rtol, atol=rtol)
            assert width == 0 or same_bits(found[name], whole[name]), (name, width)
        whole = whole or found
        told = [r.message for r in kernel.remarks if r.topic == "epilogue"]
        assert not told, told
        copies = [r for r in kernel.remarks if r.topic == "copy"]
        said = [(r.span.line, r.message.rsplit(") ", 1)[1]) for r in copies]
        assert len(said) == len(set(said))  # of a copy in slices, once
    return kernels


def loads(ptx: str) -> list[int]:
    """Columns between each tcgen05.ld and the wait for it, by warp."""
    found, open_ = [], 0
    for match in re.finditer(r"tcgen05\.ld\S*\.x(\d+)\.|tcgen05\.wait::ld", ptx):
        if match.group(1):
            open_ += int(match.group(1))
        else:
            found.append(open_)
            open_ = 0
    return found


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("target", TARGETS)
def test_the_whole_epilogue(target, threads):
    kernels = check(Problem(threads=threads), target, [32, 64, 128] if threads == 256 else [64])
    for width, kernel in kernels.items():
        if 0 < width <= 64 and (target, threads) != ("sm_90a", 128):  # 256 registers of results
            assert kernel.n_spills == 0
        if target == "sm_100a":
            assert max(loads(kernel.get_ptx())) <= (width or 256) * 128 // threads
            assert len(loads(kernel.get_ptx())) == 256 // (width or 256)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [96, 160, 192, 224])
def test_widths_of_tiles_and_ragged_edges(target, width):
    check(Problem(m=200, n=136, k=72, bn=width, staged=width % 64 == 0), target, [64])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "float32"])
def test_types_of_the_output(target, dtype):
    check(Problem(n=128, bn=128, dtype=dtype, staged=True, parts="bias aux gelu"), target, [32])


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_persistent_blocks_and_staging(target):
    check(Problem(m=384, n=128, bn=128, persistent=True, staged=True), target, [32])


@pytest.mark.parametrize("target", TARGETS)
def test_staging_shrinks_to_slots(target):
    p = Problem(n=128, bn=128, staged=True, parts="bias gelu residual")
    kernels = check(p, target, [32])
    assert "wait_group.read 1" in kernels[32].get_ptx()  # the other slot is in flight


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slots", [1, 3])
def test_slots_that_loads_fill(target, slots):
    """A slice's elements stay until it has used them."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "bfloat16"),
        R: T.Tensor((128, 128), "bfloat16"),
        D: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            r = T.alloc_shared((128, 128), "bfloat16")
            T.annotate_epilogue(c, columns=32, slots=slots)
            T.clear(c)
            for _k in T.Pipelined(1, num_stages=2):
                T.copy(A, a)
                T.gemm(a, a, c, transpose_B=True)
            T.copy(R, r)
            for i, j in T.Parallel(128, 128):
                c[i, j] += r[i, j]
            T.copy(c, D)

    kernel = tilelang.compile(main, target=target)
    (epilogue,) = kernel.schedule().launches[0].epilogues
    assert (epilogue.slices, epilogue.slots) == (4, slots)
    a, r = torch.randn(128, 64).bfloat16(), torch.randn(128, 128).bfloat16()
    d = torch.full((128, 128), float("nan"))
    kernel(a, r, d)
    torch.testing.assert_close(
        d.double(), a.double() @ a.double().T + r.double(), rtol=1e-5, atol=1e-4
    )
