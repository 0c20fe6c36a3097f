"""Single passes of the compiler, for tests and for looking at what a pass does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi

from .. import _ffi


@tvm_ffi.register_object("tl.transform.Remark")
class Remark(tvm_ffi.Object):
    """A choice of a pass and its reason.

    Attributes:
        span: the place in the kernel's file (``file``, ``line``, ``column``), or None.
        topic: "check", "copy", "layout", ...
        message: the remark.
    """

    if TYPE_CHECKING:
        span: Any
        topic: str
        message: str

    def __str__(self) -> str:
        place = f"{self.span.file}:{self.span.line}:{self.span.column}: " if self.span else ""
        return f"{place}[{self.topic}] {self.message}"


def pipeline() -> list[str]:
    """Returns the names of the passes that compiling runs, in order; some occur twice."""
    return [str(name) for name in _ffi.get("compiler.Pipeline")()]


def run_pass(name: str, func: Any, target: str = "sm_100a") -> Any:
    """Returns ``func`` after the pass ``name`` alone ("simplify", "check_program", ...).

    Args:
        name: The pass as the pipeline and the dumps of ``TILELANG_DUMP_IR`` call it.
        func: What ``@T.prim_func`` gives, or the result of another pass.
        target: Architecture, as ptxas spells it.

    Raises:
        ValueError: There is no pass of that name.
        tilelang.errors.TileLangError: Whatever the pass raises.
    """
    return _run(name, func, target)[0]


def remarks_of(name: str, func: Any, target: str = "sm_100a") -> list[Remark]:
    """Returns the remarks that a pass makes on ``func``."""
    return list(_run(name, func, target)[1])


def verify(func: Any, stage: str) -> None:
    """Checks the invariants of a stage: "tile", "laid out", "thread" or "planned".

    Raises:
        tilelang.errors.InternalError: An invariant does not hold.
    """
    _ffi.get("transform.verify")(func, stage)


def verify_synchronization(func: Any, original: Any = None) -> list[str]:
    """Checks that waits, barriers and fences order what a compiled function does.

    Args:
        func: thread IR, the result of the last pass.
        original: what ``func`` was made from, before the pass "pipeline_loops"; with it, that
            reads get what the program says, too.

    Returns:
        For each launch why it was not followed; an empty string where it was.

    Raises:
        tilelang.errors.SynchronizationError: two accesses, or a wait, that nothing orders.
    """
    return [str(obstacle) for obstacle in _ffi.get("order.VerifySynchronization")(func, original)]


def _run(name: str, func: Any, target: str) -> Any:
    try:
        run = _ffi.get(f"transform.{name}")
    except ValueError:
        raise ValueError(f"there is no pass {name!r}") from None
    return run(func, target)
