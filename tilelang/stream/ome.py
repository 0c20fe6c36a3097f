"""Multiscale images of OME-NGFF 0.5: a group with a level of a pyramid in each array."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError
from ..math import cdiv
from .errors import missing_library
from .writer import Writer

if TYPE_CHECKING:
    from .stream import TileStream

VERSION = "0.5"
#: Types of axes by their names, in the order that the specification asks for.
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


class Multiscale:
    """The plan of an image: its axes as stored, and the factors of its levels.

    Args:
        stream: of the finest level.
        axes: a letter of "tczyx" for each axis in the order of arrival.
        levels: how many; None: until the coarsest one is a tile along the axes of space.
        factors: from one level to the next, in the order of arrival; a number is that of the axes
            of space.
        scale: size of an element along each axis, in the order of arrival.
        units: of the axes that have one, by their letters: ``{"x": "micrometer"}``.

    Raises:
        ArgumentError: they make no image of OME-NGFF.
    """

    def __init__(
        self,
        stream: TileStream,
        axes: str,
        levels: int | None,
        factors: int | Sequence[int],
        scale: Sequence[float] | None,
        units: Mapping[str, str] | None,
    ) -> None:
        plan, rank = stream.plan, stream.plan.geometry.rank
        self._stored = "".join(axes[axis] for axis in plan.order) if len(axes) == rank else ""
        wanted = [letter for letter in _TYPES if letter in axes]
        if len(set(axes)) != rank or self._stored != "".join(wanted) or axes.count("y") != 1:
            raise ArgumentError(
                f"axes={axes!r} are stored as {self._stored or axes!r}: not the {rank} axes of an "
                "image of OME-NGFF",
                notes=["letters of 'tczyx', stored in this order; order= changes it"],
            )
        if isinstance(factors, int):
            factors = [factors if _TYPES[letter] == "space" else 1 for letter in axes]
        if len(factors) != rank or min(factors) < 1 or max(factors) < 2:
            raise ArgumentError(f"factors={factors!r} are no {rank} positive integers above 1")
        if scale is not None and len(scale) != rank:
            raise ArgumentError(f"scale={scale!r} has not {rank} numbers")
        for letter in units or {}:
            if letter not in axes:
                raise ArgumentError(f"units={units!r}: {letter!r} is none of the axes {axes!r}")
        self.factors = tuple(factors)
        self._order, self._units = plan.order, dict(units or {})
        self._scale = [float(s) for s in scale] if scale is not None else [1.0] * rank
        self.levels = levels if levels is not None else self._enough(stream)
        if self.levels < 1:
            raise ArgumentError(f"levels={levels!r} is no positive integer")

    def _enough(self, stream: TileStream) -> int:
        geometry = stream.plan.geometry
        levels, extents = 1, list(geometry.shape)
        while any(
            f > 1 and s is not None and axis > 0 and s > n
            for axis, (s, n, f) in enumerate(zip(extents, geometry.tile, self.factors, strict=True))
        ):
            pairs = zip(extents, self.factors, strict=True)
            extents = [None if s is None else cdiv(s, f) for s, f in pairs]
            levels += 1
        return levels

    @property
    def dimension_names(self) -> list[str]:
        """Names of the axes of an array."""
        return list(self._stored)

    def attributes(self, name: str, method: str) -> dict[str, Any]:
        """Returns the attributes of the group."""
        axes = []
        for letter in self._stored:
            axis = {"name": letter, "type": _TYPES[letter]}
            if letter in self._units:
                axis["unit"] = self._units[letter]
            axes.append(axis)
        datasets = [self._dataset(level) for level in range(self.levels)]
        image = {"name": name, "axes": axes, "datasets": datasets, "type": method}
        return {"ome": {"version": VERSION, "multiscales": [image]}}

    def _dataset(self, level: int) -> dict[str, Any]:
        factors = [self.factors[axis] ** level for axis in self._order]
        scale = [self._scale[axis] * f for axis, f in zip(self._order, factors, strict=True)]
        transforms: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
        if level:
            # The middle of a window lies half a window behind the middle of its first element.
            shift = [
                self._scale[axis] * (f - 1) / 2
                for axis, f in zip(self._order, factors, strict=True)
            ]
            transforms.append({"type": "translation", "translation": shift})
        return {"path": str(level), "coordinateTransformations": transforms}


def write(
    stream: TileStream,
    image: Multiscale,
    target: Any,
    method: str,
    path: str | None,
    at: int | str | None,
    options: dict[str, Any],
) -> list[Writer]:
    """Creates the group of an image, and lets a stream and its pyramid write to arrays of it.

    Returns:
        The writers, of the finest level first.

    Raises:
        ModuleNotFoundError: zarr is needed and missing.
    """
    try:
        import zarr
    except ModuleNotFoundError:
        raise missing_library("zarr", "stream", "writing an image") from None
    store = os.fspath(target) if isinstance(target, os.PathLike) else target
    access = {"storage_options": options.get("storage_options")}
    if options.get("zarr_format", 3) != 3:
        raise ArgumentError("an image of OME-NGFF 0.5 has Zarr format 3")
    if at not in (None, "end"):
        raise ArgumentError(f"at={at!r}: an image is begun, or continued at='end'")
    row = _common_end(stream, image, store, path, access) if at else None
    group = zarr.open_group(store, mode="a", path=path or "", **access)
    name = path.rpartition("/")[2] if path else "image"
    group.attrs.update(image.attributes(name, method))
    writers = []
    for number in range(image.levels):
        if number:
            stream = stream.pyramid(image.factors, method)
        writers.append(
            stream.to(
                store,
                at=at if row is None else row // image.factors[0] ** number,
                name=f"level {number}",
                path=f"{path}/{number}" if path else str(number),
                dimension_names=image.dimension_names,
                **options,
            )
        )
    return writers


def _common_end(
    stream: TileStream, image: Multiscale, store: Any, path: str | None, access: dict[str, Any]
) -> int | None:
    """Returns the row from which on all levels are continued; None: there is no image."""
    import zarr

    growing, tile = stream.plan.order.index(0), stream.plan.geometry.tile[0]
    begun, step = [], 1
    for number in range(image.levels):
        where = f"{path}/{number}" if path else str(number)
        try:
            array = zarr.open_array(store, mode="r", path=where, **access)
        except (FileNotFoundError, KeyError):
            return None
        coarse = image.factors[0] ** number
        step = math.lcm(step, tile * coarse)
        begun.append(array.shape[growing] // tile * tile * coarse)
    return min(begun) // step * step
