"""The pools of a stream: who fills them, who reads them, and who waits for whom."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError
from .errors import StreamError, WouldBlock

if TYPE_CHECKING:
    from .device import Device, Event

#: Seconds after which a wait without a time limit asks whether anybody can end it.
_PATIENCE = 5.0


class Batch:
    """Finished tiles of consecutive epochs, in a pool until :meth:`release`; a context manager.

    Work that the calling thread submits after it got the batch comes after the tiles were filled,
    and before the pool is filled anew if it was submitted before ``release``.

    Attributes:
        number: of the batch, from 0.
        tiles: ``(count, *tile)``, of NumPy on the emulator and of torch on a GPU; DLPack. The axes
            of a tile are in the order in which the stream stores them.
        index: the place of each tile among the tiles of the stored array, int64 ``(count, rank)``.
        extents: how much of each tile lies in the array, int64 ``(count, rank)``.
        event: the point at which the tiles are complete: ``event.done``.
        is_last: whether the stream ends with it.
    """

    def __init__(
        self,
        part: Part,
        pools: Any,
        memory: Any,
        tiles: Any,
        places: tuple[np.ndarray, np.ndarray],
        event: Event,
        is_last: bool,
    ) -> None:
        self.number, self.is_last = part.number, is_last
        self.part, self.pools = part, pools
        self.memory, self.tiles, self.event = memory, tiles, event
        self.index, self.extents = places
        self._release: Callable[[Event], None] | None = None
        self._device: Any = None

    def __len__(self) -> int:
        return len(self.index)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.tiles.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.tiles.__dlpack_device__()

    def for_consumer(self, device: Device, release: Callable[[Event], None]) -> Batch:
        """Returns the batch as one consumer gets it."""
        own = copy.copy(self)
        own._device, own._release = device, release
        return own

    def release(self, event: Event | None = None) -> None:
        """Gives the pool back: its tiles may be overwritten. A second call does nothing.

        Args:
            event: after which the tiles are not read; None: all work so far of this thread.
        """
        release, self._release = self._release, None
        if release is not None:
            release(event if event is not None else self._device.caller().record())

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Part:
    """A part of the stream that fills a pool.

    Attributes:
        number: of the batch that it becomes.
        pool: where it lies.
        epoch, end_epoch: which epochs; the second one is exclusive.
        begin, end: positions of the stream; the second one is where it ends if the stream does.
        idle: events after which the pool is not read.
    """

    def __init__(
        self, number: int, pool: int, epochs: tuple[int, int], span: tuple[int, int]
    ) -> None:
        self.number, self.pool = number, pool
        self.epoch, self.end_epoch = epochs
        self.begin, self.end = span
        self.idle: list[Event] = []


class Consumer:
    """Somebody who gets every batch and gives it back; several of them may read one at a time.

    Attributes:
        name: in messages.
    """

    def __init__(self, name: str, pools: Pools) -> None:
        self.name = name
        self.batches: deque[Batch] = deque()
        self.held: set[int] = set()
        self.given = 0
        self.owner = threading.current_thread()
        self.claimed = False
        self.feeds: Pools | None = None
        self._pools = pools

    def ready(self, timeout: float | None = 0.0) -> Iterator[Batch]:
        """Yields finished batches; each is released when the next one is asked for.

        Args:
            timeout: seconds to wait for a batch; 0: only those that are finished; None: until the
                stream is closed.
        """
        self.owner, self.claimed = threading.current_thread(), True
        while (batch := self._pools.take(self, timeout)) is not None:
            with batch:
                self._pools.reach(batch)
                yield batch

    def waits_for(self, thread: int, waited: float) -> bool:
        """Whether only this thread can make the consumer release what it holds, or nobody.

        Args:
            thread: its identifier.
            waited: seconds that the thread has waited. A consumer that nobody has asked for
                batches, or whose thread has ended, has some of them to go on.
        """
        if self.feeds is not None:
            return self.feeds.stuck(thread, waited)
        if not self.claimed or not self.owner.is_alive():
            return waited >= _PATIENCE
        return self.owner.ident == thread


class Pools:
    """The states of the pools: free, being filled, or held; any thread may call its methods."""

    def __init__(self, count: int, device: Device) -> None:
        self.changed = threading.Condition()
        self.consumers: list[Consumer] = []
        self.failure: BaseException | None = None
        self.closed = False
        self._device = device
        self._free: deque[tuple[int, list[Event]]] = deque((pool, []) for pool in range(count))
        self._holders: dict[int, int] = {}
        self._count = count
        self._waiting = 0

    def consumer(self, name: str) -> Consumer:
        """Adds a consumer, who gets the batches that are finished from now on."""
        consumer = Consumer(name, self)
        with self.changed:
            self.consumers.append(consumer)
        return consumer

    def acquire(self, timeout: float | None) -> tuple[int, list[Event]]:
        """Returns a pool that nobody holds, and the events after which nobody reads it.

        Args:
            timeout: seconds to wait; None: as long as somebody may release one.

        Raises:
            WouldBlock: there was none in time, or only the calling thread could release one.
            StreamError: a consumer failed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        since = time.monotonic()
        with self.changed, self._wait():
            while not self._free:
                self.check()
                if self.closed:
                    raise StreamError("the stream was closed while an append waited for a pool")
                now = time.monotonic()
                if deadline is not None and now >= deadline:
                    raise self._would_block(f"after {timeout:g} s" if timeout else "now")
                if deadline is None and self.stuck(threading.get_ident(), now - since):
                    raise self._would_block("by waiting, as only this thread could release one")
                rest = 0.1 if deadline is None else min(deadline - now, 0.1)
                self.changed.wait(rest)
            return self._free.popleft()

    @contextmanager
    def _wait(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def check(self) -> None:
        """Raises what made a consumer fail."""
        if self.failure is not None:
            raise self.failure

    def stuck(self, thread: int, waited: float) -> bool:
        """Whether somebody waits for a pool that only ``thread`` could release, or nobody."""
        with self.changed:
            stuck = [c for c in self.consumers if c.held and c.waits_for(thread, waited)]
            return (
                self._waiting > 0
                and len(self._holders) == self._count
                and all(any(batch in c.held for c in stuck) for batch in self._holders)
            )

    def _would_block(self, when: str) -> WouldBlock:
        holders = [
            f"{consumer.name!r} holds {', '.join(map(str, sorted(consumer.held)))}"
            + (", and its thread has ended" if not consumer.owner.is_alive() else "")
            for consumer in self.consumers
            if consumer.held
        ]
        return WouldBlock(
            f"no pool is free {when}: consumers hold all {self._count} (batches: "
            f"{'; '.join(holders)})",
            notes=["take batches from ready() and release them, in another thread or in between"],
        )

    def hand_over(self, batch: Batch) -> None:
        """Gives a finished batch to all consumers."""
        with self.changed:
            events: list[Event] = []
            self._holders[batch.number] = len(self.consumers)
            for consumer in self.consumers:
                consumer.held.add(batch.number)
                consumer.given += 1
                release = self._releaser(consumer, batch.part, events)
                consumer.batches.append(batch.for_consumer(self._device, release))
            self.changed.notify_all()

    def _releaser(
        self, consumer: Consumer, part: Part, events: list[Event]
    ) -> Callable[[Event], None]:
        def release(event: Event) -> None:
            with self.changed:
                events.append(event)
                consumer.held.discard(part.number)
                self._holders[part.number] -= 1
                if self._holders[part.number] == 0:
                    del self._holders[part.number]
                    self._free.append((part.pool, events))
                self.changed.notify_all()

        return release

    def take(self, consumer: Consumer, timeout: float | None) -> Batch | None:
        """Returns the next batch of a consumer; None if none comes in time, or ever."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.changed:
            while not consumer.batches:
                rest = None if deadline is None else deadline - time.monotonic()
                if self.closed or (rest is not None and rest <= 0):
                    return None
                self.changed.wait(rest)
            return consumer.batches.popleft()

    def reach(self, batch: Batch) -> None:
        """Lets further work of the calling thread come after the batch's tiles are complete."""
        queue = self._device.caller()
        queue.wait(batch.event, "filled")
        self._device.keep(batch.memory, queue)
        queue.submit(lambda: None, reads=[("pool", batch.part.pool)])

    def close(self) -> None:
        """Lets consumers who wait for batches end when they have got all."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def fail(self, error: BaseException | None) -> None:
        """Lets appends raise ``error`` from now on; None: no more."""
        with self.changed:
            self.failure = error
            self.changed.notify_all()


def check_timeout(timeout: Any) -> None:
    """Raises an ArgumentError unless it is None or a number of seconds."""
    if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
        raise ArgumentError(f"timeout={timeout!r} is no number of seconds, nor None")
