"""How launches run that do not say it themselves."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from tilelang.emulator.numbers import integer
from tilelang.errors import UserError

_SCHEDULES = ("late", "eager")
_LINTS = ("ld-before-wait",)
_MAX_SEED = (1 << 63) - 1
_MAX_THREADS = 1024


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a launch.

    Attributes:
        schedule: when asynchronous operations act: ``"late"`` (as late as their completion
            mechanism allows), ``"eager"`` (at once) or a seed for a random
            legal order, 0 to 2**63 - 1.
        lint: names of additional checks: ``"ld-before-wait"``.
        instruction_limit: warp instructions after which the launch is an error; 0: none.
        threads: host threads; 0: all cores. Kernels whose CTAs exchange values through global
            memory run on one, so that results do not depend on the host.
        sanitize: report accesses to shared and tensor memory that no barrier, wait or fence
            orders; False makes kernels that use much shared memory faster.
        progress: show a progress bar when the launch takes more than two seconds.

    Raises:
        UserError: there is no such schedule or lint, or a number is out of range.
    """

    schedule: str | int = "late"
    lint: Iterable[str] = ()
    instruction_limit: int = 0
    threads: int = 0
    sanitize: bool = True
    progress: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.schedule, str) and self.schedule not in _SCHEDULES:
            raise UserError(f"schedule must be 'late', 'eager' or a seed, got {self.schedule!r}")
        if self.schedule not in _SCHEDULES:
            self._set("schedule", integer("the seed of schedule", self.schedule, 0, _MAX_SEED))
        limit = integer("instruction_limit", self.instruction_limit, 0, _MAX_SEED)
        self._set("instruction_limit", limit)
        self._set("threads", integer("threads", self.threads, 0, _MAX_THREADS))
        if not isinstance(self.lint, Iterable):
            raise UserError(f"lint must be names of checks, got {self.lint!r}")
        lint = (self.lint,) if isinstance(self.lint, str) else tuple(self.lint)
        for name in lint:
            if name not in _LINTS:
                raise UserError(f"no lint {name!r}; there is {', '.join(map(repr, _LINTS))}")
        self._set("lint", lint)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


_DEFAULTS = Options()
_current: contextvars.ContextVar[Options] = contextvars.ContextVar("options")


def current(**changes: Any) -> Options:
    """Returns the options that hold here, with changes."""
    return dataclasses.replace(_current.get(_DEFAULTS), **changes)


@contextlib.contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Launches inside of the block have these :class:`Options` unless they give their own.

    That holds for compiled kernels called with CPU tensors, too::

        with tilelang.emulator.options(lint=["ld-before-wait"], schedule=7):
            kernel(a, b, c)

    Blocks nest; what an inner one does not name stays. A block is seen by its own thread only.

    Raises:
        UserError: there is no such schedule or lint.
        TypeError: there is no such option.
    """
    chosen = current(**changes)
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
