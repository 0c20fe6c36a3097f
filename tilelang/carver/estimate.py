"""What a tiling of a gemm or of a sweep over memory takes, estimated by a formula.

It ranks hundreds of candidates in milliseconds. The rates are those that ``docs/timing.md`` states
for the H200 and, by published figures, for the others; the timing model of the emulator, which
executes a kernel, is what decides among the few that are left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .arch import CUDA


class Rates(NamedTuple):
    """Of one architecture: flops of 16-bit tensor cores a clock and multiprocessor; bytes that L2
    gives a multiprocessor, and HBM all of them, a clock; Hz."""

    flops: float
    l2_bytes: float
    hbm_bytes: float
    clock: float


_RATES = {
    80: Rates(2048, 40, 1100, 1.41e9),
    90: Rates(4096, 60, 2500, 1.75e9),
    100: Rates(8192, 95, 4300, 1.85e9),
}
#: Clocks from asking for a tile until it is there, and those that a block begins and ends with.
_LATENCY, _OVERHEAD = 1400.0, 2500.0
#: What one warpgroup alone on a multiprocessor reaches of the tensor cores.
_ALONE = 0.7
#: Clocks of a step along K that nothing hides, and how much slower rows below 128 bytes arrive.
_STEP, _NARROW = 40.0, 1.25
#: Of what hides behind something longer, the share that shows.
_HIDDEN = 0.1
_REGISTERS_BESIDE = 48  # of a thread, besides the sums


def rates(arch: CUDA) -> Rates:
    """Returns the rates of an architecture."""
    return _RATES[max(version for version in _RATES if version <= arch.sm_version)]


class Tile(NamedTuple):
    """A tiling of a gemm: the block's tile, the step along K, stages, threads."""

    m: int
    n: int
    k: int
    stages: int
    threads: int


def shared_bytes(tile: Tile, bits: int) -> int:
    """Bytes of shared memory of the operands of ``bits`` bits."""
    return tile.stages * (tile.m + tile.n) * tile.k * bits // 8


def blocks_per_sm(arch: CUDA, tile: Tile, bits: int) -> int:
    """How many blocks a multiprocessor holds; 0 where one is too large."""
    shared = shared_bytes(tile, bits) + 1024  # of the system's
    in_registers = arch.sm_version < 100
    sums = tile.m * tile.n // tile.threads if in_registers else 0
    registers = (sums + _REGISTERS_BESIDE) * tile.threads
    if shared > arch.smem_cap or sums + _REGISTERS_BESIDE > 255:
        return 0
    if arch.sm_version >= 90:  # a warp loads, beside several warpgroups a warpgroup
        registers += _REGISTERS_BESIDE * (128 if tile.threads > 128 else 32)
    blocks = min(arch.reg_cap // registers, int(arch.target.shared_memory_per_sm) // shared, 4)
    if in_registers:
        return blocks
    columns = tile.n * -(-tile.m // 128)  # of tensor memory
    return min(blocks, int(arch.target.tmem_columns) // columns)


def gemm_seconds(
    arch: CUDA, sizes: tuple[int, int, int], tile: Tile, bits: int, out_bits: int
) -> float:
    """Returns the estimated seconds of C (M, N) = A B for ``sizes`` M, N, K.

    Infinite where a block does not fit.
    """
    resident = blocks_per_sm(arch, tile, bits)
    if resident == 0:
        return math.inf
    rate, (m, n, k) = rates(arch), sizes
    steps = -(-k // tile.k)
    blocks = -(-m // tile.m) * -(-n // tile.n)
    on_sm = -(-blocks // arch.compute_max_core)
    rows = max(tile.m, 64) if arch.sm_version >= 90 and tile.m >= 64 else tile.m

    def of_round(count: int) -> float:
        tensor = 2 * rows * tile.n * tile.k * bits / 16 / rate.flops * count
        if count * tile.threads <= 128:
            tensor /= _ALONE
        loads = (min(tile.m, m) + tile.n) * tile.k * bits / 8 / rate.l2_bytes * count
        loads *= 1.0 if tile.k * bits >= 1024 else _NARROW
        step = max(tensor, loads, _LATENCY / max(tile.stages - 1, 1)) + _STEP
        if tile.stages == 2:  # nothing arrives while the older one is given back
            step += _HIDDEN * _LATENCY
        stores = tile.m * tile.n * out_bits / 8 / rate.l2_bytes * count
        return steps * step + stores + _OVERHEAD

    rounds, rest = divmod(on_sm, resident)
    clocks = rounds * of_round(resident) + (of_round(rest) if rest else 0.0)
    memory = ((m * k + k * n) * bits / 8 + m * n * out_bits / 8) / rate.hbm_bytes
    # What memory hides is not free: of tilings that it limits, those that wait less are faster.
    return (max(clocks, memory) + _HIDDEN * min(clocks, memory)) / rate.clock


def sweep_seconds(arch: CUDA, blocks: int, bytes_of_block: float, threads: int) -> float:
    """Returns the estimated seconds of blocks that read and write so many bytes each."""
    rate = rates(arch)
    resident = max(1, min(32, 2048 // threads))
    on_sm = -(-blocks // arch.compute_max_core)
    # Each thread has some loads of 16 bytes under way; below that, latency holds the block.
    loads = bytes_of_block / (threads * 16)
    block = _LATENCY * max(1.0, loads / 8) + 16 * min(loads, 1.0)
    clocks = -(-on_sm // resident) * block
    moved = blocks * bytes_of_block
    return max(clocks, moved / rate.hbm_bytes) / rate.clock
