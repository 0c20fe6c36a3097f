"""Printing and checking inside a kernel."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Region, load
from ..ir.dtype import INT32, VOID, DType
from ..ir.expr import Expr, Operand, as_expr, call, cast, condition, var
from ..ir.stmt import Stmt, emit
from .builder import in_kernel
from .ignored import remark_ignored
from .region import as_region
from .variable import Ref

_evaluate = _ffi.get("ir.Evaluate")
_assert = _ffi.get("ir.Assert")
_if = _ffi.get("ir.If")
_for = _ffi.get("ir.For")
_parallel = _ffi.get("ir.ParallelFor")


def _format(dtype: DType) -> str:
    if dtype.is_float:
        return "%f"
    if dtype == "handle":
        return "%p"
    unsigned = not dtype.is_signed and not dtype.is_bool
    return ("%ll" if dtype.bits == 64 else "%") + ("u" if unsigned else "d")


def _line(label: str, where: list[Expr], value: Expr, threads: list[Any]) -> Stmt:
    """A statement that prints the thread, the indices of an element and its value."""
    text = label.replace("%", "%%")
    index = f"[{', '.join(['%d'] * len(where))}]" if where else ""
    thread = ", ".join(["%d"] * len(threads))
    pattern = f"thread ({thread}): {text}{index} = {_format(value.dtype)}\n"
    if value.dtype == "bool":
        value = cast(value, INT32)
    return _evaluate(call(VOID, "print", [pattern, *threads, *where, value]), span.current())


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Prints a scalar (every thread that comes here) or the elements of a tile.

    Args:
        obj: a scalar, a buffer or a slice; None prints ``msg`` alone.
        msg: printed before the value.
        warp_group_id, warp_id: the warp whose first thread prints a tile of shared, global or
            local memory.
    """
    builder = in_kernel("T.print")
    threads = list(builder.kernel.thread_vars)
    if obj is None:
        emit(_evaluate(call(VOID, "print", [msg.replace("%", "%%") + "\n"]), span.current()))
        return
    if not isinstance(obj, (Buffer, Region)) or isinstance(obj, Ref):
        value = as_expr(obj)
        emit(_line(msg or str(obj), [], value, threads))
        return
    region = as_region("obj of T.print", obj)
    if region.buffer.scope in ("shared.tmem", "shared.barrier"):
        raise errors.UnsupportedError(
            f"T.print cannot read {region.buffer.describe()}",
            span=span.here(),
            notes=["copy it to a fragment and print that"],
        )
    label = " ".join(filter(None, [msg, region.buffer.name]))
    variables = [var(f"i{n}", INT32) for n in range(len(region.extents))]
    indices = [low + index for low, index in zip(region.mins, variables, strict=True)]
    body = _line(label, indices, load(region.buffer, indices), threads)
    where = span.current()
    if region.buffer.scope == "local.fragment":
        emit(_parallel(variables, region.extents, body, {}, where))
        return
    for index, extent in zip(reversed(variables), reversed(region.extents), strict=True):
        body = _for(index, as_expr(0), extent, 0, body, {}, where)
    chosen = threads[0] == warp_group_id * 128 + warp_id * 32
    for other in threads[1:]:
        chosen = condition(chosen) & (other == 0)
    emit(_if(chosen, body, None, where))


def device_assert(cond: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Fails the launch when the kernel runs and ``cond`` is false, with ``msg``.

    The emulator's error (``kind`` "assert") has the message and the threads; on a GPU the driver
    prints them.

    Raises:
        SemanticsError: it is known to be false.
    """
    in_kernel("T.device_assert")
    remark_ignored("T.device_assert", no_stack_info=no_stack_info)
    if not isinstance(cond, Operand):
        if not cond:
            raise errors.SemanticsError(
                f"T.device_assert of a false condition: {msg}", span=span.here()
            )
        return
    emit(_assert(condition(cond), msg, span.current()))
