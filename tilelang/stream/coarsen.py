"""A level of a pyramid: windows of a stream's array, and the kernel that reduces them.

Axis ``d`` of the coarse array has ``ceil(s[d] / f[d])`` elements; each is made of a window of
``f[d]`` elements along every axis, clipped to the array. The first element of a window is the first
one of it to arrive, and windows in row-major order have their first elements in the order of
arrival: those that have begun by a position of the stream are always the first ones of the coarse
array, which is why it is a stream itself.
"""

# Types of parameters of kernels are values.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tilelang
import tilelang.language as T

from ..errors import ArgumentError
from ..math import cdiv
from .geometry import Geometry
from .layout import stored_weights

METHODS = ("mean", "min", "max")
THREADS = 256
#: Elements of a window: so many of 16 bits have a sum of 32 bits, doubled for rounding.
_LARGEST_WINDOW = 1 << 14


@dataclass(frozen=True)
class Windows:
    """The windows of a stream.

    Attributes:
        geometry: of the stream.
        factors: extents of a window.
    """

    geometry: Geometry
    factors: tuple[int, ...]

    @classmethod
    def of(cls, geometry: Geometry, factors: int | Sequence[int]) -> Windows:
        """Checks the factors of a pyramid; one number is that of all axes but the first.

        Raises:
            ArgumentError: they do not fit the tiles.
        """
        if not isinstance(factors, Sequence):
            factors = (1, *[factors] * (geometry.rank - 1))
        try:
            found = tuple(operator.index(factor) for factor in factors)
        except TypeError:
            found = ()
        if len(found) != geometry.rank or min(found) < 1:
            raise ArgumentError(
                f"factors={factors!r} are no {geometry.rank} positive integers, one for each axis"
            )
        if math.prod(found) > _LARGEST_WINDOW:
            raise ArgumentError(
                f"factors={factors!r} make windows of {math.prod(found)} elements, more than "
                f"{_LARGEST_WINDOW}",
                notes=["make a pyramid of the pyramid"],
            )
        lead = geometry.lead
        tile, extent = geometry.tile[lead], geometry.shape[lead]
        split = [d for d in range(lead) if found[d] > 1 and geometry.shape[d] != 1]
        if not split and tile % found[lead] and (extent is None or tile < extent):
            split = [lead]
        if split:
            axis = split[0]
            raise ArgumentError(
                f"a window of {found[axis]} along axis {axis} is in several epochs: tiles have "
                f"{geometry.tile[axis]} there",
                notes=["a factor of the first axes divides the tile"],
            )
        return cls(geometry, found)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Extents of the coarse array."""
        pairs = zip(self.geometry.shape, self.factors, strict=True)
        return tuple(None if s is None else cdiv(s, f) for s, f in pairs)

    @property
    def size(self) -> int:
        """Elements of a window."""
        return math.prod(self.factors)

    @property
    def of_epoch(self) -> int:
        """Windows of an epoch at most."""
        lead, extent = self.geometry.lead, self.geometry.shape[self.geometry.lead]
        rows = self.geometry.tile[lead] if extent is None else min(self.geometry.tile[lead], extent)
        inner = [extent or 1 for extent in self.shape[lead + 1 :]]
        return cdiv(rows, self.factors[lead]) * math.prod(inner)

    def begun(self, position: int) -> int:
        """Returns how many windows have elements before a position of the stream."""
        if position <= 0:
            return 0
        rest, whole, window = position - 1, False, 0
        for axis, stride in enumerate(self.geometry.strides):
            index, rest = divmod(rest, stride)
            extent, factor = self.shape[axis], self.factors[axis]
            # Behind an index that is within a window, all later ones of the faster axes have begun.
            coarse = (extent or 1) - 1 if whole else index // factor
            whole = whole or index % factor > 0
            window = window * (extent or 1) + coarse if axis else coarse
        return window + 1

    @property
    def period(self) -> int:
        """Rows along ``lead`` after which windows begin anew; 0: never."""
        lead, extent = self.geometry.lead, self.geometry.shape[self.geometry.lead]
        if lead == 0 or extent is None:
            return 0
        return extent if self.geometry.uneven or extent % self.factors[lead] else 0


def cell(
    windows: Windows, weights: Mapping[int, int], window: Any, element: Any
) -> tuple[Any, Any, Any]:
    """Returns an element of a window, as expressions.

    Args:
        windows: of the stream.
        weights: of each axis, in a stored tile.
        window: counted from the first one of an epoch, or of a period.
        element: of the window.

    Returns:
        Its place in the tiles from that epoch on, its position in the stream from there on, and
        whether it is in the array.
    """
    geometry, lead = windows.geometry, windows.geometry.lead
    place, position, tile, stride, inside = 0, 0, 0, 1, T.bool(True)
    for axis in range(geometry.rank - 1, lead, -1):
        extent, factor, size = geometry.shape[axis], windows.factors[axis], geometry.tile[axis]
        assert extent is not None
        coarse = cdiv(extent, factor)
        index, window = window % coarse * factor + element % factor, window // coarse
        element = element // factor
        if extent % factor:
            inside = T.And(inside, index < extent)
        place = place + index % size * weights[axis]
        tile = tile + index // size * stride
        position = position + index * geometry.strides[axis]
        stride *= cdiv(extent, size)
    factor, size, epoch, row = windows.factors[lead], geometry.tile[lead], 0, 0
    if windows.period:
        coarse = cdiv(windows.period, factor)
        epoch = window // coarse * cdiv(windows.period, size)
        row = window // coarse * windows.period
        window = window % coarse
    index = window * factor + element % factor
    if windows.period % factor:
        inside = T.And(inside, index < windows.period)
    epoch, row = epoch + index // size, row + index
    place = place + index % size * weights[lead]
    place = place + (epoch * geometry.live + tile) * geometry.tile_elements
    return place, position + row * geometry.strides[lead], inside


@functools.lru_cache(maxsize=64)
def coarsen(
    windows: Windows,
    order: tuple[int, ...],
    method: str,
    dtype: str,
    elements: int,
    index: Any,
    target: str,
) -> Any:
    """Returns the kernel that reduces the windows of a batch.

    It is called with the pools, ``(elements,)``; the coarse elements, ``(n,)``; the first of them,
    counted from the base of the batch; the element of the pools that the base's first tile begins
    with; the position at which the stream ends so far, relative to the base.

    Args:
        windows, order: of the stream.
        method: "mean", "min" or "max".
        dtype: of an element.
        elements: of all pools.
        index: type of positions and places.
        target: what to compile for.
    """
    weights = dict(zip(order, stored_weights(windows.geometry, order), strict=True))
    sums = _sum_dtype(dtype) if method == "mean" else dtype
    n = T.dynamic("n", "int32")

    @T.prim_func
    def coarsen_windows(
        pools: T.Tensor((elements,), dtype),
        coarse: T.Tensor((n,), dtype),
        first: index,
        origin: index,
        end: index,
    ):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as b:
            value = T.alloc_fragment((THREADS,), sums)
            found = T.alloc_fragment((THREADS,), "int32")
            T.clear(value)
            T.clear(found)
            for element in T.serial(windows.size):
                for i in T.Parallel(THREADS):
                    place, position, inside = cell(
                        windows, weights, first + b * THREADS + i, element
                    )
                    if T.And(b * THREADS + i < n, T.And(inside, position < end)):
                        one = T.cast(pools[origin + place], sums)
                        value[i] = T.if_then_else(
                            element == 0, one, _combined(method, value[i], one)
                        )
                        found[i] += 1
            for i in T.Parallel(THREADS):
                if b * THREADS + i < n:
                    coarse[b * THREADS + i] = T.cast(
                        _result(method, dtype, value[i], T.max(found[i], 1)), dtype
                    )

    return tilelang.compile(coarsen_windows, target=target)


def _combined(method: str, value: Any, one: Any) -> Any:
    return value + one if method == "mean" else getattr(T, method)(value, one)


def _result(method: str, dtype: str, value: Any, count: Any) -> Any:
    if method != "mean":
        return value
    if dtype.startswith("float"):
        return value / T.cast(count, _sum_dtype(dtype))
    # The nearest integer, of two the larger.
    wide = T.cast(count, _sum_dtype(dtype))
    return T.floordiv(2 * value + wide, 2 * wide)


def _sum_dtype(dtype: str) -> str:
    """Returns a type that holds twice the sum of a window."""
    if dtype.startswith("float"):
        return "float64" if dtype == "float64" else "float32"
    return "int32" if dtype.endswith(("8", "16")) else "int64"
