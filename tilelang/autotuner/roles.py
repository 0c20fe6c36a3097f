"""Finds the meaning of a function's parameters by tracing it with other values of each.

A parameter is a tile's extent where that extent follows it and the tensors do not; its name says
nothing. What is not proved to compute the same with another tile keeps the default: a parameter
whose tiles :mod:`.same_work` tells apart, and tiles that the grid and the loops do not make up for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from .traced import NO_SIZES, TracedKernel

Trace = Callable[[Mapping[str, Any]], Any]
#: The extents of a tile.
TILES = {"m", "n", "k"}
#: A size that only the call knows is so many tiles of the default, to see whether all of it is
#: covered: no multiple of more tiles.
_ODD = 33


class Roles:
    """The parameters of a kernel that are its tiles, stages or threads.

    Args:
        trace: traces a configuration.
        defaults: default values of parameters, by name; whole numbers are looked at.
        given: arguments of the call, which stay.
        sizes: of dimensions that only calls know, by the names of their variables.

    Attributes:
        names: the parameters, by "m", "n" and "k" for extents of the tile, "stages" and "threads".
        defaults: their values.
        kernel: what the default values give.
    """

    def __init__(
        self,
        trace: Trace,
        defaults: Mapping[str, Any],
        given: Mapping[str, Any],
        sizes: Mapping[str, int] = NO_SIZES,
    ) -> None:
        self._trace = trace
        self._sizes = sizes
        self.kernel = TracedKernel(trace({}), sizes)
        #: Which extent of the tile each extent of the grid or a loop is divided by.
        self._divides: dict[int, set[str]] = {}
        #: The parameters that each of these follows.
        self._followed: dict[int, set[str]] = {}
        self.names: dict[str, str] = {}
        for name, value in defaults.items():
            if name not in given and type(value) is int and value > 0:
                self._look_at(name, value)
        found = dict.fromkeys(self.names.values())
        self.defaults = {name: defaults[name] for name in found}

    def config(self, values: Mapping[str, int]) -> dict[str, Any] | None:
        """The default configuration with values by role; None where a parameter would have two."""
        config: dict[str, Any] = {}
        for role, value in values.items():
            if config.setdefault(self.names.get(role, ""), value) != value and role in self.names:
                return None
        config.pop("", None)
        return {**self.defaults, **config}

    def covers(self, config: Mapping[str, Any]) -> bool:
        """Returns whether tiles of a configuration are all of the work that the default ones are.

        They are not where a program counts them by ``//`` and they do not divide a size.
        """
        try:
            other = TracedKernel(self._trace(config), self._sizes)
            return self._covers(other)
        except Exception:  # it cannot be traced, so that nothing is known of it
            return False

    def _covers(self, other: TracedKernel) -> bool:
        mine, theirs = self.kernel.tiles(), other.tiles()
        changed = {role for role in mine if theirs[role] != mine[role]}
        for role in changed.difference(*self._divides.values()):
            if not self._size(mine[role], mine[role]) <= theirs[role] <= mine[role]:
                return False
            if not self._is_all_of_tensors(other, mine[role], theirs[role]):
                return False
        if changed and len(other.extents) != len(self.kernel.extents):
            return False
        return all(
            self._covers_place(other, place, role)
            for place, roles in self._divides.items()
            for role in roles & changed
        )

    def _covers_place(self, other: TracedKernel, place: int, role: str) -> bool:
        """Returns whether the extent of a grid or loop makes up for another tile of a role."""
        mine, theirs = self.kernel.tiles()[role], other.tiles()[role]
        extents = self.kernel.extents[place], other.extents[place]
        unknown = _ODD * mine
        if not self.kernel.is_size(extents[0]) or not other.is_size(extents[1]):
            default = self.kernel.by_block(extents[0], unknown)
            covered = other.by_block(extents[1], unknown)
            # More than the default is other work here: nothing tells that it is masked.
            return bool(default) and [each * mine for each in default] == [
                each * theirs for each in covered
            ]
        if len(self._followed[place]) > 1:
            return False
        work = self.kernel.number(extents[0], unknown) * mine
        return other.number(extents[1], unknown) * theirs >= self._size(work, mine, unknown)

    def _is_all_of_tensors(self, other: TracedKernel, mine: int, theirs: int) -> bool:
        """Returns whether copies of a tile that nothing counts take the same part of a tensor."""
        for a, b in zip(self.kernel.work.regions, other.work.regions, strict=True):
            for size, small, large in zip(a.buffer.shape, a.extents, b.extents, strict=True):
                extents = self.kernel.number(small), other.number(large)
                size = self.kernel.number(size)
                if extents == (mine, theirs) and min(mine, size) != min(theirs, size):
                    return False
        return True

    def _size(self, covered: int, tile: int, unknown: int = 0) -> int:
        """Returns the extent to cover: that of a tensor which tiles of the default cover."""
        shapes = [extent for each in self.kernel.tensors for extent in each.shape]
        sizes = [self.kernel.number(extent, unknown) for extent in shapes]
        return max((size for size in sizes if covered - tile < size <= covered), default=covered)

    def _look_at(self, name: str, default: int) -> None:
        roles: set[str] = set()
        moved: set[int] = set()
        divides: dict[int, set[str]] = {}
        for value in (2 * default, *(default >> n for n in range(1, default.bit_length()))):
            if moved and value < default:
                break
            other = None
            with contextlib.suppress(Exception):  # the function refuses the value
                other = TracedKernel(self._trace({name: value}), self._sizes)
            if other is None or not _same(self.kernel.tensors, other.tensors):
                continue
            found = self._followers(other, default, value)
            mine, theirs = self.kernel.tiles(), other.tiles()
            tiles = {role for role in mine if mine[role] != theirs.get(role)}
            if tiles and not self.kernel.work.is_same(other.work, default, value):
                return
            if self.kernel.uses_threads and other.threads != self.kernel.threads:
                return
            roles |= found
            extents = zip(self.kernel.extents, other.extents, strict=False)
            changed = {place for place, (a, b) in enumerate(extents) if str(a) != str(b)}
            for place in changed if tiles else ():
                divides.setdefault(place, set()).update(tiles)
            moved |= changed
        for role in roles:
            self.names.setdefault(role, name)
        for place in divides if roles else ():
            self._divides.setdefault(place, set()).update(divides[place])
            self._followed.setdefault(place, set()).add(name)

    def _followers(self, other: TracedKernel, default: int, value: int) -> set[str]:
        """The roles whose number is the parameter's value in both kernels."""
        mine, theirs = self.kernel.tiles(), other.tiles()
        found = {r for r in TILES if mine.get(r) == default and theirs.get(r) == value}
        if self.kernel.threads == default and other.threads == value:
            found.add("threads")
        stages = zip(self.kernel.stages, other.stages, strict=False)
        if any(a == default and b == value for a, b in stages):
            found.add("stages")
        return found


def _same(some: list[Any], others: list[Any]) -> bool:
    """Returns whether parameters are tensors of the same shapes and types."""
    return [f"{each.shape} {each.dtype}" for each in some] == [
        f"{each.shape} {each.dtype}" for each in others
    ]
