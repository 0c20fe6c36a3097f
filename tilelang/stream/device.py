"""The device interface of a stream: memory, queues, events; for a GPU, the CPU and the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .plan import Plan
    from .pools import Batch, Part
    from .windows import Windows


class Event(Protocol):
    """A point of a queue."""

    @property
    def done(self) -> bool:
        """Whether everything before it has happened."""

    def synchronize(self, edge: str = "") -> None:
        """Lets the host wait for it; ``edge`` says what for (:mod:`tilelang.stream.edges`)."""


class Queue(Protocol):
    """Work that happens in order, beside that of other queues."""

    def submit(
        self,
        work: Callable[[], None],
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        """Adds work that touches the buffers of these names.

        Writers of a buffer between two readings write to different places of it.
        """

    def record(self) -> Event:
        """Returns the point after all work so far."""

    def wait(self, event: Event, edge: str) -> None:
        """Lets further work wait for an event."""


class Source(NamedTuple):
    """An array to append.

    Attributes:
        kind: where it lies: "host", "pinned" (in memory that the device reads) or "device".
        elements: how many.
        bytes: its memory, one-dimensional: an array of NumPy ("host") or of the device's library.
        address: of its first byte; 0 if only the host reads it.
    """

    kind: str
    elements: int
    bytes: Any
    address: int


class Filler(Protocol):
    """What puts elements into the tiles of a stream's pools; each method is work of a queue."""

    def fill(self) -> None:
        """Puts the padding where no element will come."""

    def scatter(self, part: Part, span: Any, address: int, count: int, position: int) -> None:
        """Puts ``count`` elements of memory ``span``, which begins at ``address``, into tiles."""

    def pad(self, part: Part, position: int) -> None:
        """Puts the padding into cells of a part that elements before ``position`` do not fill."""


class Coarsener(Protocol):
    """What reduces the windows of a batch to elements of a coarser stream; work of a queue."""

    def __call__(self, batch: Batch, coarse: Any) -> None:
        """Writes the windows that have begun in ``batch`` to bytes ``coarse`` of the device."""


class Device(Protocol):
    """A machine.

    Attributes:
        target: what kernels are compiled for.
        staged: whether arrays of the host are copied to the device before they go into tiles.
        batch_bytes: that a batch has at most, where nobody sets it.
    """

    target: str
    staged: bool
    batch_bytes: int

    def queue(self, name: str) -> Queue:
        """Returns a new queue."""

    def caller(self) -> Queue:
        """Returns the queue of the work that the calling thread has submitted elsewhere."""

    def own_queue(self, name: str) -> AbstractContextManager[Any]:
        """Gives the calling thread a queue of its own, which :meth:`caller` returns meanwhile."""

    def on_host(
        self, work: Callable[[], None], reads: Hashable = None, writes: Hashable = None
    ) -> None:
        """Lets the calling thread do what touches a buffer of the host."""

    def allocate(self, size: int) -> Any:
        """Returns ``size`` bytes of the device, one-dimensional, aligned to 16 bytes."""

    def allocate_host(self, size: int) -> np.ndarray:
        """Returns ``size`` bytes of the host from and to which the device copies."""

    def filler(self, plan: Plan, pools: Any) -> Filler:
        """Returns what fills the tiles of pools."""

    def coarsener(self, plan: Plan, windows: Windows, method: str) -> Coarsener:
        """Returns what reduces the windows of a batch."""

    def of_host(self, memory: Any) -> np.ndarray | None:
        """Returns bytes of the device as the host's, or None where it cannot address them."""

    def copy(self, source: Any, target: Any) -> None:
        """Copies bytes; work of a queue."""

    def gather(self, target: np.ndarray, source: np.ndarray, writes: Hashable) -> None:
        """Copies bytes of the host at once, into a buffer of this name."""

    def upload(
        self,
        queue: Any,
        source: tuple[Source, int],
        target: tuple[Any, int],
        size: int,
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        """Lets a queue copy bytes of pinned memory from an offset on to those of the device."""

    def words(self, memory: Any, dtype: str, count: int) -> Any:
        """Returns bytes as ``(n, count)`` words of an unsigned type."""

    def tiles(self, memory: Any, dtype: np.dtype, shape: Sequence[int]) -> Any:
        """Returns bytes as an array that speaks DLPack."""

    def keep(self, memory: Any, queue: Any) -> None:
        """Lets memory that is dropped be used for something else only after work of a queue."""

    def complete(self, queues: Sequence[Any]) -> None:
        """Waits for all work of queues whose memory is dropped."""

    def address(self, memory: Any) -> int:
        """Returns where bytes of the device lie."""

    def source(self, data: Any, dtype: np.dtype) -> Source:
        """Returns what an append is given.

        Raises:
            ArgumentError: it is no array of this type, or of another machine.
        """


def host_bytes(data: Any, dtype: np.dtype) -> np.ndarray:
    """Returns an array of the host as bytes in row-major order; copies one that is not so.

    Raises:
        ArgumentError: it is no array, or of another type.
    """
    if not isinstance(data, np.ndarray):
        if not hasattr(data, "__dlpack__"):
            raise ArgumentError(
                f"a stream takes arrays, not {type(data).__name__}",
                notes=["arrays of NumPy, torch or any library that speaks DLPack"],
            )
        try:
            data = np.from_dlpack(data)
        except (BufferError, RuntimeError, TypeError) as error:
            raise ArgumentError(f"cannot read this {type(data).__name__}: {error}") from None
    if isinstance(data, np.ma.MaskedArray):
        raise ArgumentError(
            "the array has a mask, which a stream does not keep", notes=["append data.filled(...)"]
        )
    if data.dtype != dtype:
        raise wrong_dtype(str(data.dtype), dtype)
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def wrong_dtype(found: str, expected: np.dtype) -> ArgumentError:
    """Returns the error of an array whose elements are not those of the stream."""
    return ArgumentError(
        f"the array has elements of {found}, the stream of {expected}",
        notes=[f"convert it, or open the stream with dtype={found!r}"],
    )


def size_of(shape: Sequence[int], dtype: np.dtype) -> int:
    """Returns bytes of an array."""
    return math.prod(shape) * dtype.itemsize


def open_device(name: str, target: str, threads: int | None = None) -> Device:
    """Returns the machine of this name; ``threads``: of the CPU, that fill tiles.

    Raises:
        ArgumentError: there is none.
        ModuleNotFoundError: "cuda" without torch.
    """
    if name == "cpu":
        from .native import CpuDevice

        return CpuDevice(threads)
    if name == "emulator":
        from .emulated import EmulatedDevice

        return EmulatedDevice(target)
    if name == "cuda" or name.startswith("cuda:"):
        from .cuda import CudaDevice

        return CudaDevice(name, target)
    raise ArgumentError(
        f"no device {name!r}",
        notes=["device='cpu', 'cuda', 'cuda:1' and so on, or 'emulator'"],
    )
