"""T.gemm of float4 with scale factors on sm_103a: 96 elements of K an instruction."""

from __future__ import annotations

import re

import pytest
from conformance.running import run
from conformance.test_block_scaled_fp4 import KINDS, Case, gemm_of

import tilelang


def steps_of(kernel) -> int:
    """How often a descriptor has bit 31, of K = 96."""
    found = re.findall(r"tcgen05_mma_scaled_ss<[^>]*>\([^;]*?, (\d+)u,", kernel.get_kernel_source())
    assert found
    return sum(int(x) >> 31 for x in found)


@pytest.mark.every_schedule
@KINDS
@pytest.mark.parametrize(
    ("shape", "tiles", "form"),
    [
        ((128, 128, 768), (128, 128, 768), "atoms"),
        ((144, 240, 1600), (128, 240, 768), "rows"),
        ((128, 256, 1536), (128, 256, 768), "atoms"),
        ((128, 16, 1536), (128, 16, 1536), "rows"),
    ],
)
def test_long_rows(kind, shape, tiles, form) -> None:
    case = Case(*shape, kind)
    main = gemm_of(*shape, tiles, kind, form, stages=1)
    run(main, "sm_103a", case.a, case.b, *getattr(case, form), case.c)
    case.check()


@pytest.mark.every_schedule
@KINDS
def test_pairs(kind) -> None:
    case = Case(300, 256, 1536, kind)
    main = gemm_of(300, 256, 1536, (128, 128, 768), kind, ctas=2)
    run(main, "sm_103a", case.a, case.b, *case.atoms, case.c)
    case.check()


@KINDS
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize(
    ("tiles", "count"), [((128, 128, 768), 8), ((128, 128, 256), 0), ((256, 128, 768), 0)]
)
def test_which_instructions(kind, target, tiles, count) -> None:
    main = gemm_of(256, 128, 768, tiles, kind, stages=1)
    kernel = tilelang.compile(main, target=target)
    long = target == "sm_103a"
    assert steps_of(kernel) == (count if long else 0)
    remarks = [
        str(r) for r in kernel.remarks if "multiplies 64 elements of K in an instruction" in str(r)
    ]
    assert bool(remarks) == (long and count == 0)
