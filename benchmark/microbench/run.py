"""Micro-benchmarks of a GPU for the timing model: latencies, intervals and bandwidths.

    python benchmark/microbench/run.py [--only TEXT] [--save results.json] [--list] [--emulated]

Prints each value with its unit; ``--save`` keeps them with the name of the GPU and its clock. The
GPU is warmed for two seconds; every value is the median of three runs, of which each has its own
warm-up. docs/timing.md has the table of one H200.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator

import after_copies
import copies
import dealt
import instructions
import latency_at_clocks
import power
import sharing
import synchronization
import tensor_core
import together
import under_load
from machine import Emulated, Gpu
from program import Probe

import memory
from tilelang.errors import TileLangError

_FAMILIES = (instructions, memory, tensor_core, copies, synchronization, together, under_load,
             after_copies, sharing, power, latency_at_clocks, dealt)  # fmt: skip


def probes(only: str = "") -> Iterator[Probe]:
    """Those whose name contains a text."""
    for family in _FAMILIES:
        yield from (probe for probe in family.probes() if only in probe.name)


def state() -> str:
    """Name, clock and power of the GPU."""
    command = ["nvidia-smi", "--query-gpu=name,clocks.sm,clocks.mem,power.draw", "--format=csv"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def warmed() -> Gpu:
    """The GPU, busy for two seconds before."""
    gpu, end = Gpu(), time.monotonic() + 2
    warm = next(probe for probe in probes("132 CTAs, 4 in flight, HBM"))
    while time.monotonic() < end:
        gpu.measure(warm)
    return gpu


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--save")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--emulated", action="store_true", help="by the model; needs no GPU")
    options = parser.parse_args()
    if options.list:
        print("\n".join(probe.name for probe in probes(options.only)))
        return
    machine, rows = Emulated() if options.emulated else warmed(), []
    before = "" if options.emulated else state()
    for probe in probes(options.only):
        try:
            value = machine.measure(probe)
        except (RuntimeError, TileLangError) as error:
            print(f"{probe.name}: {error}", flush=True)
            continue
        rows.append({"name": probe.name, "unit": probe.unit, "value": value} | probe.parameters)
        print(f"{probe.name:64} {value:10.2f} {probe.unit}", flush=True)
    if options.save:
        with open(options.save, "w") as file:
            after = "" if options.emulated else state()
            json.dump({"before": before, "after": after, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
