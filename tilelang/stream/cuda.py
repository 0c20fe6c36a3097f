"""Queues and memory of a stream on a GPU: streams, events and tensors of torch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..errors import ArgumentError, DriverError
from .coarsen import KernelCoarsener
from .device import Source, host_bytes, wrong_dtype
from .errors import missing_library
from .filling import KernelFiller
from .plan import Plan
from .windows import Windows

#: Bytes from which on several threads copy within the host's memory, unless the GPU can read it.
_THREADED_COPY = 256 << 10
_CUDA, _CUDA_HOST, _CUDA_MANAGED = 2, 3, 13  # of DLPack


class CudaEvent:
    """A point of a CUDA stream."""

    def __init__(self, event: Any) -> None:
        self.event = event

    @property
    def done(self) -> bool:
        return self.event.query()

    def synchronize(self, edge: str = "") -> None:
        self.event.synchronize()


class CudaQueue:
    """A CUDA stream; None stands for the current one of the calling thread."""

    def __init__(self, torch: Any, stream: Any, current: bool) -> None:
        self._torch, self.stream, self._current = torch, stream, current
        self.handle = stream.cuda_stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaQueue) and self.stream == other.stream

    def __hash__(self) -> int:
        return hash(self.stream)

    def submit(
        self,
        work: Callable[[], None],
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        if self._current:
            work()
            return
        with self._torch.cuda.stream(self.stream):
            work()

    def record(self) -> CudaEvent:
        event = self._torch.cuda.Event()
        event.record(self.stream)
        return CudaEvent(event)

    def wait(self, event: Any, edge: str) -> None:
        self.stream.wait_event(event.event)


class CudaDevice:
    """A GPU."""

    staged = True
    batch_bytes = 256 << 20

    def __init__(self, name: str, target: str) -> None:
        try:
            import torch
        except ModuleNotFoundError:
            raise missing_library("torch", "torch", f"a stream with device={name!r}") from None
        if not torch.cuda.is_available():
            raise DriverError(
                f"device={name!r}, but torch finds no GPU here",
                notes=["device='emulator' needs none"],
            )
        from cuda.bindings import driver

        self.target = target
        self._dtypes: dict[np.dtype, Any] = {}
        self._torch, self._driver = torch, driver
        index = torch.device(name).index
        self._index = torch.cuda.current_device() if index is None else index
        self._device = torch.device("cuda", self._index)

    def queue(self, name: str) -> CudaQueue:
        return CudaQueue(self._torch, self._torch.cuda.Stream(self._device), current=False)

    def caller(self) -> CudaQueue:
        return CudaQueue(self._torch, self._torch.cuda.current_stream(self._device), current=True)

    def own_queue(self, name: str) -> AbstractContextManager[Any]:
        return self._torch.cuda.stream(self._torch.cuda.Stream(self._device))

    def on_host(
        self, work: Callable[[], None], reads: Hashable = None, writes: Hashable = None
    ) -> None:
        work()

    def allocate(self, size: int) -> Any:
        memory = self._torch.empty(size, dtype=self._torch.uint8, device=self._device)
        # Queues of the stream use it without telling the allocator, which may not know of them.
        self._torch.cuda.current_stream(self._device).synchronize()
        return memory

    def allocate_host(self, size: int) -> np.ndarray:
        return self._torch.empty(size, dtype=self._torch.uint8, pin_memory=True).numpy()

    def filler(self, plan: Plan, pools: Any) -> KernelFiller:
        return KernelFiller(plan, self, pools)

    def coarsener(self, plan: Plan, windows: Windows, method: str) -> KernelCoarsener:
        return KernelCoarsener(plan, windows, method, self)

    def of_host(self, memory: Any) -> None:
        return None

    def copy(self, source: Any, target: Any) -> None:
        self._tensor(target).copy_(self._tensor(source), non_blocking=True)

    def gather(self, target: np.ndarray, source: np.ndarray, writes: Hashable) -> None:
        if source.size < _THREADED_COPY or not source.flags.writeable:
            np.copyto(target, source)
        else:
            self._tensor(target).copy_(self._tensor(source))

    def upload(
        self,
        queue: CudaQueue,
        source: tuple[Source, int],
        target: tuple[Any, int],
        size: int,
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        if self._torch.cuda.current_device() != self._index:
            with self._torch.cuda.device(self._device):
                self.upload(queue, source, target, size)
            return
        address, to = source[0].address + source[1], target[0].data_ptr() + target[1]
        [status] = self._driver.cuMemcpyAsync(to, address, size, queue.handle)
        if status == self._driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:  # a thread's first work
            queue.record()
            [status] = self._driver.cuMemcpyAsync(to, address, size, queue.handle)
        if status:
            raise DriverError(f"copying {size} bytes to {self._device}: {status.name}")

    def _tensor(self, memory: Any) -> Any:
        return self._torch.from_numpy(memory) if isinstance(memory, np.ndarray) else memory

    def words(self, memory: Any, dtype: str, count: int) -> Any:
        return memory.view(getattr(self._torch, dtype)).view(-1, count)

    def tiles(self, memory: Any, dtype: np.dtype, shape: Sequence[int]) -> Any:
        return memory.view(self._torch_dtype(dtype)).view(tuple(shape))

    def keep(self, memory: Any, queue: CudaQueue) -> None:
        memory.record_stream(queue.stream)

    def complete(self, queues: Sequence[CudaQueue]) -> None:
        for queue in queues:
            queue.stream.synchronize()

    def address(self, memory: Any) -> int:
        return memory.data_ptr()

    def source(self, data: Any, dtype: np.dtype) -> Source:
        torch = self._torch
        if not isinstance(data, torch.Tensor):
            kind = data.__dlpack_device__()[0] if hasattr(data, "__dlpack_device__") else None
            if kind not in (_CUDA, _CUDA_HOST, _CUDA_MANAGED):
                return self._host_source(host_bytes(data, dtype), dtype)
            data = torch.from_dlpack(data)
        if data.dtype is not self._torch_dtype(dtype):
            raise wrong_dtype(str(data.dtype).removeprefix("torch."), dtype)
        plain = data.is_contiguous() and not (data.is_conj() or data.is_neg())
        flat = data if plain else data.detach().resolve_conj().resolve_neg().contiguous()
        if data.is_cpu:
            if not flat.is_pinned():
                flat = flat.detach().view(-1).view(torch.uint8)
                return self._host_source(flat.numpy(), dtype)
            return Source("pinned", flat.numel(), flat, flat.data_ptr())
        flat = flat.detach().view(-1).view(torch.uint8)
        if data.device.index != self._index:
            raise ArgumentError(
                f"the array is on {data.device}, the stream on {self._device}",
                notes=["move it, or open the stream there"],
            )
        return Source("device", data.numel(), flat, flat.data_ptr())

    def _torch_dtype(self, dtype: np.dtype) -> Any:
        found = self._dtypes.get(dtype)
        if found is None:
            found = self._dtypes[dtype] = getattr(self._torch, dtype.name)
        return found

    def _host_source(self, found: np.ndarray, dtype: np.dtype) -> Source:
        elements = found.size // dtype.itemsize
        if found.size >= _THREADED_COPY and found.flags.writeable:
            tensor = self._torch.from_numpy(found)
            if tensor.is_pinned():
                return Source("pinned", elements, found, tensor.data_ptr())
        return Source("host", elements, found, 0)
