"""The arrays that a stream writes to, of the libraries that have them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError
from .errors import missing_library

#: Codecs by name, as arguments of ``zarr.create_array``; others are given as objects.
_CODECS = {
    "zstd": "ZstdCodec",
    "gzip": "GzipCodec",
    "blosc": "BloscCodec",
}


class Target(Protocol):
    """An array to write to.

    Attributes:
        dtype: of an element.
        grows: whether it may become larger.
    """

    dtype: np.dtype
    grows: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents now."""

    def write(self, region: tuple[slice, ...], data: np.ndarray, room: Sequence[int]) -> None:
        """Writes a region; ``room`` is a shape that holds it, larger than the array's perhaps."""

    def grow(self, shape: Sequence[int]) -> None:
        """Gives the array a larger shape: what readers see."""


class PlainTarget:
    """An array with ``shape``, ``dtype`` and assignment, of a fixed size, as those of NumPy."""

    grows = False

    def __init__(self, array: Any) -> None:
        self._array = array
        self.dtype = np.dtype(array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def write(self, region: tuple[slice, ...], data: np.ndarray, room: Sequence[int]) -> None:
        self._array[region] = data

    def grow(self, shape: Sequence[int]) -> None:
        _check_inside(shape, self.shape)


class ZarrTarget:
    """An array of zarr-python.

    Chunks are written through a handle that takes the array to be larger; then its shape grows. A
    reader, or whoever comes after a writer was killed, never sees rows that are not complete.
    """

    grows = True

    def __init__(self, array: Any) -> None:
        self._array = array
        self.dtype = np.dtype(array.dtype)
        self._wide: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def write(self, region: tuple[slice, ...], data: np.ndarray, room: Sequence[int]) -> None:
        import zarr

        if self._wide is None or tuple(self._wide.shape) != tuple(room):
            metadata = self._array.metadata.update_shape(tuple(room))
            self._wide = zarr.Array(zarr.AsyncArray(metadata, self._array.store_path))
        self._wide[region] = data

    def grow(self, shape: Sequence[int]) -> None:
        if self.shape != tuple(shape):
            self._array.resize(tuple(shape))


class TensorStoreTarget:
    """An array of TensorStore; of the drivers "zarr" and "zarr3" it grows, as that of zarr does."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.dtype = np.dtype(array.dtype.numpy_dtype)
        self._spec = array.spec(minimal_spec=False).to_json()
        self.grows = self._spec["driver"] in ("zarr", "zarr3")
        self._wide: Any = None if self.grows else array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def write(self, region: tuple[slice, ...], data: np.ndarray, room: Sequence[int]) -> None:
        if self._wide is None or (self.grows and tuple(self._wide.shape) != tuple(room)):
            self._wide = self._opened(room)
        self._wide[region].write(data).result()

    def _opened(self, shape: Sequence[int]) -> Any:
        """Returns a handle that takes the array to be larger than its metadata say."""
        import tensorstore

        metadata = {**self._spec["metadata"], "shape": list(shape)}
        spec = {"driver": self._spec["driver"], "metadata": metadata}
        kvstore = self._array.kvstore
        return tensorstore.open(spec, kvstore=kvstore, open=True, assume_metadata=True).result()

    def grow(self, shape: Sequence[int]) -> None:
        if not self.grows:
            _check_inside(shape, self.shape)
        elif self.shape != tuple(shape):
            self._array = self._array.resize(exclusive_max=list(shape)).result()


def _check_inside(shape: Sequence[int], room: Sequence[int]) -> None:
    if any(new > old for new, old in zip(shape, room, strict=True)):
        raise ArgumentError(
            f"the stream has come to {tuple(shape)}, and the array ends at {tuple(room)}",
            notes=["a Zarr array or a TensorStore of one grows with the stream"],
        )


def open_target(
    target: Any,
    shape: Sequence[int],
    tile: Sequence[int],
    dtype: np.dtype,
    fill: Any,
    codec: Any,
    options: dict[str, Any],
) -> Target:
    """Returns what to write to.

    Args:
        target: an array; or a path, a URL of fsspec or a store, where a Zarr array is created.
        shape: of an array that is created.
        tile: its chunks.
        dtype, fill: its elements, and those that were never written.
        codec: its compressor; of an array that exists one that it must have; "auto".
        options: more for ``zarr.create_array``.

    Raises:
        ArgumentError: an argument does not fit the array.
        ModuleNotFoundError: zarr is needed and missing.
    """
    library = type(target).__module__.partition(".")[0]
    is_array = hasattr(target, "shape") and hasattr(target, "dtype")
    if is_array:
        if options:
            raise ArgumentError(f"the array exists: {', '.join(options)} cannot be chosen for it")
        if codec != "auto":
            _check_codec(target, codec)
        kinds: dict[str, Any] = {"zarr": ZarrTarget, "tensorstore": TensorStoreTarget}
        return kinds.get(library, PlainTarget)(target)
    if isinstance(target, int | float | Sequence) and not isinstance(target, str):
        raise ArgumentError(f"cannot write to a {type(target).__name__}")
    try:
        import zarr
    except ModuleNotFoundError:
        raise missing_library("zarr", "stream", "writing a Zarr array") from None
    created = zarr.create_array(
        store=os.fspath(target) if isinstance(target, os.PathLike) else target,
        shape=tuple(shape),
        chunks=tuple(tile),
        dtype=dtype,
        fill_value=fill,
        compressors=_codec(codec),
        **options,
    )
    return ZarrTarget(created)


def _codec(codec: Any) -> Any:
    if not isinstance(codec, str) or codec == "auto":
        return codec
    import zarr.codecs

    if codec not in _CODECS:
        raise ArgumentError(
            f"no codec {codec!r}",
            notes=[f"one of {', '.join(_CODECS)}, None, or an object of zarr.codecs"],
        )
    return getattr(zarr.codecs, _CODECS[codec])()


def _check_codec(array: Any, codec: Any) -> None:
    found = tuple(getattr(array, "compressors", ()))
    wanted = _codec(codec)
    if not any(type(one) is type(wanted) for one in found) and (wanted is not None or found):
        raise ArgumentError(
            f"codec={codec!r}, but the array exists and has {found or 'no compressor'}",
            notes=["the codec of a Zarr array is chosen when it is created"],
        )
