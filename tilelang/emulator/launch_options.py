"""Default options of launches."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from tilelang.emulator.errors import EmulatorWarning
from tilelang.emulator.levels import LETTERS
from tilelang.emulator.numbers import integer
from tilelang.emulator.profiles import STRICT, Profile, chosen_profile
from tilelang.emulator.sample import USUAL
from tilelang.emulator.timed import timing_options
from tilelang.errors import UserError

#: The kinds of what the checks of ordering find; they can be suppressed.
FINDINGS = (
    "race", "missing-wait", "missing-proxy-fence", "missing-mbarrier-fence",
    "missing-tcgen05-fence", "missing-wgmma-fence", "missed-phase", "ld-before-wait",
    "uninitialised-register", "uninitialised-tmem", "outside-tile", "store-at-exit",
    "relaxed-order", "lanes-in-step",
)  # fmt: skip
_LETTER_CHOICES = ("count", "fail")
_SCHEDULES = ("late", "eager")
_LINTS = ("ld-before-wait",)
_MAX_SEED = (1 << 63) - 1
_MAX_THREADS = 1024
_MAX_LINE = 2**31 - 1


@dataclasses.dataclass(eq=False)
class Suppression:
    """A kind of finding at a place, which is not reported.

    Attributes:
        kind: one of :data:`FINDINGS`.
        place: where one of the two sides is: a line of the PTX text (a number, or
            ``"file.ptx:123"``), a source line by the ``.loc`` directives (``"kernel.py:57"``, with
            as much of the path as needed), or the name of a kernel as in the PTX.
        uses: how many findings it has suppressed.

    Raises:
        UserError: there is no such kind, or this is no place.
    """

    kind: str
    place: str | int
    uses: int = 0

    def __post_init__(self) -> None:
        if self.kind not in FINDINGS:
            raise UserError(
                f"suppress: no kind of finding {self.kind!r}; there are {', '.join(FINDINGS)}"
            )
        self.fields()

    def fields(self) -> tuple[str, str, str, int]:
        """Returns kind, kernel, file and line; "" and 0 fit all, no file means the PTX text."""
        if isinstance(self.place, str):
            file, colon, line = self.place.rpartition(":")
            if not colon and self.place:
                return self.kind, self.place, "", 0
            if file and line.isdigit() and int(line) <= _MAX_LINE:
                return self.kind, "", "" if file.endswith(".ptx") else file, int(line)
            raise UserError(
                f"suppress: {self.place!r} is no place; give a PTX line, 'file.py:line' or the "
                "name of a kernel"
            )
        return self.kind, "", "", integer("the PTX line of suppress", self.place, 1, _MAX_LINE)


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a launch.

    Attributes:
        schedule: when asynchronous operations act: ``"late"`` (as late as their completion
            mechanism allows), ``"eager"`` (at once) or a seed for a random
            legal order, 0 to 2**63 - 1.
        lint: names of checks of style: ``"ld-before-wait"`` (on by default; ``[]`` for none).
        instruction_limit: warp instructions after which the launch is an error; 0: none.
        threads: host threads; 0: all cores. Kernels whose CTAs exchange values through global
            memory run on one, so that results do not depend on the host.
        sanitize: report accesses that no barrier, wait or fence orders; True makes the first one
            an error, ``"report"`` collects one of each kind and PTX line in the launch's report and
            prints a summary to stderr; False makes kernels that use much shared memory faster.
        letters: findings that the PTX ISA forbids and known GPUs keep in order
            (:data:`tilelang.emulator.levels.LETTERS`): ``"count"`` counts them in one line and
            collects them in the report's ``letters``; ``"fail"`` treats them as all others.
        profile: what the producer of the PTX is known to rely on, which is not reported:
            ``"auto"`` chooses by the text of the module, ``"strict"`` goes without; else the name
            of one of :data:`tilelang.emulator.profiles.PROFILES`, or a
            :class:`~tilelang.emulator.Profile`.
        suppress: findings not to report, pairs of a kind and a place as in
            :class:`Suppression`; one that nothing needed leaves a warning.
        timing: also find out what the launch would take on the GPU: True, or
            :class:`~tilelang.emulator.TimingOptions`. Asynchronous operations then act in the
            order of the modelled clock, whatever ``schedule`` says.
        progress: show a progress bar when the launch takes more than two seconds.
        blocks: which blocks run, and are checked: ``"all"``, ``"sample"`` (16 clusters: the corners
            of the grid, others at random), or a number of clusters. For launches whose blocks do
            the same on other data; a warning says which ran. Launches that are timed, or whose
            CTAs exchange values through global memory, run all.
        rest: what becomes of the others: ``"skip"``: they do not run, what they write is left as it
            was, and tensors that the call of a kernel allocates are NaN or -1 there; ``"run"``:
            they run without the sanitizer.
        algebra: the handle of a :class:`tilelang.algebra.Algebra`, whose mode follows the elements
            of floats; None: the ordinary mode.

    Raises:
        UserError: there is no such schedule, lint, profile or place, or a number is out of range.
    """

    schedule: str | int = "late"
    lint: Iterable[str] = _LINTS
    instruction_limit: int = 0
    threads: int = 0
    sanitize: bool | str = True
    letters: str = "count"
    profile: str | Profile = "auto"
    suppress: Iterable[Any] = ()
    progress: bool = True
    timing: Any = False
    blocks: str | int = "all"
    rest: str = "skip"
    algebra: Any = None

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
        if isinstance(self.sanitize, str) and self.sanitize != "report":
            raise UserError(f"sanitize must be True, False or 'report', got {self.sanitize!r}")
        if self.letters not in _LETTER_CHOICES:
            raise UserError(f"letters must be 'count' or 'fail', got {self.letters!r}")
        timing_options(self.timing)
        chosen_profile(self.profile, STRICT)
        if isinstance(self.blocks, str) and self.blocks not in ("all", "sample"):
            raise UserError(f"blocks must be 'all', 'sample' or a number, got {self.blocks!r}")
        if not isinstance(self.blocks, str):
            self._set("blocks", integer("blocks", self.blocks, 1))
        if self.rest not in ("skip", "run"):
            raise UserError(f"rest must be 'skip' or 'run', got {self.rest!r}")
        self._set("suppress", _suppressions(self.suppress))

    @property
    def sample_size(self) -> int:
        """Returns the number of clusters to check; 0 means all."""
        if isinstance(self.blocks, str):
            return USUAL if self.blocks == "sample" else 0
        return self.blocks

    @property
    def keeps_going(self) -> bool:
        """Returns whether the launch collects all findings, instead of ending at the first."""
        return self.sanitize == "report" or not self.sanitize or bool(self.timing)

    @property
    def collected(self) -> list[str]:
        """Returns the kinds of findings that are collected in any case."""
        return [] if self.letters == "fail" else list(LETTERS)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _suppressions(entries: Any) -> tuple[Suppression, ...]:
    def one(entry: Any) -> Suppression:
        if isinstance(entry, Suppression):
            return entry
        if isinstance(entry, tuple | list) and len(entry) == 2:
            return Suppression(*entry)
        raise UserError(f"suppress must be pairs of a kind and a place, got {entry!r}")

    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise UserError(f"suppress must be pairs of a kind and a place, got {entries!r}")
    return tuple(one(entry) for entry in entries)


def remark_unused(suppressions: Iterable[Suppression], stacklevel: int) -> None:
    """Warns of suppressions that suppressed nothing."""
    for entry in suppressions:
        if entry.uses == 0:
            warnings.warn(
                f"suppress: no {entry.kind!r} was found at {entry.place!r}; remove the entry",
                EmulatorWarning,
                stacklevel=stacklevel + 1,
            )


_DEFAULTS = Options()
_current: contextvars.ContextVar[Options] = contextvars.ContextVar("options")


def current(**changes: Any) -> Options:
    """Returns the options that hold here, with changes."""
    return dataclasses.replace(_current.get(_DEFAULTS), **changes)


@contextlib.contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Sets :class:`Options` for all launches inside of the block that do not set them.

    That holds for compiled kernels called with CPU tensors, too::

        with tilelang.emulator.options(sanitize="report", schedule=7):
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
    if "suppress" in changes:
        remark_unused(chosen.suppress, 3)
