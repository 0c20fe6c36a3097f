"""Chooses the few tilings of a template that the timing model times.

A candidate takes some tenths of a second to compile and to time, and the estimate of the template
is off by more than what many of them differ by. Those that differ from a better one only in what
the estimate knows well come last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..carver.estimate import Tile
from ..carver.template import MatmulTemplate, Template
from ..language import dtype as as_dtype
from .traced import TracedKernel

#: How many tilings are timed beside the default, where the estimate is good.
FEW = 2
#: Of attention, which takes longest to compile and whose estimate is made for it.
_OF_ATTENTION = 1
#: Bytes of the rows that TMA swizzles: of the steps of a product that many load best.
_ROW = 128
#: So many times the best estimate is slower by the model, too.
_SLOWER = 2
#: Estimates that differ by less are equal.
_EQUAL = 1.02


class Tiling(NamedTuple):
    """Values by role that a hint stands for, and its seconds."""

    values: dict[str, int]
    seconds: float


def estimate_suffices(kernel: TracedKernel) -> bool:
    """Returns whether the estimate knows enough of a kernel that a few tilings need to be timed.

    Of products whose operands threads compute it does not: what that takes decides.
    """
    return len(kernel.gemms) != 1 or kernel.copies_operands


def count(kernel: TracedKernel) -> int:
    """Returns how many tilings are timed beside the default."""
    return _OF_ATTENTION if len(kernel.gemms) > 1 else FEW


def is_slow(kernel: TracedKernel, template: Template | None, tilings: Sequence[Tiling]) -> bool:
    """Whether the estimate of the default tile of a product leaves no doubt that it is slower."""
    if not isinstance(template, MatmulTemplate) or not tilings or not kernel.stages:
        return False
    tile = Tile(**kernel.tiles(), stages=kernel.stages[0], threads=kernel.threads)
    return template.seconds(tile) > _SLOWER * min(each.seconds for each in tilings)


def few_first(tilings: Sequence[Tiling], kernel: TracedKernel) -> list[Tiling]:
    """Returns tilings, best first by the estimate, so that the ones to be timed come first."""
    if len(kernel.gemms) == 1:
        return _by_area(tilings, str(kernel.gemms[0].operands[0].region.buffer.dtype))
    if kernel.gemms or kernel.transposes:
        return list(tilings)
    # Of other sweeps small tiles leave room for more blocks, and more threads have fewer registers.
    least = min((each.seconds for each in tilings), default=0.0)
    return sorted(
        tilings,
        key=lambda each: (
            int(math.log(each.seconds / least, _EQUAL)),
            _area(each, ("m", "n", "k")),
            -each.values.get("threads", 0),
        ),
    )


def _by_area(tilings: Sequence[Tiling], dtype: str) -> list[Tiling]:
    """The best tiling of each size of the result's tile first, with steps of one swizzled row."""
    step = _ROW * 8 // int(as_dtype(dtype).bits)
    best: dict[int, Tiling] = {}
    for each in sorted(tilings, key=lambda each: each.values.get("k", step) != step):
        best.setdefault(_area(each, ("m", "n")), each)
    return sorted(tilings, key=lambda each: each is not best[_area(each, ("m", "n"))])


def _area(tiling: Tiling, roles: Sequence[str]) -> int:
    return math.prod(tiling.values.get(role, 1) for role in roles)
