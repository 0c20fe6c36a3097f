"""Measures how long a function takes on the GPU."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from ..errors import ConfigError

ReturnMode = Literal["mean", "median", "min", "max"]

# Larger than every L2 cache, so that writing it evicts what the function left there.
_FLUSH_BYTES = 256 * 1024 * 1024
_SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}


@contextlib.contextmanager
def suppress_stdout_stderr() -> Iterator[None]:
    """Drops all output of the block, also output of native code."""
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nothing:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)
        try:
            with contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
                yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: ReturnMode = "mean",
) -> Any:
    """Measures a function with CUDA events; the L2 cache is flushed before every run.

    Args:
        fn: the function; what it launches goes to the current stream of torch.
        warmup, rep: milliseconds to spend warming up and measuring.
        _n_warmup, _n_repeat: numbers of runs instead; 0 derives them from the times.
        quantiles: in 0..1; the function then returns these quantiles instead of one number.
        fast_flush: accepted for compatibility.
        backend: ``"event"``; ``"cudagraph"`` and ``"cupti"`` are measured in the same way.
        return_mode: ``"mean"``, ``"median"``, ``"min"`` or ``"max"`` of the runs.

    Without a GPU, or with the emulator in its place (:func:`~tilelang.emulator.as_cuda`), the
    function is called once, and the time is what the timing model predicts for the kernels that it
    launches; NaN if it launches none. A warning says so.

    Returns:
        Milliseconds: a float, or a list of floats, one for each quantile.
    """
    import torch

    from ..emulator import cuda_devices
    from ..emulator.clock import predicted_bench

    if return_mode not in _SUMMARIES:
        raise ConfigError(f"unknown return_mode {return_mode!r}; one of {', '.join(_SUMMARIES)}")
    if cuda_devices.active() or not torch.cuda.is_available():
        return predicted_bench(fn, quantiles=quantiles)
    cache = torch.empty(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    fn()
    torch.cuda.synchronize()
    estimate = statistics.fmean(_measure(fn, cache, 5))
    for _ in range(_n_warmup or max(1, int(warmup / max(estimate, 1e-4)))):
        fn()
    times = _measure(fn, cache, _n_repeat or max(1, int(rep / max(estimate, 1e-4))))
    if quantiles is not None:
        return torch.tensor(times).quantile(torch.tensor(list(quantiles))).tolist()
    return _SUMMARIES[return_mode](times)


def _measure(fn: Callable[[], Any], cache: Any, count: int) -> list[float]:
    """Returns the milliseconds of each of some runs."""
    import torch

    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    for start, end in events:
        cache.zero_()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]
