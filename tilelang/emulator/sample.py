"""Launches of which only some blocks run, or are checked: ``options(blocks="sample")``."""

from __future__ import annotations

import dataclasses
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tilelang.errors import user_level

from .errors import EmulatorWarning

if TYPE_CHECKING:
    from .device import LaunchReport

#: Clusters of a sample: corners of the grid, and others at random.
USUAL = 16
_SHOWN = 8


def sampled(grid: Sequence[int], cluster: Sequence[int], count: int) -> list[int] | None:
    """Returns the clusters that run, by their number in the grid, x fastest; None for all.

    The corners of the grid are among them, where tiles are ragged, as far as ``count`` reaches; the
    others are random, the same for every launch of a grid.

    Args:
        grid, cluster: three extents in CTAs, x first.
        count: how many.
    """
    extents = [g // c for g, c in zip(grid, cluster, strict=True)]
    total = prod(extents)
    if total <= count:
        return None
    corners = itertools.product(*(dict.fromkeys((0, extent - 1)) for extent in reversed(extents)))
    numbers = [(z * extents[1] + y) * extents[0] + x for z, y, x in corners]
    chosen = dict.fromkeys(numbers[:count])
    generator = random.Random(total)
    while len(chosen) < count:
        chosen[generator.randrange(total)] = None
    return sorted(chosen)


def others(grid: Sequence[int], cluster: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """Returns the numbers of the clusters that are not among ``chosen``."""
    total = prod(g // c for g, c in zip(grid, cluster, strict=True))
    return sorted(set(range(total)).difference(chosen))


def warn(name: str, grid: Sequence[int], cluster: Sequence[int], chosen: Any, rest: str) -> None:
    """Warns which blocks of a launch were checked, and whether the others ran."""
    size = prod(cluster)
    extents = [g // c for g, c in zip(grid, cluster, strict=True)]
    first = [_first_block(number, extents, cluster) for number in chosen[:_SHOWN]]
    more = f" and {len(chosen) - _SHOWN} more" if len(chosen) > _SHOWN else ""
    what = "ran and were checked" if rest == "skip" else "were checked"
    fate = (
        "the others did not run: what they write is left as it was, NaN or -1 in tensors that the "
        "call allocates"
        if rest == "skip"
        else "the others ran without the sanitizer"
    )
    clusters = "" if size == 1 else f", in clusters of {size} that begin there"
    warnings.warn(
        f"{name}: {len(chosen) * size} of {prod(grid)} blocks {what}: "
        f"{', '.join(map(str, first))}{more}{clusters}; {fate}",
        EmulatorWarning,
        stacklevel=user_level(),
    )


def warn_communicates(name: str) -> None:
    """Says that no sample can stand for the blocks."""
    warnings.warn(
        f"{name}: all blocks ran: they exchange values through global memory, which a sample of "
        "them would wait for",
        EmulatorWarning,
        stacklevel=user_level(),
    )


def _first_block(number: int, extents: Sequence[int], cluster: Sequence[int]) -> tuple[int, ...]:
    place = []
    for extent, size in zip(extents, cluster, strict=True):
        place.append(number % extent * size)
        number //= extent
    return tuple(place)


def joined(first: LaunchReport, second: LaunchReport) -> LaunchReport:
    """Returns the report of two launches that share the blocks of a grid."""
    by_class = dict(first.by_class)
    for kind, count in second.by_class.items():
        mine = by_class.get(kind)
        by_class[kind] = count if mine is None else _sum(mine, count)
    return dataclasses.replace(
        first,
        instructions=first.instructions + second.instructions,
        lane_instructions=first.lane_instructions + second.lane_instructions,
        seconds=first.seconds + second.seconds,
        by_class=by_class,
        output=first.output + second.output,
        warnings=[*first.warnings, *second.warnings],
        findings=[*first.findings, *second.findings],
        letters=[*first.letters, *second.letters],
        waived=dict(Counter(first.waived) + Counter(second.waived)),
    )


def _sum(one: Any, other: Any) -> Any:
    names = [each.name for each in dataclasses.fields(one)]
    return type(one)(**{name: getattr(one, name) + getattr(other, name) for name in names})


__all__ = ["USUAL", "joined", "others", "sampled", "warn", "warn_communicates"]
