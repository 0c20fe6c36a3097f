"""Host arrays as emulated global memory: extents, virtual addresses, lifetimes."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from tilelang import _ffi
from tilelang.emulator.numbers import integer
from tilelang.emulator.unwritten import OUTPUTS
from tilelang.errors import ArgumentError, UserError
from tilelang.runtime.arguments import problem

_MAX_ADDRESS = (1 << 63) - 1


class Extent(NamedTuple):
    """The place of an array on the host: its allocation and the part that it covers (bytes)."""

    storage: int
    storage_bytes: int
    start: int
    begin: int
    end: int
    writable: bool


def extent_of(array: Any) -> Extent:
    """Returns where a NumPy array, a CPU torch tensor or another DLPack array lies.

    Raises:
        UserError: the object is no array, or not in host memory.
    """
    if isinstance(array, np.ndarray):
        return _numpy_extent(array)
    if hasattr(array, "untyped_storage"):
        return _torch_extent(array)
    if hasattr(array, "__dlpack__"):
        try:
            return _numpy_extent(np.from_dlpack(array))
        except (BufferError, RuntimeError, TypeError) as error:
            raise UserError(f"cannot use this {type(array).__name__} in place: {error}") from None
    raise UserError(f"expected an array in host memory, got {type(array).__name__}")


def is_array(value: Any) -> bool:
    """Tells whether ``value`` can be passed as a pointer argument."""
    return isinstance(value, np.ndarray) or (
        hasattr(value, "__dlpack__") and not isinstance(value, np.generic)
    )


def check_array(name: str, array: Any) -> None:
    """Refuses an argument that is not an array of numbers in memory.

    Raises:
        ArgumentError: names the argument.
    """
    if not is_array(array):
        raise ArgumentError(f"argument {name!r} is no array but a {type(array).__name__}")
    if found := problem(array):
        raise ArgumentError(f"argument {name!r} {found[0]}", notes=[found[1]])


def _numpy_extent(array: np.ndarray) -> Extent:
    begin, end = _bounds(
        array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize
    )
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = _bounds(
        root.__array_interface__["data"][0], root.shape, root.strides, root.itemsize
    )
    start = array.__array_interface__["data"][0]
    low, high = min(low, begin), max(high, end)
    return Extent(low, high - low, start, begin, end, array.flags.writeable)


def _torch_extent(tensor: Any) -> Extent:
    import torch

    with torch._C.DisableTorchFunction():  # as_cuda has its own view of where tensors are
        return _host_extent(tensor)


def _host_extent(tensor: Any) -> Extent:
    if tensor.device.type != "cpu":
        raise UserError(
            f"the emulator reads host memory, but the tensor is on {tensor.device}; "
            "pass tensor.cpu()"
        )
    storage = tensor.untyped_storage()
    start = tensor.data_ptr()
    strides = [stride * tensor.element_size() for stride in tensor.stride()]
    begin, end = _bounds(start, tuple(tensor.shape), strides, tensor.element_size())
    return Extent(storage.data_ptr(), storage.nbytes(), start, begin, end, True)


def _bounds(start: int, shape: Any, strides: Any, itemsize: int) -> tuple[int, int]:
    if any(extent == 0 for extent in shape):
        return start, start
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    begin = start + sum(step for step in steps if step < 0)
    return begin, start + sum(step for step in steps if step > 0) + itemsize


class Mapping:
    """An array in the address space of a device until :meth:`release`; also a context manager.

    ``address`` is the emulated address of the array's first element. Arguments of kernels take the
    mapping as a pointer, and the address as part of a structure.
    """

    def __init__(
        self,
        memory: DeviceMemory,
        key: tuple[int, int],
        address: int,
        allowed: tuple[int, int, bool],
        extent: Extent,
        array: Any,
    ) -> None:
        self.address = address
        self._memory, self._key, self._allowed, self._array = memory, key, allowed, array
        self._extent = extent

    def release(self) -> None:
        """Takes the array out of the address space; its address becomes invalid."""
        if self._array is None:
            return
        self._array = None
        self._memory._release(self._key, self._allowed, self._extent)

    def __enter__(self) -> Mapping:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


class Storage(NamedTuple):
    """An allocation of the host in the address space of a device.

    Attributes:
        begin, size: where it lies on the host, in bytes.
        address: where it begins in emulated memory.
        name: for messages.
        views: of the arrays in it: begin and end on the host, and whether it may be written.
    """

    begin: int
    size: int
    address: int
    name: str
    views: list[tuple[int, int, bool]]


class DeviceMemory:
    """The arrays that a device sees.

    Views of one allocation share its address range, so an address cannot tell through which view it
    came: bytes may be read if any mapped view covers them, and written if a writable one does, in
    whatever order the views were mapped.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._storages: dict[tuple[int, int], list[int]] = {}  # -> [address, users]
        self._names: dict[tuple[int, int], str] = {}
        self._live: Counter[Extent] = Counter()
        self._followed: dict[tuple[int, int], np.ndarray] = {}  # what is written of outputs
        self._map, self._unmap = _ffi.get("emulator.Map"), _ffi.get("emulator.Unmap")
        self._allow = _ffi.get("emulator.AllowRange")
        self._forbid = _ffi.get("emulator.ForbidRange")

    def map(self, array: Any, name: str, address: int | None = None) -> Mapping:
        """Makes ``array`` accessible; error messages call it ``name``.

        Args:
            address: where its first element shall lie; None: where there is room.

        Raises:
            UserError: it is no array of numbers in host memory, or cannot lie there.
        """
        check_array(name, array)
        extent = extent_of(array)
        key = (extent.storage, extent.storage_bytes)
        entry = self._storages.get(key)
        if entry is None:
            entry = self._storages[key] = [self._place(extent, name, address), 0]
            self._names[key] = name
            if (written := OUTPUTS.follow(extent.storage, extent.storage_bytes)) is not None:
                self._followed[key] = written
                _ffi.get("emulator.Follow")(self._handle, entry[0], written.ctypes.data)
        elif address is not None and address != entry[0] + extent.start - extent.storage:
            raise UserError(
                f"{name!r} cannot lie at {address:#x}: its memory is mapped already, it lies at "
                f"{entry[0] + extent.start - extent.storage:#x}"
            )
        entry[1] += 1
        begin = entry[0] + extent.begin - extent.storage
        allowed = (begin, extent.end - extent.begin, extent.writable)
        self._allow(self._handle, *allowed)
        self._live[extent] += 1
        return Mapping(self, key, entry[0] + extent.start - extent.storage, allowed, extent, array)

    def writable(self) -> list[np.ndarray]:
        """Returns the bytes that kernels may write now, in place; parts may overlap."""
        parts = []
        for each in self._live:
            if each.writable and each.end > each.begin:
                buffer = (ctypes.c_uint8 * (each.end - each.begin)).from_address(each.begin)
                parts.append(np.frombuffer(memoryview(buffer).cast("B"), np.uint8))
        return parts

    def storages(self) -> list[Storage]:
        """Returns all that is mapped now."""
        found = {
            key: Storage(*key, address, self._names[key], [])
            for key, (address, _) in self._storages.items()
        }
        for each in self._live:
            views = found[each.storage, each.storage_bytes].views
            views.append((each.begin, each.end, each.writable))
        return list(found.values())

    def _place(self, extent: Extent, name: str, address: int | None) -> int:
        """Maps a storage; returns its address. A view lies at ``address``, not its storage."""
        begin = 0
        if address is not None:
            offset = extent.start - extent.storage
            begin = integer(f"the address of {name!r}", address, offset + 1, _MAX_ADDRESS) - offset
        size = max(extent.storage_bytes, 1)
        try:
            return self._map(self._handle, extent.storage, size, name, begin)
        except ValueError as error:
            raise UserError(str(error)) from None

    def _release(
        self, key: tuple[int, int], allowed: tuple[int, int, bool], extent: Extent
    ) -> None:
        entry = self._storages[key]
        self._live[extent] -= 1
        self._live += Counter()  # drops what is at zero
        self._forbid(self._handle, *allowed)
        entry[1] -= 1
        if entry[1] == 0:
            del self._storages[key], self._names[key]
            self._followed.pop(key, None)
            self._unmap(self._handle, entry[0])
