"""GEMMs as a user first writes them beside cuBLAS: C (M, N) = A (M, K) B (K, N) in bfloat16.

    python benchmark/defaults.py [--shapes 4096,14336,4096 ...] [--threads 128 256] [--hand]
                                 [--few] [--of-call] [--examples] [--json FOLDER]

The kernel is README's: tiles of 128 x 128 x 64, three stages, nothing about the order of blocks or
the way of results. "plain" is compiled as it is, "as written" without what the compiler adds; the
last row is ``examples/gemm/gemm.py``, which chooses its tiles. Rows of the
table are kernels, columns shapes; a number is the time of the library over that of the kernel, from
medians of runs in turns in one process (``benchmark/in_turns.py``), and cuBLAS' row is in TFLOP/s.
``--hand`` adds what an expert would write by hand: panels of blocks, results through shared memory,
other numbers of stages.

``--of-call`` has the plain kernel with extents that only the call knows instead, and shapes of its
own; ``--few`` takes shapes of few rows or small results, ``--examples`` prints a table of examples
with their defaults instead (``benchmark/defaults_examples.py``).

Rules of the compiler, as its estimate of tiles, are made on the shapes of one list; those of the
other are held back: chosen or drawn before a rule is, and measured when it stands. The means of
both stand at the end of a row.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import random
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import defaults_examples
import in_turns
import result_files
import torch
from ahead import compile_ahead
from gemm_kernels import tiled_gemm
from gemm_problems import KINDS, random_problem

import tilelang
import tilelang.language as T
from tilelang.transform import PassContext

#: that rules are made on, of all kinds: large, thin, short and long K, sizes that no tile divides
CHOSEN = sorted(
    [
        (1024, 8192, 4096),
        (1536, 9216, 6144),
        (2048, 2048, 2048),
        (2560, 7680, 2560),
        (3072, 5120, 4096),
        (4096, 4096, 512),
        (4096, 4096, 4096),
        (4096, 14336, 4096),
        (5000, 3000, 2000),
        (6144, 4096, 1536),
        (7000, 2000, 3000),
        (8192, 1024, 8192),
        (8192, 8192, 8192),
        (12288, 1536, 768),
        (16384, 2048, 1024),
        (5968, 2360, 1208),  # drawn; for pairs of blocks that load together
    ]
)


def drawn(count: int, seed: int) -> list[tuple[int, int, int]]:
    """Draws sizes evenly by their logarithms, in turns multiples of 128 and of 8."""
    draw = random.Random(seed)

    def size(least: int, most: int, multiple: int) -> int:
        value = math.exp(draw.uniform(math.log(least), math.log(most)))
        return max(1, round(value / multiple)) * multiple

    return [
        (size(1024, 16384, m), size(1024, 16384, m), size(512, 8192, m))
        for m in itertools.islice(itertools.cycle((128, 8)), count)
    ]


#: Who makes a rule on one of these moves it above, and draws by another seed.
HELD_BACK = sorted(
    {(2304, 6912, 1152), (3584, 8192, 3072), (10240, 4096, 640), *drawn(count=8, seed=33)}
    - {*CHOSEN}
)
#: of rows that are no whole lines of L2: pairs of blocks that load together are not made on these
HELD_BACK += [(2177, 4096, 4096), (3000, 2500, 1500), (3333, 4088, 2056)]
HELD_BACK += [(4100, 5000, 1000), (6600, 1720, 2200), (9000, 1160, 3016)]
SHAPES = [*CHOSEN, *HELD_BACK]
FEW = [(m, n, k) for m in (1, 8, 16, 32) for n, k in ((14336, 4096), (4096, 14336))]
FEW += [(100, 2048, 8192), (512, 2048, 8192), (1024, 1024, 4096), (16, 1024, 4096)]
FEW += [(m, 4096, 4096) for m in (128, 256, 300, 384, 600)] + [(192, 6144, 4096), (400, 8192, 4096)]
FEW += [(160, 8192, 4096)]
#: tiles that divide the rows evenly, and blocks that share K, are not made on these
FEW_HELD_BACK = [(72, 8192, 3072), (257, 5120, 5120)]
FEW_HELD_BACK += [(352, 6144, 2048), (448, 3072, 8192), (576, 11008, 4096)]
#: of ``--of-call``: classes of rows, and rows that are not on 16 bytes
CALLS = [(16, 4096, 4096), (64, 14336, 4096), (128, 4096, 4096), (180, 4096, 4096)]
CALLS += [(300, 4096, 4096), (512, 2048, 8192), (600, 4096, 4096), (1000, 4096, 4096)]
CALLS += [(2100, 6144, 2560), (4096, 4096, 4096), (5000, 4096, 4096), (7000, 3072, 4096)]
CALLS_HELD_BACK = [(12, 2048, 8192), (90, 5120, 3072), (1025, 1027, 2049)]
HELD = {*HELD_BACK, *FEW_HELD_BACK, *CALLS_HELD_BACK}
PLAIN = {"m": 128, "n": 128, "stages": 3, "panel": 0, "staged": False, "order": "NN"}
EXAMPLE, TARGET = "examples/gemm", "sm_90a"
#: without what the compiler adds
AS_WRITTEN = {
    "tl.disable_block_fitting": True,
    "tl.disable_block_order": True,
    "tl.disable_launch_versions": True,
    "tl.disable_load_trimming": True,
    "tl.disable_persistent_blocks": True,
    "tl.disable_result_staging": True,
    "tl.disable_row_realignment": True,
    "tl.disable_tile_widening": True,
}
#: what the options of an expert add to the plain kernel
BY_HAND: dict[str, dict[str, Any]] = {
    "panels": {"panel": 8},
    "staged": {"staged": True},
    "panels, staged": {"panel": 8, "staged": True},
    "panels, staged, 2 stages": {"panel": 8, "staged": True, "stages": 2},
    "panels, staged, 5 stages": {"panel": 8, "staged": True, "stages": 5},
}

#: the plain kernel with extents that are known at the call only, and M with one kernel for all
OF_CALL = {"M of the call": "M", "M and N of the call": "MN", "all of the call": "MNK"}
ONE_FOR_ALL = "M of the call, one kernel"

Shape = tuple[int, int, int]
Job = tuple[Shape, int, str]


def example(shape: Shape) -> Any:
    """Compiles the kernel that ``examples/gemm/gemm.py`` runs for a shape."""
    script = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "gemm" / "gemm.py"))
    sizes = *shape, "bfloat16"
    return tilelang.compile(script["gemm"](*sizes, **script["tiles"](*sizes, TARGET)))


def kernel(job: Job) -> Any:
    """Compiles the kernel of a row for a shape."""
    shape, threads, name = job
    if name == EXAMPLE:
        return example(shape)
    config: dict[str, Any] = {} if name == "plain" or name in OF_CALL else AS_WRITTEN
    config = {"tl.disable_launch_versions": True} if name == ONE_FOR_ALL else config
    unknown = OF_CALL.get(name, "M" if name == ONE_FOR_ALL else "")
    sizes = [T.dynamic(d) if d in unknown else n for d, n in zip("MNK", shape, strict=True)]
    with PassContext(config=config):
        return tiled_gemm(*sizes, **{**PLAIN, **BY_HAND.get(name, {})}, threads=threads)


def rows(threads: list[int], hand: bool, of_call: bool) -> list[tuple[int, str]]:
    """The kernels: threads of a block, and what is written by hand."""
    names = ["plain", "as written", *(BY_HAND if hand else [])]
    if of_call:
        names = ["plain", *OF_CALL, ONE_FOR_ALL]
    return [*itertools.product(threads, names), (256, EXAMPLE)]


def measured(shape: Shape, kernels: list[tuple[int, str]], rounds: int) -> dict[str, float]:
    """Returns the milliseconds of cuBLAS and of each kernel, after checking the results."""
    problem = random_problem(KINDS["bfloat16"], "NN", shape)
    runs: dict[str, Callable[[], object]] = {"cuBLAS": problem.library()}
    for threads, name in kernels:
        run = functools.partial(kernel((shape, threads, name)), problem.a, problem.b, problem.c)
        runs[name if name == EXAMPLE else f"{threads} threads, {name}"] = run
    for check in runs.values():
        problem.check(check)
    return in_turns.milliseconds(runs, rounds)


def mean(ratios: list[float]) -> str:
    """The geometric mean of some numbers; a dash where there are none."""
    if not ratios:
        return "-"
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}"


def table_of(name: str, shapes: list[Shape], times: list[dict[str, float]]) -> result_files.Table:
    """Returns the table with a row for each shape, and rows of means."""
    kernels = list(times[0])[1:]
    table = result_files.Table(name, ("M x N x K", "cuBLAS, TFLOP/s", *kernels))
    ratios = [[t["cuBLAS"] / t[kernel] for kernel in kernels] for t in times]
    for shape, t, row in zip(shapes, times, ratios, strict=True):
        speed = 2 * math.prod(shape) / (t["cuBLAS"] * 1e9)
        title = " x ".join(map(str, shape)) + " (held back)" * (shape in HELD)
        table.add(title, f"{speed:.0f}", *(f"{ratio:.2f}" for ratio in row))
    for title, held in (("chosen", False), ("held back", True)):
        of_half = [row for s, row in zip(shapes, ratios, strict=True) if (s in HELD) == held]
        means = [mean([row[i] for row in of_half]) for i in range(len(kernels))]
        table.add(f"geometric mean, {title}", "", *means)
    return table


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=[])
    parser.add_argument("--threads", nargs="*", type=int, default=[128, 256])
    parser.add_argument("--hand", action="store_true")
    parser.add_argument("--of-call", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--rounds", type=int, default=in_turns.ROUNDS)
    result_files.add_option(parser)
    options = parser.parse_args()
    if options.examples:
        defaults_examples.table(options.rounds, options.json)
        return
    shapes: list[Shape] = [tuple(map(int, s.split(","))) for s in options.shapes]  # type: ignore[misc]
    listed = [*FEW, *FEW_HELD_BACK] if options.few else SHAPES
    shapes = shapes or ([*CALLS, *CALLS_HELD_BACK] if options.of_call else listed)
    kernels = rows(options.threads, options.hand, options.of_call)
    compile_ahead(kernel, [(shape, *row) for shape in shapes for row in kernels])
    print(f"{torch.cuda.get_device_name()}; M, N, K: {'; '.join(map(str, shapes))}")
    times = [measured(shape, kernels, options.rounds) for shape in shapes]
    speeds = [2 * math.prod(s) / (t["cuBLAS"] * 1e9) for s, t in zip(shapes, times, strict=True)]
    print(f"{'cuBLAS, TFLOP/s':44}", "  ".join(f"{speed:5.0f}" for speed in speeds))
    for name in list(times[0])[1:]:
        ratios = [t["cuBLAS"] / t[name] for t in times]
        halves = [
            mean([r for s, r in zip(shapes, ratios, strict=True) if (s in HELD) == held])
            for held in (False, True)
        ]
        line = "  ".join(f"{ratio:5.2f}" for ratio in ratios)
        print(f"{name:44} {line}   chosen {halves[0]}, held back {halves[1]}", flush=True)
    file = "dynamic_sizes" if options.of_call else "few_rows" if options.few else "plain_gemm"
    table_of(file, shapes, times).save(options.json)


if __name__ == "__main__":
    main()
