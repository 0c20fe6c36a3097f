"""Times functions in turns, so that the state of the chip is the same for all of them.

An H200 runs against its power limit, and what runs after a cool kernel is up to 10 % faster for
tens of milliseconds. Each function has its turn in every round, and in each turn it runs until the
chip has settled before anything is measured. Which one runs before another still makes a
difference of some percent, so rounds have random orders.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping

import torch

from tilelang.profiler import do_bench

ROUNDS = 5
#: milliseconds of one function's turn: until the chip has settled, and measured
SETTLE_MS, TURN_MS = 100, 40


def without_host(run: Callable[[], object]) -> Callable[[], object]:
    """Returns what replays ``run`` as a CUDA graph.

    Between two events there is the time of the host as well where it takes longer than to flush the
    L2 cache (60 microseconds): attention by torch takes 30 to 90 before its kernel is launched.
    """
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()  # plans are made outside of a graph
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()

    def replay(_run: Callable[[], object] = run) -> None:
        graph.replay()  # writes to tensors of ``_run``, which live as long

    return replay


def milliseconds(
    runs: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, float]:
    """Returns the median milliseconds of each function.

    Args:
        runs: the functions, which launch work on the current stream; the L2 cache is flushed
            before each call.
        rounds: how often each has its turn.
    """
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(names)
        for name in names:
            turn = do_bench(runs[name], SETTLE_MS, TURN_MS, return_mode="median")
            times[name].append(turn)
    return {name: statistics.median(turns) for name, turns in times.items()}


def tflops(runs: Mapping[str, Callable[[], object]], flops: int) -> dict[str, float]:
    """Returns the TFLOP/s of each function, of ``flops`` floating-point operations."""
    return {name: flops / (ms * 1e-3) / 1e12 for name, ms in milliseconds(runs).items()}


def fastest(runs: Mapping[str, Callable[[], object]]) -> str:
    """Returns the name of the fastest function, of candidates whose order is not reported."""
    times = milliseconds(runs, rounds=3)
    return min(times, key=lambda name: times[name])
