"""Epilogues in slices of columns: the result of the whole tile, to the bit."""

from __future__ import annotations

import re

import pytest
import torch
from epilogue.kernels import Problem, run

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
