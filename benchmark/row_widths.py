"""Softmax and LayerNorm of rows of twelve widths: the kernels of examples/ beside their peers.

    python benchmark/row_widths.py [--all | --drawn SEED] [--kernels softmax layer_norm]
                                   [--rounds 3] [--json FOLDER]

Prints the median microseconds of bfloat16 matrices of 256 MB (L2 flushed, functions in turns, see
in_turns.py) and the ratio to the fastest of torch, torch.compile and Triton. Results are checked
against float64 first. Only the widths that row_widths.txt has for tuning, unless --all; or twelve
widths from 1 to 70,000 that a seed draws, evenly by their logarithms.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import in_turns
import normalization
import result_files
import row_kernels
import torch

import tilelang

#: kernels by their names in docs/speed.md
TITLES = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm"}
HERE = Path(__file__).parent
EXAMPLES = {"softmax": "softmax", "layer_norm": "norm", "rms_norm": "norm"}
ELEMENTS = 2**27
#: columns that a block has in its registers
LONGEST = 2**14
#: columns of which a program of Triton has a row in registers
TRITON_MOST = 65536


def widths(everything: bool) -> list[int]:
    """Returns the columns of the table."""
    lines = [line.split() for line in (HERE / "row_widths.txt").read_text().splitlines()]
    return [int(w[0]) for w in lines if w[0] != "#" and (everything or w[1:] == ["tune"])]


def drawn(seed: int, count: int = 12, most: int = 70_000) -> list[int]:
    """Returns different widths from 1 to ``most``, drawn evenly by their logarithms, in order."""
    draw = random.Random(seed)
    widths: set[int] = set()
    while len(widths) < count:
        widths.add(round(math.exp(draw.uniform(0, math.log(most)))))
    return sorted(widths)


def own(name: str, rows: int, columns: int) -> Callable[..., Any]:
    """Returns the kernel of an example, as a function of the inputs."""
    sys.path.insert(0, str(HERE.parent / "examples" / EXAMPLES[name]))
    function = getattr(__import__(name), name)
    kernel = tilelang.compile(function(rows, columns, "bfloat16"), out_idx=[-1])
    if name != "rms_norm" and columns > LONGEST:  # take flat tensors
        return lambda x, *rest: kernel(x.view(-1), *rest).view(x.shape)
    return lambda *args: kernel(*args)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="the widths that are held back as well")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="widths that a seed draws")
    parser.add_argument("--kernels", nargs="*", default=["softmax", "layer_norm"])
    parser.add_argument("--rounds", type=int, default=3)
    result_files.add_option(parser)
    options = parser.parse_args()
    chosen = widths(options.all) if options.drawn is None else drawn(options.drawn)
    triton = normalization.triton_kernels()
    print(f"{torch.cuda.get_device_name()}, bfloat16, {2 * ELEMENTS >> 20} MB, microseconds")
    cells: dict[int, list[str]] = {columns: [] for columns in chosen}
    for name in options.kernels:
        formula = row_kernels.references()[name]
        for columns in chosen:
            rows = ELEMENTS // columns
            args = normalization.arguments(name, rows, columns)
            torch._dynamo.reset()
            runs = {"tilelang": own(name, rows, columns), "torch": formula}
            runs["compile"] = torch.compile(formula, dynamic=False)
            if name in triton and columns <= TRITON_MOST:
                runs["Triton"] = triton[name]
            normalization.check(name, runs["tilelang"], args)
            calls = {n: functools.partial(run, *args) for n, run in runs.items()}
            times = in_turns.milliseconds(calls, rounds=options.rounds)
            best = min((n for n in times if n != "tilelang"), key=lambda n: times[n])
            line = "".join(f"  {n} {1e3 * ms:.1f}" for n, ms in times.items())
            ratio = times[best] / times["tilelang"]
            print(f"{name} {rows} x {columns}:{line}  {ratio:.2f} of {best}", flush=True)
            cells[columns] += [f"{1e3 * times['tilelang']:.1f}", f"{ratio:.2f}"]
    names = [heading for name in options.kernels for heading in (TITLES.get(name, name), "")]
    file = "row_widths" if options.drawn is None else "row_widths_drawn"
    table = result_files.Table(file, ("columns", *names))
    for columns in chosen:
        table.add(str(columns), *cells[columns])
    table.save(options.json)


if __name__ == "__main__":
    main()
