"""Consumers of a stream that work in a thread of their own."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from .device import Device
from .errors import StreamError, WouldBlock
from .pools import Batch, Pools


class Worker:
    """Takes batches in a thread; subclasses say what is done with them.

    When that fails, the stream's next append, flush or close raises a :class:`StreamError` with the
    cause. What failed is kept, pools are not overwritten, and :meth:`retry` does it again.

    Attributes:
        name: in messages.
        batches: how many are done.
    """

    def __init__(self, name: str, pools: Pools, device: Device) -> None:
        self.name = name
        self.batches = 0
        self._pools, self._device = pools, device
        self._consumer = pools.consumer(name)
        self._failed = False
        self._thread = threading.Thread(target=self._run, name=f"stream {name}", daemon=True)
        self._consumer.owner, self._consumer.claimed = self._thread, True

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def take(self, batch: Batch) -> None:
        """Reads a batch and releases it; called once for each."""
        raise NotImplementedError

    def work(self, batch: Batch) -> None:
        """Does the rest, which may fail; called again by :meth:`retry`."""

    def finish(self) -> None:
        """Is called after the last batch."""

    def publish(self) -> None:
        """Lets others see what is done so far; called by a flush, when no batch is left."""

    def _run(self) -> None:
        with self._device.own_queue(self.name):
            while (batch := self._pools.take(self._consumer, None)) is not None:
                self._attempt(functools.partial(self._pools.reach, batch), batch)
                self._attempt(functools.partial(self.take, batch), batch)
                self._attempt(functools.partial(self.work, batch), batch)
                with self._pools.changed:
                    self.batches += 1
                    self._pools.changed.notify_all()
            self._attempt(self.finish, None)

    def _attempt(self, step: Any, batch: Batch | None) -> None:
        """Does a step again and again until it succeeds, whenever :meth:`retry` is called."""
        while True:
            try:
                step()
                return
            except Exception as error:
                where = f"at batch {batch.number}" if batch else "at its end"
                failure = StreamError(
                    f"{self.name} failed {where}: {type(error).__name__}: {error}",
                    cause=error,
                    notes=[
                        "nothing is lost: the batch is kept, and later ones wait; put the cause "
                        "right, call retry() of what to() or pyramid() returned, and go on"
                    ],
                )
            with self._pools.changed:
                self._failed = True
                self._pools.fail(failure)
                self._pools.changed.wait_for(lambda: not self._failed)

    def retry(self) -> None:
        """Lets what failed be done again."""
        with self._pools.changed:
            if self._failed:
                self._failed = False
                self._pools.fail(None)

    def drain(self, timeout: float | None) -> None:
        """Waits until all batches so far are done.

        Raises:
            StreamError: one failed, or they took longer than ``timeout`` seconds.
            WouldBlock: they wait for what only the calling thread could release.
        """
        since = time.monotonic()
        deadline = None if timeout is None else since + timeout
        with self._pools.changed:
            while self.batches < self._consumer.given:
                self._pools.check()
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    left = self._consumer.given - self.batches
                    raise StreamError(f"{self.name} has {left} batches left after {timeout:g} s")
                if self._stuck(since):
                    raise WouldBlock(
                        f"{self.name} waits for pools that only this thread could release",
                        notes=["take batches from ready() of the pyramid, and close again"],
                    )
                self._pools.changed.wait(0.1 if rest is None else min(rest, 0.1))

    def _stuck(self, since: float) -> bool:
        waited = time.monotonic() - since
        return self._consumer.waits_for(threading.get_ident(), waited)

    def stop(self) -> None:
        """Waits for the thread to end, unless it waits for :meth:`retry` or for this thread."""
        since = time.monotonic()
        while self._thread.is_alive() and not self._failed and not self._stuck(since):
            self._thread.join(0.1)
