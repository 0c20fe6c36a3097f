"""Gemms beside cuBLAS and Triton: C (M, N) = A B, of several types and storage orders.

    python benchmark/gemm.py [--cases bfloat16,NT,4096,4096,4096 int8,NT,8192,8192,8192]
                             [--json FOLDER]

A case is the type of A and B, how they are stored as BLAS names it (N as written, T transposed: of
NT, A is (M, K) and B (N, K)), M, N and K. Normal random data, the L2 cache flushed before each run,
the GPU warmed for two seconds before anything is measured (a cold chip is faster for some
milliseconds than it can be for long). Prints TFLOP/s of the median run, and its ratio to cuBLAS in
the same process. Results are checked against float64 first.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import in_turns
import result_files
import torch
from ahead import compile_ahead
from gemm_kernels import persistent_gemm, tiled_gemm
from gemm_problems import KINDS, Kind, Problem, name, random_problem

WARM_SECONDS = 2.0
#: multiprocessors of an H200
BLOCKS = 132
SQUARES = ["4096,4096,4096", "8192,8192,8192"]
SMALL = ["64,4096,4096", "128,4096,4096", "256,4096,4096", "512,4096,4096"]
CASES = [
    *(f"bfloat16,NT,{sizes}" for sizes in ["2048,2048,2048", *SQUARES, *SMALL]),
    *(f"bfloat16,{order},{sizes}" for order in ("NN", "TN", "TT") for sizes in SQUARES),
    *(f"{kind},NT,{sizes}" for kind in KINDS if kind != "bfloat16" for sizes in SQUARES),
]
#: m, n, k, threads, stages of one tile a block, where that is one wave of blocks that fills a
#: quarter of it at least
SMALL_TILES = [
    (64, 32, 64, 128, 12),
    (64, 32, 128, 128, 8),
    (64, 64, 64, 128, 10),
    (64, 64, 128, 128, 6),
    (64, 128, 64, 128, 8),
    (128, 128, 64, 256, 6),
    (128, 256, 64, 256, 3),
]


def configurations(case: str) -> list[Callable[[int, int, int], Any]]:
    """The schedules to choose from, as Triton's autotuner does: tiles, stages, one tile or more."""
    kind, order, (M, N, _) = parse(case)
    types = {
        "dtype": name(kind.dtype),
        "out_dtype": name(kind.out),
        "sums": name(kind.sums),
        "order": order,
    }
    if M * N <= BLOCKS * 128 * 256:
        tiles = [
            functools.partial(tiled_gemm, m=m, n=n, k=k, threads=threads, stages=stages, **types)
            for m, n, k, threads, stages in SMALL_TILES
            if M * N <= BLOCKS * m * n <= 4 * M * N
        ]
        if M * N > BLOCKS * 128 * 128:  # two tiles a block
            squares = {"m": 128, "n": 128, "threads": 256, "stages": 5, "group": 8, "blocks": 128}
            tiles.append(functools.partial(persistent_gemm, **squares, **types))
        return tiles
    types |= {"m": 128, "n": 256, "threads": 256}
    # A result of 32-bit elements takes the shared memory of two stages: it goes around it, or
    # through it in pieces.
    ways = [{"stages": 3}]
    if kind.out.itemsize == 4:
        ways = [{"stages": 4, "staged": False}, {"stages": 3, "staged": 64}]
    return [
        functools.partial(persistent_gemm, group=group, turning=turning, **way, **types)
        for way in ways
        for group in (8, 12)
        for turning in (False, True)
    ]


def parse(case: str) -> tuple[Kind, str, tuple[int, int, int]]:
    """The types, the order, and M, N, K of a case."""
    kind, order, *sizes = case.split(",")
    M, N, K = map(int, sizes)
    return KINDS[kind], order, (M, N, K)


def compile_all(case: str) -> None:
    """Compiles the kernels of a case."""
    for configuration in configurations(case):
        configuration(*parse(case)[2])


def best(case: str, problem: Problem) -> tuple[str, Callable[[], object]]:
    """The fastest kernel, and what it is."""
    runs = {}
    for configuration in configurations(case):
        run = functools.partial(configuration(*problem.sizes), problem.a, problem.b, problem.c)
        problem.check(run)
        sizes = [f"{key}={x}" for key, x in configuration.keywords.items() if type(x) is int]
        sizes += ["turning"] * configuration.keywords.get("turning", False)
        runs[f"{configuration.func.__name__}({', '.join(sizes)})"] = run
    label = in_turns.fastest(runs)
    return label, runs[label]


def triton_gemm() -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None] | None:
    """Returns the peer of Triton's tutorials' kind, autotuned; None where there is no Triton."""
    try:
        import gemm_triton
    except ImportError:
        return None
    return gemm_triton.matmul


def warm_up(run: Callable[[], object]) -> None:
    """Keeps the GPU busy until its clock is that of long runs."""
    end = time.monotonic() + WARM_SECONDS
    while time.monotonic() < end:
        for _ in range(20):
            run()
        torch.cuda.synchronize()


def measure(case: str, table: result_files.Table) -> None:
    """Prints the line of one case, and adds it to the table."""
    problem = random_problem(*parse(case))
    library = problem.library()
    label, ours = best(case, problem)
    runs = {"cuBLAS": library, "tilelang": ours}
    triton = triton_gemm()
    if triton is not None and case.startswith("bfloat16,NT"):
        runs["Triton"] = functools.partial(triton, problem.a, problem.b, problem.c)
    for run in runs.values():
        problem.check(run)
    speeds = in_turns.tflops(runs, problem.flops)
    line = "  ".join(f"{n} {s:6.0f} ({s / speeds['cuBLAS']:.2f})" for n, s in speeds.items())
    print(f"{case}:  {line}   {label}", flush=True)
    add_row(case, speeds, table)


def add_row(case: str, speeds: dict[str, float], table: result_files.Table) -> None:
    """Adds a row of docs/speed.md. Names that the row above has as well are left out."""
    kind, order, sizes = parse(case)
    labels = [kind.title, order, " x ".join(map(str, sizes))]
    for i in range(2):
        above = [row[i] for row in table.rows if row[i]]
        if not above or above[-1] != labels[i]:
            break
        labels[i] = ""
    base = speeds["cuBLAS"]
    ratios = [result_files.ratio(speeds[n], base) for n in ("tilelang", "Triton") if n in speeds]
    table.add(*labels, f"{base:.0f}", *ratios)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=CASES)
    result_files.add_option(parser)
    options = parser.parse_args()
    compile_ahead(compile_all, options.cases)
    torch.backends.cuda.matmul.allow_tf32 = True
    print(f"{torch.cuda.get_device_name()}, TFLOP/s (x cuBLAS)")
    warm_up(random_problem(*parse("bfloat16,NT,8192,8192,8192")).library())
    columns = ("types", "stored", "M x N x K", "cuBLAS", "this compiler", "Triton")
    table = result_files.Table("gemm", columns)
    for case in options.cases:
        measure(case, table)
    table.save(options.json)


if __name__ == "__main__":
    main()
