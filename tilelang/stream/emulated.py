"""Queues and memory of a stream on the emulator.

Work of a queue happens when somebody needs it (``late``), at once (``eager``) or at random, as
:func:`tilelang.emulator.options` says of asynchronous operations when the stream is opened; so an
order that is missing shows in the tiles. It is found in any case: each queue has a vector clock, an
event carries that of its queue, and two accesses to a buffer of which one writes must be ordered.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..emulator.launch_options import current
from ..errors import EmulatorError
from .coarsen import KernelCoarsener
from .device import Source, host_bytes
from .filling import KernelFiller
from .plan import Plan
from .windows import Windows

_ALIGNMENT = 16


class EmulatedEvent:
    """A point of an emulated queue."""

    def __init__(self, queue: EmulatedQueue) -> None:
        self.queue = queue
        self.place = queue.submitted
        self.clock = dict(queue.clock)

    @property
    def done(self) -> bool:
        return self.queue.done >= self.place

    def synchronize(self, edge: str = "") -> None:
        self.queue.device.host().wait(self, edge)


class EmulatedQueue:
    """Work in order; see the top of this file for when it happens."""

    def __init__(self, device: EmulatedDevice, name: str, at_once: bool) -> None:
        self.device, self.name = device, name
        self.clock: dict[str, int] = {}
        self.submitted = self.done = 0
        self._at_once = at_once
        self._work: deque[Callable[[], None]] = deque()

    def submit(
        self,
        work: Callable[[], None],
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        with self.device.lock:
            self.note(reads, writes)
            self._add(work)

    def note(self, reads: Sequence[Hashable], writes: Sequence[Hashable]) -> None:
        """Notes work that touches buffers, in the order of the calling thread."""
        with self.device.lock:
            self._merge(self.device.host().clock)
            self.clock[self.name] = self.clock.get(self.name, 0) + 1
            self.device.check(self, reads, writes)

    def record(self) -> EmulatedEvent:
        with self.device.lock:
            return EmulatedEvent(self)

    def wait(self, event: Any, edge: str) -> None:
        with self.device.lock:
            self._merge(event.clock)
            if not event.done:
                self._add(lambda: event.queue.run_to(event.place))

    def run_to(self, place: int) -> None:
        """Does the work before ``place``."""
        while self.done < place:
            self.done += 1
            self._work.popleft()()

    def _merge(self, clock: dict[str, int]) -> None:
        for name, time in clock.items():
            self.clock[name] = max(self.clock.get(name, 0), time)

    def _add(self, work: Callable[[], None]) -> None:
        self._work.append(work)
        self.submitted += 1
        if self._at_once:
            self.run_to(self.submitted)
        self.device.some_work()


class _Uses:
    """The readings of a buffer since it was written, or the other way round, and what was before.

    Queues that read do not mind each other, nor do those that fill it together.
    """

    def __init__(self) -> None:
        self._kind = ""
        self._before: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def add(self, queue: EmulatedQueue, buffer: Hashable, kind: str) -> None:
        if kind != self._kind:
            self._kind, self._before, self._now = kind, self._now, {}
        for name, time in self._before.items():
            if queue.clock.get(name, 0) < time:
                raise EmulatorError(
                    f"data race: queue {queue.name!r} {kind} {buffer!r}, and nothing orders it "
                    f"behind what queue {name!r} did there before"
                )
        self._now[queue.name] = queue.clock[queue.name]


class EmulatedDevice:
    """The machine without a GPU."""

    staged = True
    batch_bytes = 256 << 20

    def __init__(self, target: str) -> None:
        self.target = target
        self.lock = threading.RLock()
        self._schedule = current().schedule
        seed = self._schedule if isinstance(self._schedule, int) else 0
        self._random = random.Random(seed)
        self._queues: list[EmulatedQueue] = []
        self._threads = threading.local()
        self._uses: dict[Hashable, _Uses] = {}

    def queue(self, name: str) -> EmulatedQueue:
        queue = EmulatedQueue(self, name, at_once=self._schedule == "eager")
        self._queues.append(queue)
        return queue

    def caller(self) -> EmulatedQueue:
        return self._of_thread("caller")

    def host(self) -> EmulatedQueue:
        """Returns what the calling thread does itself."""
        return self._of_thread("host")

    def _of_thread(self, role: str) -> EmulatedQueue:
        queue = getattr(self._threads, role, None)
        if queue is None:
            queue = EmulatedQueue(self, f"{role} {threading.get_ident()}", at_once=True)
            setattr(self._threads, role, queue)
        return queue

    def own_queue(self, name: str) -> AbstractContextManager[Any]:
        return nullcontext()

    def on_host(
        self, work: Callable[[], None], reads: Hashable = None, writes: Hashable = None
    ) -> None:
        self.host().note([reads] if reads else [], [writes] if writes else [])
        work()

    def some_work(self) -> None:
        """Does a bit of what was submitted, if the schedule is a random one."""
        if isinstance(self._schedule, int) and self._queues and self._random.random() < 0.5:
            queue = self._random.choice(self._queues)
            if queue.done < queue.submitted:
                queue.run_to(queue.done + 1)

    def check(
        self, queue: EmulatedQueue, reads: Sequence[Hashable], writes: Sequence[Hashable]
    ) -> None:
        """Refuses an access that nothing orders behind an earlier one to the same buffer."""
        for buffer in reads:
            self._uses.setdefault(buffer, _Uses()).add(queue, buffer, "reads")
        for buffer in writes:
            self._uses.setdefault(buffer, _Uses()).add(queue, buffer, "writes")

    def allocate(self, size: int) -> np.ndarray:
        return self.allocate_host(size)

    def allocate_host(self, size: int) -> np.ndarray:
        memory = np.empty(size + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        return memory[start : start + size]

    def filler(self, plan: Plan, pools: np.ndarray) -> KernelFiller:
        return KernelFiller(plan, self, pools)

    def coarsener(self, plan: Plan, windows: Windows, method: str) -> KernelCoarsener:
        return KernelCoarsener(plan, windows, method, self)

    def of_host(self, memory: np.ndarray) -> None:
        return None

    def copy(self, source: np.ndarray, target: np.ndarray) -> None:
        np.copyto(target, source)

    def gather(self, target: np.ndarray, source: np.ndarray, writes: Hashable) -> None:
        self.on_host(lambda: np.copyto(target, source), writes=writes)

    def upload(
        self,
        queue: EmulatedQueue,
        source: tuple[Source, int],
        target: tuple[np.ndarray, int],
        size: int,
        reads: Sequence[Hashable] = (),
        writes: Sequence[Hashable] = (),
    ) -> None:
        begin, memory, at = source[1], *target
        read = source[0].bytes[begin : begin + size]
        queue.submit(lambda: self.copy(read, memory[at : at + size]), reads, writes)

    def words(self, memory: np.ndarray, dtype: str, count: int) -> np.ndarray:
        return memory.view(dtype).reshape(-1, count)

    def tiles(self, memory: np.ndarray, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        return memory.view(dtype).reshape(tuple(shape))

    def keep(self, memory: np.ndarray, queue: EmulatedQueue) -> None:
        pass  # work that is left refers to it

    def complete(self, queues: Sequence[EmulatedQueue]) -> None:
        pass

    def address(self, memory: np.ndarray) -> int:
        return memory.ctypes.data

    def source(self, data: Any, dtype: np.dtype) -> Source:
        found = host_bytes(data, dtype)
        # A tensor of torch on the CPU is what the emulator takes for one of the device.
        kind = "host" if isinstance(data, np.ndarray) else "device"
        return Source(kind, found.size // dtype.itemsize, found, found.ctypes.data)
