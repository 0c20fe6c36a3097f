"""Lets a caller stand between the launches of a block and the emulator."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .clock import run_timed
from .timed import Timing, TimingOptions

if TYPE_CHECKING:
    from .device import Kernel, LaunchReport, Stream
    from .extents import Extents
    from .timing import Report


class Packed(NamedTuple):
    """A launch whose arguments lie in emulated memory.

    Attributes:
        dims: extents of grid, block and cluster.
        smem: dynamic shared memory in bytes.
        params: the bytes of the parameter space.
        programmatic: it may begin before the launch before it in its stream has ended.
        stream: what it follows.
    """

    dims: Extents
    smem: int
    params: bytes
    programmatic: bool
    stream: Stream


class Launch:
    """A launch that is about to run, as often as its watcher likes.

    Attributes:
        kernel: the emulator's kernel.
        packed: its extents and arguments.
        given: the options that the launch itself names.
        grid, block, cluster: three extents each, x first.
    """

    def __init__(
        self, kernel: Kernel, packed: Packed, given: dict[str, Any],
        execute: Callable[[Any], LaunchReport],
    ) -> None:  # fmt: skip
        self.kernel, self.packed, self.given = kernel, packed, given
        extents = packed.dims.flat
        self.grid, self.block = tuple(extents[:3]), tuple(extents[3:6])
        self.cluster = tuple(extents[6:])
        self._execute = execute
        self._undone = False

    def run(self, **changes: Any) -> LaunchReport:
        """Runs it once, with other :class:`~tilelang.emulator.Options` than the launch's own."""
        return self._execute(changes)

    def memory(self) -> list[np.ndarray]:
        """Returns the bytes that the kernel may write, in place."""
        return self.kernel.module.device.memory.writable()

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Restores memory after the launches inside the block."""
        memory = self.memory()
        before = [part.copy() for part in memory]
        self._undone = True
        try:
            yield
        finally:
            self._undone = False
            for part, values in zip(memory, before, strict=True):
                part[...] = values

    def profile(self, timing: TimingOptions | None = None) -> Report:
        """Times it by the model; its memory changes, unless that is :meth:`undone`.

        By default only the CTAs that are timed in detail run. They compute all that they write
        unless it is undone, since later launches may read it.
        """
        from .timing import profile_call

        def call(how: TimingOptions) -> list[Timing | None]:
            return [self.run(timing=how).timing]

        return profile_call(call, timing, alone=self._undone)


#: Runs a launch, or several times, and returns the report that its caller is to have.
Watcher = Callable[[Launch], "LaunchReport"]
_watcher: contextvars.ContextVar[Watcher | None] = contextvars.ContextVar("watcher", default=None)


@contextlib.contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Launches inside of the block, of compiled kernels too, are handed to ``watcher``.

    Launches that the watcher makes are its own business. A block is seen by its own thread only.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def execute(
    kernel: Kernel, packed: Packed, run: Callable[[Any], LaunchReport], given: dict[str, Any]
) -> LaunchReport:
    """Runs a launch, by the watcher if there is one.

    Args:
        packed: its extents and arguments.
        run: runs it with changed options.
        given: the options that the launch itself names.
    """
    watcher = _watcher.get()
    if watcher is None:
        return run_timed(run, given)

    def again(changes: dict[str, Any]) -> LaunchReport:
        with watching(None):
            return run_timed(run, {**given, **changes})

    return watcher(Launch(kernel, packed, given, again))


__all__ = ["Launch", "Packed", "Watcher", "watching"]
