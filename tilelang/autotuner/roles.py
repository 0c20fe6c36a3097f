"""What the parameters of a function stand for: found by tracing it with other values of each.

A parameter is a tile's extent where that extent follows it and the tensors do not; its name says
nothing. Where neither the grid nor a loop makes up for another tile, or makes up for a part of it
only, the program computes something else with it: such tiles are left out.
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
        """Whether tiles of a configuration are all of the work that the default ones are.

        They are not where a program counts them by ``//`` and they do not divide a size.
        """
        try:
            other = TracedKernel(self._trace(config), self._sizes)
        except Exception:  # the search tells what is wrong with it
            return True
        mine, theirs = self.kernel.tiles(), other.tiles()
        for role in set(mine).difference(*self._divides.values()):
            if not self._size(mine[role], mine[role]) <= theirs[role] <= mine[role]:
                return False
        for place, roles in self._divides.items():
            if len(roles) > 1 or len(other.extents) != len(self.kernel.extents):
                continue
            (role,) = roles
            unknown = _ODD * mine[role]
            default = self.kernel.number(self.kernel.extents[place], unknown) * mine[role]
            covered = other.number(other.extents[place], unknown) * theirs[role]
            if covered < self._size(default, mine[role], unknown):
                return False
        return True

    def _size(self, covered: int, tile: int, unknown: int = 0) -> int:
        """What has to be covered: the extent of a tensor that tiles of the default do."""
        shapes = [extent for each in self.kernel.tensors for extent in each.shape]
        sizes = [self.kernel.number(extent, unknown) for extent in shapes]
        return max((size for size in sizes if covered - tile < size <= covered), default=covered)

    def _look_at(self, name: str, default: int) -> None:
        roles: set[str] = set()
        moved: set[int] = set()
        for value in (2 * default, *(default >> n for n in range(1, default.bit_length()))):
            if moved and value < default:
                break
            other = None
            with contextlib.suppress(Exception):  # the function refuses the value
                other = TracedKernel(self._trace({name: value}), self._sizes)
            if other is None or not _same(self.kernel.tensors, other.tensors):
                continue
            roles |= self._followers(other, default, value)
            extents = zip(self.kernel.extents, other.extents, strict=False)
            changed = {place for place, (a, b) in enumerate(extents) if str(a) != str(b)}
            mine, theirs = self.kernel.tiles(), other.tiles()
            tiles = {role for role in mine if mine[role] != theirs.get(role)}
            for place in changed if tiles else ():
                self._divides.setdefault(place, set()).update(tiles)
            moved |= changed
        if self.kernel.uses_threads and not moved:
            roles.discard("threads")
        for role in roles:
            self.names.setdefault(role, name)

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
    """Whether parameters are tensors of the same shapes and types."""
    return [f"{each.shape} {each.dtype}" for each in some] == [
        f"{each.shape} {each.dtype}" for each in others
    ]
