"""Files of frames that a stream reads: TIFF, HDF5 and arrays of NumPy, by their libraries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError
from .errors import missing_library

#: Bytes that are read at a time.
_BLOCK_BYTES = 8 << 20


class Frames(NamedTuple):
    """An array in a file.

    Attributes:
        shape: its extents, the slowest first.
        dtype: of an element, in the byte order of this machine.
        axes: a letter for each axis if the file names them, or "".
        blocks: a function that returns an iterator over the elements from an index of the first
            axis on.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    axes: str
    blocks: Callable[[int], Iterator[np.ndarray]]


def open_frames(path: str, dataset: str | None = None) -> Frames:
    """Opens a file of frames.

    Args:
        path: of a file whose name ends in .tif, .tiff, .h5, .hdf5 or .npy.
        dataset: of an HDF5 file; None if it has one only.

    Raises:
        ArgumentError: another kind of file, or no such data set.
        ModuleNotFoundError: the library that reads it is not installed.
    """
    kind = Path(path).suffix.lower()
    if kind in (".tif", ".tiff"):
        return _tiff(path)
    if kind in (".h5", ".hdf5"):
        return _hdf5(path, dataset)
    if kind == ".npy":
        return _rows(np.load(path, mmap_mode="r"))
    raise ArgumentError(
        f"{path}: cannot read files {kind!r}", notes=["TIFF (.tif), HDF5 (.h5) or NumPy (.npy)"]
    )


def _tiff(path: str) -> Frames:
    try:
        import tifffile
    except ModuleNotFoundError:
        raise missing_library("tifffile", "stream", "reading TIFF") from None
    file = tifffile.TiffFile(path)
    series = file.series[0]
    dtype = np.dtype(series.dtype).newbyteorder("=")
    pages = len(series.pages)
    first_page: Any = series.pages[0]
    of_page = math.prod(first_page.shape)
    # Q, I and S are axes that nobody named.
    axes = series.axes.lower() if set(series.axes) <= set("TCZYX") else ""
    if pages * of_page != math.prod(series.shape) or pages % series.shape[0]:
        return _rows(series.asarray(out="memmap"))._replace(axes=axes)

    def blocks(first: int) -> Iterator[np.ndarray]:
        for number in range(first * (pages // series.shape[0]), pages):
            page: Any = series.pages[number]
            yield page.asarray().astype(dtype, copy=False)

    return Frames(tuple(series.shape), dtype, axes, blocks)


def _hdf5(path: str, dataset: str | None) -> Frames:
    try:
        import h5py
    except ModuleNotFoundError:
        raise missing_library("h5py", "stream", "reading HDF5") from None
    file = h5py.File(path, "r")
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if hasattr(item, "dtype") else None)
    if dataset is None and len(found) == 1:
        dataset = found[0]
    if dataset is None or dataset.strip("/") not in found:
        wanted = "several data sets" if dataset is None else f"no data set {dataset!r}"
        raise ArgumentError(f"{path} has {wanted}", notes=[f"it has {', '.join(sorted(found))}"])
    return _rows(file[dataset])


def _rows(array: Any) -> Frames:
    """Returns an array with slices, which is read by rows."""
    if not array.ndim or not array.size:
        raise ArgumentError(f"an array of shape {tuple(array.shape)} has no frames")
    dtype = np.dtype(array.dtype).newbyteorder("=")
    step = max(1, _BLOCK_BYTES * array.shape[0] // max(1, array.size * dtype.itemsize))

    def blocks(first: int) -> Iterator[np.ndarray]:
        for begin in range(first, array.shape[0], step):
            yield np.asarray(array[begin : begin + step]).astype(dtype, copy=False)

    return Frames(tuple(array.shape), dtype, "", blocks)
