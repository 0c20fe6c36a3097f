"""A simple cost model of the steps of a schedule: it tells which engine limits a loop.

Each step occupies engines for its work divided by the rate of an SM, one block on the SM. The
engine with most cycles an iteration limits the loop: no order of its operators makes an iteration
shorter. Latencies, bank conflicts, instruction issue, other blocks and the order itself are not
modelled, so a kernel takes at least so long, and mostly longer.

* ``tensor``: 2 M N K of a gemm, by the bits of its operands.
* ``mufu``: exponentials, logarithms, roots, reciprocals; a division counts as one.
* ``fp32``: other floating-point operations, conversions, elements of reductions.
* ``load``, ``store``: bytes from and to global memory, at the rate at which an SM gets them from
  the L2 cache: tiles are mostly read by several blocks.
* ``tmem``: bytes between tensor memory and registers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .. import _ffi
from .description import Step


@dataclass(frozen=True)
class Rates:
    """Units of work that one SM does in a cycle: the figures of the timing model.

    Attributes:
        tensor: floating-point operations of a gemm, by the bits of its operands.
        mufu, fp32: operations.
        l2: bytes between the SM and the L2 cache, when all SMs load.
        tmem: bytes between tensor memory and registers.
        latency: cycles until a load from global memory arrives, beyond the cycles of its bytes.
        mhz: boost clock.
    """

    tensor: dict[int, float]
    mufu: float
    fp32: float
    l2: float
    tmem: float
    latency: float
    mhz: float


def _rates(arch: str) -> Rates:
    """The table of src/emulator/timing, which names the source of each figure."""
    f: dict[str, float] = json.loads(_ffi.get("emulator.Figures")(arch))
    # K of an instruction is 32 bytes of any type.
    tensor = {bits: f["tensor"] * 16 / bits for bits in (8, 16, 32)}
    return Rates(tensor, f["special"], f["float"], f["l2"], f["tensor_memory"], f["latency"],
                 f["clock"])  # fmt: skip


RATES: dict[str, Rates] = {arch: _rates(arch) for arch in _ffi.get("emulator.TimedArchitectures")()}


class Engine(NamedTuple):
    """A part of an SM, and the cycles that some work occupies it."""

    name: str
    cycles: float


def engines(step: Step, rates: Rates) -> list[Engine]:
    """Returns the engines that one execution of a step, without its body, occupies."""
    work = step.work
    found = []
    if "flops" in work:
        rate = rates.tensor.get(work.get("bits", 16), rates.tensor[16])
        found.append(Engine("tensor", work["flops"] / rate))
    for name in ("mufu", "fp32"):
        if name in work:
            found.append(Engine(name, work[name] / getattr(rates, name)))
    if "tmem" in work and rates.tmem:
        found.append(Engine("tmem", work["tmem"] / rates.tmem))
    if "global" in work:
        name = "store" if step.action == "store" else "load"
        found.append(Engine(name, work["global"] / rates.l2))
    return found


def busiest(step: Step, rates: Rates) -> Engine:
    """Returns the engine that one execution of a step occupies longest."""
    return max(engines(step, rates), key=lambda engine: engine.cycles, default=Engine("", 0.0))


def occupancy(steps: Iterable[Step], rates: Rates) -> dict[str, float]:
    """Returns the cycles of each engine for some steps, the longest first.

    Loops count as often as they run, once if that is not constant; branches as if taken.
    """
    total: dict[str, float] = {}
    for step in steps:
        for name, cycles in engines(step, rates):
            total[name] = total.get(name, 0.0) + cycles
        times = max(step.trips, 1) if step.action == "loop" else 1
        for name, cycles in occupancy(step.body, rates).items():
            total[name] = total.get(name, 0.0) + times * cycles
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))
