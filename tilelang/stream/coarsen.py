"""The kernels that reduce windows of a stream, which lie in tiles."""

# Types of parameters of kernels are values.
# mypy: disable-error-code="valid-type"

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import tilelang
import tilelang.language as T

from ..math import cdiv
from .device import Device
from .layout import stored_weights
from .plan import Plan
from .pools import Batch
from .windows import Windows

THREADS = 256


class KernelCoarsener:
    """Launches the kernel of a method; see :class:`~tilelang.stream.device.Coarsener`."""

    def __init__(self, plan: Plan, windows: Windows, method: str, device: Device) -> None:
        self._plan, self._windows, self._device = plan, windows, device
        self._method = method

    def __call__(self, batch: Batch, coarse: Any) -> None:
        """Launches it for a batch."""
        plan, device = self._plan, self._device
        span = self._windows.span(plan, batch.part)
        elements = plan.pools * plan.pool_slots * plan.geometry.tile_elements
        make = median if self._method == "median" else coarsen
        kernel = make(
            self._windows,
            plan.order,
            self._method,
            plan.dtype.name,
            elements,
            _index_dtype(plan, self._windows, elements),
            device.target,
        )
        kernel.run(
            device.tiles(batch.pools, plan.dtype, (elements,)),
            device.tiles(coarse, plan.dtype, (span.count,)),
            span.first,
            span.origin,
            span.end,
        )


def _index_dtype(plan: Plan, windows: Windows, elements: int) -> Any:
    """Returns the type for positions and places: 32 bits where they do."""
    geometry = plan.geometry
    epochs = 1
    for count in geometry.counts[1 : geometry.lead + 1]:
        epochs *= count or 1
    rows = plan.batch * geometry.tile[0] if geometry.lead == 0 else cdiv(plan.batch, epochs) + 1
    # Positions count from the first row of windows; a tile before the pools' first one is possible.
    reach = (rows + 2 * windows.rows) * geometry.strides[0]
    row = geometry.live * epochs * geometry.tile_elements
    return T.int32 if max(elements, reach) + 2 * windows.rows * row < 2**31 else T.int64


def cell(
    windows: Windows, weights: Mapping[int, int], window: Any, element: Any
) -> tuple[Any, Any, Any]:
    """Returns an element of a window, as expressions.

    Args:
        windows: of the stream.
        weights: of each axis, in a stored tile.
        window: counted from the first one of a row of windows, as :class:`Span` does.
        element: of the window.

    Returns:
        Its place in the tiles from that row on, its position in the stream from there on, and
        whether it is in the array.
    """
    geometry = windows.geometry
    place, position, tile, stride, inside = 0, 0, 0, 1, T.bool(True)
    for axis in range(geometry.rank - 1, -1, -1):
        extent, factor, size = geometry.shape[axis], windows.factors[axis], geometry.tile[axis]
        index = window * factor + element % factor
        if axis:
            assert extent is not None
            coarse = cdiv(extent, factor)
            index, window = window % coarse * factor + element % factor, window // coarse
            element = element // factor
            if extent % factor:
                inside = T.And(inside, index < extent)
            count = cdiv(extent, size)
        place = place + index % size * weights[axis]
        tile = tile + index // size * stride
        position = position + index * geometry.strides[axis]
        stride *= count if axis else 1
    return place + tile * geometry.tile_elements, position, inside


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

    It is called with the pools, ``(elements,)``; the coarse elements, ``(n,)``; and the numbers
    ``first``, ``origin`` and ``end`` of a :class:`Span`.

    Args:
        windows, order: of the stream.
        method: "mean", "min", "max" or "median".
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


@functools.lru_cache(maxsize=64)
def median(
    windows: Windows,
    order: tuple[int, ...],
    method: str,
    dtype: str,
    elements: int,
    index: Any,
    target: str,
) -> Any:
    """Returns the kernel that takes the middle of each window; called as that of ``coarsen``.

    A thread compares each element of its window with each other one: windows are small, and in the
    cache.
    """
    weights = dict(zip(order, stored_weights(windows.geometry, order), strict=True))
    n = T.dynamic("n", "int32")

    @T.prim_func
    def middles_of_windows(
        pools: T.Tensor((elements,), dtype),
        coarse: T.Tensor((n,), dtype),
        first: index,
        origin: index,
        end: index,
    ):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as b:
            below = T.alloc_fragment((THREADS,), dtype)
            above = T.alloc_fragment((THREADS,), dtype)
            rank = T.alloc_fragment((THREADS,), "int32")
            found = T.alloc_fragment((THREADS,), "int32")
            T.clear(below)
            T.clear(above)
            for element in T.serial(windows.size):
                T.clear(rank)
                T.clear(found)
                for other in T.serial(windows.size):
                    for i in T.Parallel(THREADS):
                        window = first + b * THREADS + i
                        at, position, inside = cell(windows, weights, window, element)
                        to, later, within = cell(windows, weights, window, other)
                        both = T.And(T.And(inside, position < end), T.And(within, later < end))
                        if T.And(b * THREADS + i < n, both):
                            found[i] += 1
                            one, two = pools[origin + at], pools[origin + to]
                            if T.Or(
                                _less(dtype, two, one), _equal(dtype, one, two, other < element)
                            ):
                                rank[i] += 1
                for i in T.Parallel(THREADS):
                    at, position, inside = cell(windows, weights, first + b * THREADS + i, element)
                    if T.And(b * THREADS + i < n, T.And(inside, position < end)):
                        if rank[i] == (found[i] - 1) // 2:
                            below[i] = pools[origin + at]
                        if rank[i] == found[i] // 2:
                            above[i] = pools[origin + at]
            for i in T.Parallel(THREADS):
                if b * THREADS + i < n:
                    coarse[b * THREADS + i] = _middle(dtype, below[i], above[i])

    return tilelang.compile(middles_of_windows, target=target)


def _less(dtype: str, one: Any, two: Any) -> Any:
    """Whether one element comes before another: NaN after all numbers."""
    if not dtype.startswith("float"):
        return one < two
    return T.Or(one < two, T.And(one == one, two != two))


def _equal(dtype: str, one: Any, two: Any, earlier: Any) -> Any:
    """Whether two elements compare equal, and the second one is the earlier one."""
    return T.And(earlier, T.Not(T.Or(_less(dtype, one, two), _less(dtype, two, one))))


def _middle(dtype: str, below: Any, above: Any) -> Any:
    """Returns the mean of two elements; of integers the nearest one, of two the larger."""
    if dtype.startswith("float"):
        sums = _sum_dtype(dtype)
        return T.cast((T.cast(below, sums) + T.cast(above, sums)) / 2, dtype)
    return (below | above) - ((below ^ above) >> 1)


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
