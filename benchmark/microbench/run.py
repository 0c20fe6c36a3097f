"""Micro-benchmarks of a GPU for the timing model: latencies, intervals and bandwidths.

    python benchmark/microbench/run.py [--only TEXT] [--save results.json] [--list]

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

import copies
import instructions
import synchronization
import tensor_core
from machine import Gpu
from program import Probe

import memory

_FAMILIES = (instructions, memory, tensor_core, copies, synchronization)


def probes(only: str = "") -> Iterator[Probe]:
    """Those whose name contains a text."""
    for family in _FAMILIES:
        yield from (probe for probe in family.probes() if only in probe.name)


def state() -> str:
    """Name, clock and power of the GPU."""
    command = ["nvidia-smi", "--query-gpu=name,clocks.sm,clocks.mem,power.draw", "--format=csv"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--save")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(probe.name for probe in probes(options.only)))
        return
    gpu, rows = Gpu(), []
    warm = next(probe for probe in probes("132 CTAs, 4 in flight, HBM"))
    end = time.monotonic() + 2
    while time.monotonic() < end:
        gpu.measure(warm)
    before = state()
    for probe in probes(options.only):
        try:
            value = gpu.measure(probe)
        except RuntimeError as error:
            print(f"{probe.name}: {error}", flush=True)
            continue
        rows.append({"name": probe.name, "unit": probe.unit, "value": value} | probe.parameters)
        print(f"{probe.name:64} {value:10.2f} {probe.unit}", flush=True)
    if options.save:
        with open(options.save, "w") as file:
            json.dump({"before": before, "after": state(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
