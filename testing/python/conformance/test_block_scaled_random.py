"""Random gemms with scale factors: types, tiles, forms of factors, pairs, targets, schedules.

    python -m conformance.test_block_scaled_random FIRST COUNT

tries further seeds on all cores (from testing/python).
"""

from __future__ import annotations

import multiprocessing
import random
import sys

import pytest
import torch
from conformance import test_block_scaled as float8
from conformance import test_block_scaled_fp4 as float4
from conformance import test_block_scaled_mixed as mixed

import tilelang
from tilelang import emulator

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


def compiled(seed: int):
    """A kernel, its arguments and the case that knows what must come out."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    ctas = rng.choice([1, 1, 2])
    target = "sm_100a" if ctas == 2 else rng.choice(["sm_100a"] * 3 + ["sm_120a", "sm_90a"])
    stages = rng.choice([1, 2, 3])
    kind = rng.choice([*float4.BLOCKS, "mxfp8", "mixed"])
    unit = 64 if kind in float4.BLOCKS else 32
    step = 4 * float4.BLOCKS.get(kind, 32)  # columns of an atom
    tiles = rng.choice([128, 256]), rng.choice([128, 256]), rng.choice([1, 2, 3]) * step
    if tiles[0] == 256:  # of 512 columns of tensor memory, some are for factors
        tiles = (256 // ctas, 128, tiles[2])
    if target == "sm_90a":  # the products of elements and factors lie beside them
        tiles, stages = (128, 128, max(step, unit)), 1
    elif target == "sm_120a":  # has less shared memory
        tiles = (128, 128, max(step, unit))
    bits = 4 if kind in float4.BLOCKS else 8
    slot = (tiles[0] + tiles[1]) * tiles[2] * (bits + 1) // 8  # and factors, at most a bit
    stages = min(stages, (90_000 if target == "sm_120a" else 190_000) // slot)
    m, n = (8 * rng.randint(1, 32) for _ in range(2))
    k = unit * rng.randint(1, 10)
    if kind == "mxfp8":
        types = rng.choice(_FLOAT8), rng.choice(_FLOAT8)
        swaps = (False, True) if k % 16 or m % 16 or n % 16 else rng.choice(
            [(False, True), (True, True), (False, False), (True, False)]
        )  # fmt: skip
        case = float8.Case(m, n, k, types, swaps)
        main = float8.scaled_gemm(m, n, k, tiles, types, swaps, stages)
        arguments = case.args
    elif kind == "mixed":
        types = rng.choice(mixed.KINDS), rng.choice(mixed.SMALL)
        k = rng.choice([k, 128 * rng.randint(1, 3)])  # for threads, and for the accelerator
        case = mixed.Case(m, n, k, types)
        main = mixed.gemm_of(m, n, k, tiles, types, stages, ctas)
        arguments = [*case.elements, *case.atoms, case.c]
    else:
        form = rng.choice(["atoms", "rows"])
        case = float4.Case(m, n, k, kind)
        main = float4.gemm_of(m, n, k, tiles, kind, form, stages, ctas)
        arguments = [case.a, case.b, *getattr(case, form), case.c]
    return tilelang.compile(main, target=target), arguments, case


def outcome(seed: int) -> str:
    """``"right"``, or what went wrong."""
    kernel, arguments, case = compiled(seed)
    for schedule in ("late", seed):
        case.c.fill_(float("nan"))
        with emulator.options(schedule=schedule):
            kernel(*arguments)
        case.check()
    return "right"


@pytest.mark.parametrize("seed", range(4))
def test_random(seed: int) -> None:
    assert outcome(seed) == "right"


def _guarded(seed: int) -> tuple[int, str]:
    try:
        return seed, outcome(seed)
    except Exception as error:
        return seed, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    with multiprocessing.get_context("spawn").Pool() as pool:
        wrong = 0
        for seed, text in pool.imap_unordered(_guarded, range(first, first + count)):
            if text != "right":
                wrong += 1
                sys.stdout.write(f"{seed}: {text[:400]}\n")
    sys.stdout.write(f"{count} programs, {wrong} not right\n")
