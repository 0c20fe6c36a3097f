"""Levels of findings: what can go wrong on a GPU, and what only the PTX ISA forbids.

A finding *breaks* a program if hardware that follows the PTX memory model can compute wrong
numbers, hang or fault. It is a *letter* if the PTX ISA forbids the code, while every known GPU
keeps the order nevertheless. Letters are counted; they fail neither a launch nor a check.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

BREAKS, LETTER = "breaks", "letter"

#: The kinds of level *letter*, each with what keeps the order on hardware.
LETTERS = {
    "lanes-in-step": "the lanes execute the load as one instruction, which has read for all of "
    "them when one of them writes",
    "ld-before-wait": "the scoreboard of the hardware delays each use of a register until "
    "tcgen05.ld has loaded it",
    "missing-tcgen05-fence": "the two threads are synchronized, and tcgen05 operations are issued "
    "in the order of the program",
    "relaxed-order": "a thread issues its accesses to the shared memory of its own CTA in order, "
    "a proxy fence completes its writes, and an operation is over once the thread has waited "
    "for it",
    "store-at-exit": "shared memory stays until bulk stores have read it",
}


def level_of(kind: str) -> str:
    """Returns the level of a kind of finding."""
    return LETTER if kind in LETTERS else BREAKS


class Placed(Protocol):
    """A finding with the places of both accesses."""

    kind: str
    count: int

    @property
    def places(self) -> Sequence[Hashable]:
        """The places that it concerns, that of the finding itself first."""
        ...


_Placed = TypeVar("_Placed", bound=Placed)


def causes(findings: Iterable[_Placed]) -> list[list[_Placed]]:
    """Returns the findings by cause. Findings of one kind with a place in common have one cause.

    A tile that is read by 16 unrolled loads without a wait is one cause, and so is a line that
    conflicts with several others.
    """
    parents: dict[Hashable, Hashable] = {}

    def root(node: Hashable) -> Hashable:
        while parents.setdefault(node, node) != node:
            node = parents[node]
        return node

    kept = list(findings)
    for each in kept:
        first, *others = each.places
        for other in others:
            parents[root((each.kind, other))] = root((each.kind, first))
    groups: dict[Hashable, list[_Placed]] = collections.defaultdict(list)
    for each in kept:
        groups[root((each.kind, each.places[0]))].append(each)
    return list(groups.values())


def counted(findings: Iterable[Placed]) -> str:
    """Returns the kinds of findings and how often each occurs: ``"race (3 times), ..."``."""
    counts: collections.Counter[str] = collections.Counter()
    for each in findings:
        counts[each.kind] += each.count
    return ", ".join(f"{kind} ({times(n)})" for kind, n in sorted(counts.items()))


def times(count: int) -> str:
    """Returns how often, as a text."""
    return "once" if count == 1 else f"{count} times"


def summary(letters: Sequence[Placed]) -> str:
    """Returns one line about findings of level *letter*."""
    several = "s" if len(causes(letters)) > 1 else ""
    return (
        f"{len(causes(letters))} finding{several} of level letter, which the PTX ISA forbids and "
        f"known GPUs keep in order: {counted(letters)}"
    )
