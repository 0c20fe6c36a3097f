"""A GEMM of a B200 step by step, by the timing model, beside published times; needs no GPU.

    python benchmark/timing_steps.py [--size 4096] [--only TEXT] [--check]

C (M, N) = A (M, K) @ B (N, K)^T of 4096 x 4096 x 4096, bfloat16, by PTX that this file writes in
the structure of the kernels of gau-nernst/learn-cuda (02e_matmul_sm100), whose TFLOP/s at that size
it prints, too, and in how many of the cycles the tensor pipe is busy: tiles in 16-byte columns
without a swizzle; with the swizzle of 128 bytes; two stages; a warp that loads and one that
multiplies through seven; pairs of CTAs (cta_group::2); persistent ones that store a tile while the
next is computed. ``--check`` computes a small product with each and compares it with float64.
"""

from __future__ import annotations

import argparse

import numpy as np
import timing_steps_pairs
import timing_steps_ptx
from timing_steps_ptx import ROWS, Step

from tilelang.emulator import Device, TimingOptions

_SIZE = 4096
_SMS = 148

STEPS = (
    Step("16-byte columns", 255.73, 256, 256, 1, swizzled=False),
    Step("swizzle of 128 bytes", 721.02, 256, 256, 1),
    Step("two stages", 914.42, 256, 128, 2),
    Step("warps of their own, seven stages", 1053.61, 128, 64, 7, specialized=True),
    Step("pairs of CTAs", 1169.65, 256, 64, 7, pair=True),
    Step("persistent pairs, two accumulators", 1273.32, 256, 64, 7, pair=True, persistent=True),
)


def launch(step: Step, a: np.ndarray, b: np.ndarray, c: np.ndarray, sms: int = _SMS, **options):
    """Runs a step on operands of bfloat16 as bits; a persistent one with ``sms`` CTAs."""
    device = Device("sm_100a")
    width, swizzle = (64, "128B") if step.swizzled else (8, "none")
    maps = [
        device.tensor_map(x, box=(rows, width), swizzle=swizzle, dtype="bfloat16")
        for x, rows in ((a, ROWS), (b, step.b_rows))
    ]
    (m, k), n = a.shape, b.shape[0]
    tiles = (m // ROWS) * (n // step.n)
    arguments = [*maps, c, n // step.n, k // step.k, n]
    if step.pair:
        arguments.append(tiles)
    program = (timing_steps_pairs if step.pair else timing_steps_ptx).program(step)
    return device.load_ptx(program)["k"].launch(
        min(tiles, sms) if step.persistent else tiles, step.threads, arguments,
        smem=step.stages * step.stage_bytes, cluster=2 if step.pair else 1, **options,
    )  # fmt: skip


def check(step: Step) -> float:
    """The largest error of a small product, relative to the largest value."""
    rng = np.random.default_rng(1)
    m, n, k = 512, 512, 1024
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k)))
    # Truncated to bfloat16.
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    a, b = ((x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in bits)
    c = np.full((m, n), 0x7FC0, np.uint16)
    launch(step, *bits, c, sms=2)  # several tiles for each
    found = (c.astype(np.uint32) << 16).view(np.float32)
    expected = a @ b.T
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def predicted(step: Step, size: int = _SIZE) -> tuple[float, float]:
    """TFLOP/s of the model, and the share of the cycles in which the tensor pipe is busy."""
    a, b, c = (np.zeros((size, size), np.uint16) for _ in range(3))
    options = TimingOptions(sampled=True, record=False)
    timing = launch(step, a, b, c, timing=options, sanitize=False, progress=False).timing
    shares = dict(zip(timing.engine_name, timing.engine_share, strict=True))
    return 2 * size**3 / timing.grid_us / 1e6, shares["tensor pipe"]


def main() -> None:
    """Prints the steps, and how each compares with the one before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--size", type=int, default=_SIZE)
    parser.add_argument("--only", default="", help="part of the names")
    arguments = parser.parse_args()
    steps = [step for step in STEPS if arguments.only in step.name]
    if arguments.check:
        for step in steps:
            print(f"{step.name:36} error {check(step):.1e}")
        return
    before: tuple[float, float] | None = None
    for step in steps:
        rate, busy = predicted(step, arguments.size)
        line = f"{step.name:36} {rate:7.0f} TFLOP/s, tensor pipe {100 * busy:4.1f} %"
        if arguments.size == _SIZE:
            line += f", published {step.published:7.0f}"
            if before:
                line += f"; over the step before {rate / before[0]:5.2f}, "
                line += f"published {step.published / before[1]:5.2f}"
        print(line, flush=True)
        before = rate, step.published


if __name__ == "__main__":
    main()
