"""Launches whose tensors are on the CPU run on the emulator."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..emulator.launch_options import current as current_options
from ..emulator.memory import Extent, extent_of
from ..emulator.progress import DAEMONS
from ..emulator.reachable import current as reachable_tensors
from ..emulator.reachable import live_tensors, possible_addresses
from ..emulator.unwritten import OUTPUTS
from ..errors import UnsupportedError
from ..runtime import poison
from ..runtime.code import Code
from ..runtime.regions import Regions, Span


class Outcome:
    """The outcome of the launches of a kernel on the emulator.

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
        """Hands the report of every launch of this thread inside the block to ``listener``."""
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


class _Streams(threading.local):
    """The launches of each thread, which follow each other on the GPU of an architecture."""

    def __init__(self) -> None:
        self._streams: dict[str, Any] = {}

    def of(self, arch: str) -> Any:
        from ..emulator import Stream

        return self._streams.setdefault(arch, Stream())


_STREAMS = _Streams()


class Emulation:
    """Runs the launches of a kernel on the emulator when it is called with CPU tensors."""

    def __init__(
        self,
        arch: str,
        code: Code,
        outcome: Outcome,
        tiles: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Takes compiled code.

        Args:
            arch: the architecture that it is for.
            code: has the PTX.
            outcome: is told how launches end.
            tiles: in shared memory and registers (``tl.NamedTile``), of kernels by their names.
        """
        self._arch = arch
        self._code = code
        self._outcome = outcome
        self._tiles = tiles or {}

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
        module = device.load_ptx(self._code.ptx)
        module.assembly_log = lambda: self._code.log
        for name, tiles in self._tiles.items():
            if kernel := module.kernels.get(name):  # a postprocessed source may have others
                kernel.name_tiles(tiles)
        return device, module

    @DAEMONS.launching()
    def __call__(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int],
        shared_memory: int,
        args: Sequence[Any],
        pointees: Sequence[Any] = (),
        allocated: Sequence[Any] = (),
        dependent: bool = False,
    ) -> None:
        """Runs one grid to its end.

        Args:
            name: of the kernel.
            grid, block: three extents, x first.
            cluster: three extents, or none.
            shared_memory: dynamic, in bytes.
            args: tensors, bytes of scalars, and mappings that describe tensor maps.
            pointees: tensors whose addresses are among the scalars.
            allocated: tensors that the call has just allocated.
            dependent: it may begin before the launch before it has ended.
        """
        try:
            device, module = self._loaded
            stream = _STREAMS.of(self._arch)
            options = current_options()
            _fill(allocated, skips=bool(options.sample_size) and options.rest == "skip")
            args = [_with_element(arg) for arg in args]
            spans = [_span(arg) for arg in args]
            named = (*pointees, *reachable_tensors())
            known = [extent_of(tensor) for tensor in named]
            known += map(extent_of, live_tensors(_unknown_addresses(args, spans, known)))
            own = [Span(each.begin, (each.end - each.begin,), (1,), 1) for each in known]
            regions = Regions([*own, *(span for span in spans if span is not None)])
            with contextlib.ExitStack() as mapped:
                for span in own:  # where they lie on the host: programs hold that address
                    mapped.enter_context(
                        device.map(regions.array(span), address=span.address, name="pointer")
                    )
                converted = [
                    _argument(device, arg, None if span is None else regions.array(span))
                    for arg, span in zip(args, spans, strict=True)
                ]
                report = module[str(name)].launch(
                    tuple(grid),
                    tuple(block),
                    converted,
                    cluster=tuple(cluster) or None,
                    smem=shared_memory,
                    programmatic=dependent and stream.may_overlap,
                    stream=stream,
                )
            self._outcome.keep_report(report)
        except BaseException as error:
            self._outcome.keep_error(error)
            raise


def _fill(tensors: Sequence[Any], *, skips: bool) -> None:
    """Fills new tensors, so that a kernel that uses an unwritten element is reported.

    Args:
        skips: some blocks do not run, and leave their part unwritten.
    """
    if skips:
        poison.fill(tensors)
    else:
        for tensor in tensors:
            span = poison.span_of(tensor)
            OUTPUTS.allocate(span.address, span.end - span.address, str(tensor.dtype))
    poison.allocated(tensors)


def _unknown_addresses(
    args: Sequence[Any], spans: Sequence[Span | None], known: Sequence[Extent]
) -> np.ndarray:
    """Returns the 64-bit integers of a launch that may be addresses of unknown memory."""
    words = [np.zeros(0, np.uint64)]
    for arg, span in zip(args, spans, strict=True):
        if span is None:
            scalar = isinstance(arg, bytes) and len(arg) == 8
            words.append(np.frombuffer(arg, np.uint64) if scalar else words[0])
        elif span.itemsize == 8 and "int" in str(getattr(arg, "dtype", "")):
            words.append(Regions([span]).array(span).ravel())
    found = possible_addresses(np.concatenate(words))
    ranges = [(each.begin, each.end) for each in known]
    ranges += [(span.address, span.end) for span in spans if span is not None]
    inside = np.zeros(len(found), bool)
    for begin, end in ranges if len(found) else ():
        inside |= (found >= begin) & (found < end)
    return found[~inside]


def _span(arg: Any) -> Span | None:
    """Returns the memory that an argument stands for; None for the bytes of a scalar."""
    if isinstance(arg, bytes) or _is_absent(arg):
        return None
    if not hasattr(arg, "items"):
        return poison.span_of(arg)
    size = int(arg["element_bytes"])
    dims: list[int] = list(arg["dims"])
    if padded := _PADDED.get(arg["dtype"]):
        dims[0] = dims[0] * padded.bits // 8
    steps: list[int] = [size, *arg["strides"]]
    if interleave := int(arg["interleave"]):
        # The array has one dimension more, the slice of channels.
        slice_bytes = 16 * interleave
        dims, steps = [slice_bytes // size, *dims], [size, slice_bytes, *steps[1:]]
    return Span(int(arg["address"]), tuple(reversed(dims)), tuple(reversed(steps)), size)


def _with_element(arg: Any) -> Any:
    """Gives the tensor map of an empty tensor one element, which is zero."""
    if isinstance(arg, bytes) or not hasattr(arg, "items") or arg["address"]:
        return arg
    element = np.zeros(2 * 16)  # bytes enough for a slice of an interleaved map
    return {**arg, "address": element.ctypes.data, "element": element}


def _is_absent(arg: Any) -> bool:
    """Returns whether it is the tensor map of a tensor that is None."""
    return hasattr(arg, "items") and bool(arg["absent"])


def _absent_map(device: Any, arg: Any) -> Any:
    """Returns a tensor map of absent memory: every copy by it fails."""
    return device.encode_tiled(
        data_type=arg["data_type"],
        rank=len(arg["dims"]),
        global_address=arg["address"],
        global_dim=arg["dims"],
        global_strides=arg["strides"],
        box_dim=arg["box"],
        element_strides=arg["element_strides"],
        interleave=arg["interleave"],
        swizzle=arg["swizzle"],
        oob_fill=arg["oob_fill"],
    )


def _argument(device: Any, arg: Any, array: np.ndarray | None) -> Any:
    """Returns the argument that a kernel gets: the bytes of a scalar, an array, or a tensor map."""
    if _is_absent(arg):
        return _absent_map(device, arg)
    if array is None:
        return arg
    return _tensor_map(device, arg, array) if hasattr(arg, "items") else array


# Names of the driver's codes.
_SWIZZLES = (None, "32B", "64B", "128B", "128B_atom32B")
_INTERLEAVES = (None, "16B", "32B")
_OOB_FILLS = ("zeros", "nan")


class _Padded(NamedTuple):
    """A type that is padded in shared memory: the emulator's name, and bits in the tensor."""

    name: str
    bits: int


# Types that are not listed have their own names, and whole bytes.
_PADDED = {"uint4": _Padded("u4_unpack_u8", 4), "uint6": _Padded("u6_unpack_u8", 6)}


def _tensor_map(device: Any, description: Mapping[str, Any], array: np.ndarray) -> Any:
    dtype = str(description["dtype"])
    padded = _PADDED.get(dtype)
    return device.tensor_map(
        array,
        box=tuple(reversed(description["box"])),
        swizzle=_SWIZZLES[int(description["swizzle"])],
        interleave=_INTERLEAVES[int(description["interleave"])],
        oob_fill=_OOB_FILLS[int(description["oob_fill"])],
        element_strides=tuple(reversed(description["element_strides"])),
        dtype=dtype if padded is None else padded.name,
    )
