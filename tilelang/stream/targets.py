"""The arrays that a stream writes to, of the libraries that have them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..errors import ArgumentError
from .chunks import Chunks
from .encoding import Encoding
from .errors import missing_library
from .plan import Plan
from .storing import check_policy, storage

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

    def chunks(self, plan: Plan, threads: int) -> Chunks | None:
        """Returns what writes tiles as they are; None if they are not the chunks of the array."""

    def force(self) -> None:
        """Forces what was written onto the disk."""

    def force_shape(self) -> None:
        """Forces the shape onto the disk."""


class _Unforced:
    """A target that decides itself when what it gets is safe."""

    def chunks(self, plan: Plan, threads: int) -> None:
        """Returns None: an array gets regions."""

    def force(self) -> None:
        """Does nothing."""

    def force_shape(self) -> None:
        """Does nothing."""


class PlainTarget(_Unforced):
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

    def __init__(self, array: Any, policy: str) -> None:
        self._array = array
        self.dtype = np.dtype(array.dtype)
        self._storage = storage(array, policy)
        self._wide: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def chunks(self, plan: Plan, threads: int) -> Chunks | None:
        array = self._array
        fill = np.asarray(array.metadata.fill_value, plan.dtype)
        encoding = Encoding.of(array)
        if array.chunks != plan.tile_shape or fill.tobytes() != plan.pad.tobytes() or not encoding:
            return None
        return Chunks(array, encoding, self._storage, threads, plan.order.index(0))

    def force(self) -> None:
        if self._wide is not None:
            os.sync()  # zarr does not tell which files it wrote
        self._storage.force()

    def force_shape(self) -> None:
        self._storage.force_metadata()

    def write(self, region: tuple[slice, ...], data: np.ndarray, room: Sequence[int]) -> None:
        import zarr

        if self._wide is None or tuple(self._wide.shape) != tuple(room):
            metadata = self._array.metadata.update_shape(tuple(room))
            self._wide = zarr.Array(zarr.AsyncArray(metadata, self._array.store_path))
        self._wide[region] = data

    def grow(self, shape: Sequence[int]) -> None:
        if self.shape != tuple(shape):
            self._array.resize(tuple(shape))


class TensorStoreTarget(_Unforced):
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


class Creation(NamedTuple):
    """What array is made where there is none.

    Attributes:
        plan: of the stream whose tiles are its chunks.
        codec: its compressor; of an array that exists one that it must have; "auto".
        path: of the array in a store that holds several.
        resumes: whether an array that exists is written to.
        options: more for ``zarr.create_array``.
    """

    plan: Plan
    codec: Any
    path: str | None
    resumes: bool
    options: dict[str, Any]


def open_target(target: Any, creation: Creation, policy: str) -> Target:
    """Returns what to write to.

    Args:
        target: an array; or a path, a URL of fsspec or a store, where a Zarr array is created.
        creation: of an array that does not exist.
        policy: when files are forced onto the disk (:mod:`tilelang.stream.storing`).

    Raises:
        ArgumentError: an argument does not fit the array.
        ModuleNotFoundError: zarr is needed and missing.
    """
    library = type(target).__module__.partition(".")[0]
    check_policy(policy)
    if hasattr(target, "shape") and hasattr(target, "dtype"):
        given = [*creation.options, *(["path"] if creation.path else [])]
        if given:
            raise ArgumentError(f"the array exists: {', '.join(given)} cannot be chosen for it")
        if creation.codec != "auto":
            _check_codec(target, creation.codec)
        if library == "zarr":
            return ZarrTarget(target, policy)
        if policy != "never":
            raise ArgumentError(f"sync={policy!r}: an array of {library} decides itself")
        return TensorStoreTarget(target) if library == "tensorstore" else PlainTarget(target)
    if isinstance(target, int | float | Sequence) and not isinstance(target, str):
        raise ArgumentError(f"cannot write to a {type(target).__name__}")
    try:
        import zarr  # noqa: F401
    except ModuleNotFoundError:
        raise missing_library("zarr", "stream", "writing a Zarr array") from None
    store = os.fspath(target) if isinstance(target, os.PathLike) else target
    resumes = creation.resumes and not creation.options.get("overwrite")
    array = _existing(store, creation) if resumes else None
    return ZarrTarget(_created(store, creation) if array is None else array, policy)


def _existing(store: Any, creation: Creation) -> Any:
    """Returns the array that a stream continues, or None if there is none."""
    import zarr

    options = {"storage_options": creation.options.get("storage_options")}
    try:
        array = zarr.open_array(store, mode="r+", path=creation.path or "", **options)
    except (FileNotFoundError, KeyError):
        return None
    if creation.codec != "auto":
        _check_codec(array, creation.codec)
    return array


def _created(store: Any, creation: Creation) -> Any:
    """Creates an array without rows, which grows as they are complete, and the groups above it."""
    import zarr

    plan, options = creation.plan, creation.options
    shape = [0 if axis == 0 else plan.geometry.shape[axis] or 0 for axis in plan.order]
    folders = (creation.path or "").strip("/").split("/")
    if creation.path:
        access = {"storage_options": options.get("storage_options")}
        for depth in range(len(folders)):
            zarr.open_group(store, mode="a", path="/".join(folders[:depth]), **access)
    try:
        return zarr.create_array(
            store=store,
            name=creation.path,
            shape=tuple(shape),
            chunks=plan.tile_shape,
            dtype=plan.dtype,
            fill_value=plan.pad.item(),
            compressors=_codec(creation.codec),
            **options,
        )
    except (zarr.errors.ContainsArrayError, zarr.errors.ContainsGroupError) as error:
        raise ArgumentError(
            str(error).rstrip("."),
            notes=["at='end' (--resume of the command) continues it, overwrite=True replaces it"],
        ) from None


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
