"""Launches whose tensors are on the CPU run on the emulator."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._ffi import tvm_ffi
from ..emulator.reachable import current as reachable_tensors
from ..errors import UnsupportedError
from . import resources
from .nvrtc import Artifact


class Outcome:
    """How the launches of a kernel on the emulator ended.

    tvm-ffi makes new exceptions of those that pass through C++; the original is kept for
    :meth:`take_error`.

    Attributes:
        report: the emulator's LaunchReport of the last launch that succeeded, or None.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self.report: Any = None

    @contextlib.contextmanager
    def reporting(self, listener: Callable[[Any], None]) -> Iterator[None]:
        """Hands the report of every launch of this thread to ``listener`` meanwhile."""
        self._local.listener = listener
        try:
            yield
        finally:
            del self._local.listener

    def keep_report(self, report: Any) -> None:
        """Keeps the report of a launch that succeeded."""
        self.report = report
        listener = getattr(self._local, "listener", None)
        if listener is not None:
            listener(report)

    def keep_error(self, error: BaseException) -> None:
        """Keeps the exception that ends a launch of this thread."""
        self._local.error = error

    def take_error(self) -> BaseException | None:
        """Returns the exception that ended the last launch of this thread, once."""
        return self._local.__dict__.pop("error", None)


class Emulation:
    """What the launcher calls for a launch on the CPU."""

    def __init__(self, arch: str, artifact: Artifact, outcome: Outcome) -> None:
        self._arch = arch
        self._artifact = artifact
        self._outcome = outcome

    @functools.cached_property
    def _loaded(self) -> tuple[Any, Any]:
        try:
            from ..emulator import Device
        except ImportError:
            raise UnsupportedError(
                "the arguments are CPU tensors, but this build has no emulator",
                notes=["pass CUDA tensors"],
            ) from None
        device = Device(self._arch)
        module = device.load_ptx(self._artifact.ptx)
        module.resources = resources.parse(self._artifact.log)
        return device, module

    def __call__(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int],
        shared_memory: int,
        args: Sequence[Any],
        pointees: Sequence[Any] = (),
    ) -> None:
        """Runs one grid to its end.

        Args:
            name: of the kernel.
            grid, block: three extents, x first.
            cluster: three extents, or none.
            shared_memory: dynamic, in bytes.
            args: tensors, bytes of scalars, and mappings that describe tensor maps.
            pointees: tensors whose addresses are among the scalars.
        """
        try:
            device, module = self._loaded
            with contextlib.ExitStack() as mapped:
                for tensor in (*pointees, *reachable_tensors()):
                    mapped.enter_context(_at_its_address(device, tensor))
                converted = [_argument(device, arg) for arg in args]
                report = module[str(name)].launch(
                    tuple(grid),
                    tuple(block),
                    converted,
                    cluster=tuple(cluster) or None,
                    smem=shared_memory,
                )
            self._outcome.keep_report(report)
        except BaseException as error:
            self._outcome.keep_error(error)
            raise


def _argument(device: Any, arg: Any) -> Any:
    if isinstance(arg, bytes):
        return arg
    if isinstance(arg, Mapping) or hasattr(arg, "items"):
        return _tensor_map(device, {str(key): value for key, value in arg.items()})
    return _array(arg)


def _array(tensor: Any) -> np.ndarray:
    strides = tuple(stride * tensor.dtype.itemsize for stride in tensor.strides)
    return _memory(int(tensor.data_ptr()), tuple(tensor.shape), strides, tensor.dtype.itemsize)


def _at_its_address(device: Any, tensor: Any) -> Any:
    """Maps a tensor where it lies on the host: programs hold that address."""
    array = _array(tensor) if isinstance(tensor, tvm_ffi.Tensor) else tensor
    return device.map(array, address=int(tensor.data_ptr()), name="pointer")


def _memory(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int
) -> np.ndarray:
    """Returns memory as an array of unsigned integers: NumPy lacks the narrow float types.

    Args:
        address: of the first element.
        shape: in elements.
        strides: in bytes, none negative.
        size: of an element in bytes.
    """
    spans = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    length = sum(spans) + size if all(shape) else 0
    buffer = (ctypes.c_uint8 * length).from_address(address)
    return np.ndarray(shape, f"u{size}", memoryview(buffer), strides=strides if length else None)


# Names of the driver's codes.
_SWIZZLES = (None, "32B", "64B", "128B", "128B_atom32B")
_INTERLEAVES = (None, "16B", "32B")
_OOB_FILLS = ("zeros", "nan")


def _tensor_map(device: Any, description: dict[str, Any]) -> Any:
    size = int(description["element_bytes"])
    dims, strides = list(description["dims"]), [size, *description["strides"]]
    if interleave := int(description["interleave"]):
        # The array has one dimension more, the slice of channels.
        slice_bytes = 16 * interleave
        dims, strides = [slice_bytes // size, *dims], [size, slice_bytes, *strides[1:]]
    array = _memory(
        int(description["address"]), tuple(reversed(dims)), tuple(reversed(strides)), size
    )
    return device.tensor_map(
        array,
        box=tuple(reversed(description["box"])),
        swizzle=_SWIZZLES[int(description["swizzle"])],
        interleave=_INTERLEAVES[interleave],
        oob_fill=_OOB_FILLS[int(description["oob_fill"])],
        element_strides=tuple(reversed(description["element_strides"])),
        dtype=str(description["dtype"]),
    )
