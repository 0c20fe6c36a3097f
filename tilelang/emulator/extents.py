"""The extents of a launch: limits of the kernel, and clusters of two sizes."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any

from tilelang.emulator.numbers import integer
from tilelang.errors import UserError

if TYPE_CHECKING:
    from tilelang.emulator.device import Kernel

# Dynamic plus static shared memory of a CTA, in bytes (CUDA programming guide, technical
# specifications per compute capability).
_SHARED_LIMIT = {
    "sm_80": 166912, "sm_90a": 232448, "sm_100a": 232448, "sm_103a": 232448, "sm_120a": 101376,
    "sm_121a": 101376,
}  # fmt: skip
_MAX_THREADS = 1024
# Extents of a grid and of a block along x, y, z (the same tables).
_MAX_EXTENTS = {"grid": (2**31 - 1, 65535, 65535), "block": (1024, 1024, 64)}
_NO_LIMIT = (2**31 - 1,) * 3
_MOST_CTAS = 16  # of a cluster


class Extents:
    """Checked extents of a launch.

    Attributes:
        grid, block, cluster: three extents each, x first; ``flat`` has all.
        preferred: of the clusters that the launch would rather have, or None.
    """

    def __init__(
        self, kernel: Kernel, grid: Any, block: Any, cluster: Any, preferred: Any, smem: int
    ) -> None:
        self.grid, self.block = _extents("grid", grid), _extents("block", block)
        self.explicit_cluster = cluster is not None or bool(kernel.cluster)
        chosen = cluster if cluster is not None else (kernel.cluster or 1)
        self.cluster = _extents("cluster", chosen)
        self.flat = [*self.grid, *self.block, *self.cluster]
        self.preferred = None if preferred is None else _extents("preferred_cluster", preferred)
        self._check(kernel, smem)
        if self.preferred is not None:
            self._check_preferred(kernel, self.preferred)

    def _check(self, kernel: Kernel, smem: int) -> None:
        threads = prod(self.block)
        if threads > _MAX_THREADS:
            raise UserError(f"a block of {threads} threads; the limit is {_MAX_THREADS}")
        if kernel.reqntid and self.block != _extents("reqntid", kernel.reqntid):
            raise UserError(
                f"kernel {kernel.name} requires blocks of {kernel.reqntid} threads (.reqntid), "
                f"got {self.block}"
            )
        if kernel.maxntid and threads > prod(kernel.maxntid):
            raise UserError(
                f"kernel {kernel.name} allows at most {prod(kernel.maxntid)} threads "
                f"(.maxntid), got {threads}"
            )
        if kernel.cluster and self.cluster != _extents("cluster", kernel.cluster):
            raise UserError(
                f"kernel {kernel.name} requires clusters of {kernel.cluster} CTAs, "
                f"got {self.cluster}"
            )
        if any(g % c for g, c in zip(self.grid, self.cluster, strict=True)):
            raise UserError(f"the grid {self.grid} is no multiple of the cluster {self.cluster}")
        if prod(self.cluster) > _MOST_CTAS:
            raise UserError(f"a cluster of {prod(self.cluster)} CTAs; the limit is {_MOST_CTAS}")
        limit = _SHARED_LIMIT[kernel.module.device.arch]
        if smem + kernel.static_shared > limit:
            raise UserError(
                f"{smem} bytes of dynamic and {kernel.static_shared} of static shared memory; "
                f"the limit is {limit}"
            )

    def _check_preferred(self, kernel: Kernel, preferred: tuple[int, int, int]) -> None:
        if kernel.cluster:
            raise UserError(f"kernel {kernel.name} has clusters of one size: {kernel.cluster}")
        if any(p % c for p, c in zip(preferred, self.cluster, strict=True)):
            raise UserError(
                f"the preferred cluster {preferred} is no multiple of the cluster {self.cluster}"
            )
        if prod(preferred) > _MOST_CTAS:
            raise UserError(
                f"a preferred cluster of {prod(preferred)} CTAs; the limit is {_MOST_CTAS}"
            )

    def parts(self, schedule: str | int, together: bool) -> list[tuple[Extents, list[int]]]:
        """Returns the launches that make up this one, each with the numbers of its clusters.

        A GPU takes the preferred size where it has room. Here ``"late"`` takes it wherever the grid
        has, ``"eager"`` nowhere, and a seed takes it at random.

        Args:
            together: one size everywhere, since blocks wait for each other.
        """
        if self.preferred is None:
            return [(self, [])]
        large = copy.copy(self)
        large.cluster, large.explicit_cluster = self.preferred, True
        large.flat = [*self.grid, *self.block, *self.preferred]
        tiles = [g // p for g, p in zip(self.grid, self.preferred, strict=True)]
        draw = random.Random(schedule)
        drawn = [schedule == "late" or (schedule != "eager" and draw.random() < 0.5)]
        if together:
            fits = all(g % p == 0 for g, p in zip(self.grid, self.preferred, strict=True))
            return [(large, [])] if drawn[0] and fits else [(self, [])]
        while len(drawn) < prod(tiles):
            drawn.append(drawn[0] if isinstance(schedule, str) else draw.random() < 0.5)
        chosen = [number for number in range(prod(tiles)) if drawn[number]]
        taken = {_first(number, tiles, self.preferred) for number in chosen}
        counts = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        rest = [
            number
            for number in range(prod(counts))
            if _tile_of(_first(number, counts, self.cluster), self.preferred) not in taken
        ]
        return [(part, numbers) for part, numbers in ((large, chosen), (self, rest)) if numbers]


def _first(number: int, counts: list[int], size: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the first CTA of a cluster by its number, x fastest."""
    x, rest = number % counts[0], number // counts[0]
    place = (x, rest % counts[1], rest // counts[1])
    return tuple(p * s for p, s in zip(place, size, strict=True))


def _tile_of(cta: tuple[int, ...], size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(c // s * s for c, s in zip(cta, size, strict=True))


def _extents(what: str, value: Any) -> tuple[int, int, int]:
    is_sequence = isinstance(value, Iterable) and getattr(value, "shape", None) != ()
    values = list(value) if is_sequence else [value]
    if not 1 <= len(values) <= 3:
        raise UserError(f"{what} must be one to three positive extents, got {value!r}")
    limits = _MAX_EXTENTS.get(what, _NO_LIMIT)
    x, y, z = (
        integer(f"{what}: extent {axis}", extent, 1, limit)
        for axis, extent, limit in zip("xyz", [*values, 1, 1], limits, strict=False)
    )
    return x, y, z


__all__ = ["Extents"]
