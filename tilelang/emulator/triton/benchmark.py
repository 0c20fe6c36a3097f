"""Predicts the times of Triton's benchmark functions with the timing model."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import triton.testing
from triton.runtime import driver as drivers

from tilelang.emulator.clock import measure, predicted_bench

_NAMES = ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton")


def rank(function: Callable[[], Any], quantiles: Sequence[float] = (0.5,), **_: Any) -> list[float]:
    """Measures a configuration for Triton's autotuner: milliseconds, one for each quantile."""
    return [measure(function, sampled=True).us / 1e3] * len(quantiles)


def _bench(
    fn: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None,
    return_mode: str = "mean", **__: Any,
) -> Any:  # fmt: skip
    """Returns a number for one quantile and a list for several, as Triton does."""
    one = quantiles is not None and len(quantiles) == 1
    time = predicted_bench(fn, None if one else quantiles)
    return [time] if return_mode == "all" and quantiles is None else time


def _stands_for(original: Callable[..., Any]) -> Callable[..., Any]:
    from .driver import EmulatedDriver

    @functools.wraps(original)
    def bench(*args: Any, **kwargs: Any) -> Any:
        emulated = isinstance(drivers._active, EmulatedDriver)
        return (_bench if emulated else original)(*args, **kwargs)

    return bench


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """Replaces Triton's measuring functions by predictions inside of the block."""
    originals = {id(found): found for name in _NAMES
                 if (found := getattr(triton.testing, name, None)) is not None
                 and not hasattr(found, "__wrapped__")}  # fmt: skip
    substitutes = {key: _stands_for(original) for key, original in originals.items()}
    changed = []
    for module in list(sys.modules.values()):
        if not originals or not isinstance(module, types.ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in originals:
                changed.append((module, name, value))
                setattr(module, name, substitutes[id(value)])
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)
