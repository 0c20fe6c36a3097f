"""Statements, and how they are emitted into the kernel being traced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .. import _ffi, errors
from . import span
from .buffer import Buffer, Load, Region, element_or_region, shape_text
from .expr import Expr, as_element
from .extensions import extensions
from .span import Span

tvm_ffi = _ffi.tvm_ffi
_print = _ffi.get("ir.Print")
_store = _ffi.get("ir.Store")


@tvm_ffi.register_object("tl.ir.Stmt")
class Stmt(tvm_ffi.Object):
    """A statement."""

    __slots__ = ()
    span: Span | None

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__


@tvm_ffi.register_object("tl.ir.Func")
class Func(tvm_ffi.Object):
    """A traced kernel function: what ``@T.prim_func`` gives. ``print`` shows its IR."""

    __slots__ = ()
    name: str
    params: Any
    body: Stmt
    attrs: Any
    span: Span | None

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__

    @property
    def buffer_map(self) -> dict[Any, Buffer]:
        """The tensor of each parameter that is one: the parameter, or a view of its elements.

        A view stands for a tensor of a narrow type, whose parameter has the bytes.
        """
        tensors = [param for param in self.params if isinstance(param, Buffer)]
        return {param: extensions.as_declared(param) for param in tensors}

    @property
    def ret_type(self) -> None:
        """The type of its result: functions return nothing."""
        return None

    def script(self) -> str:
        """Returns the IR as text."""
        return _print(self)

    @errors.boundary
    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises an error that says how to call the kernel."""
        raise errors.SemanticsError(
            f"{self.name} is a T.prim_func, which describes a kernel and cannot be called",
            notes=[f"compile it: kernel = tilelang.compile({self.name}), then kernel(...)"],
        )


def ir_function(func: Any) -> Any:
    """Returns the IR function (``tl.ir.Func``) of what ``@T.prim_func`` gives."""
    return getattr(func, "func", func)


class _Sink(threading.local):
    emit: Callable[[Stmt], None] | None = None


_sink = _Sink()


def set_sink(emit: Callable[[Stmt], None] | None) -> Callable[[Stmt], None] | None:
    """Makes ``emit`` receive the statements of this thread; returns what did before."""
    previous, _sink.emit = _sink.emit, emit
    return previous


def emit(stmt: Stmt) -> None:
    """Adds a statement to the kernel being traced.

    Raises:
        ScopeError: no kernel is being traced.
    """
    if _sink.emit is None:
        raise errors.ScopeError(
            "this operation is only meaningful inside a function decorated with @T.prim_func"
        )
    _sink.emit(stmt)


def emit_store(buffer: Buffer, index: Any, value: Any) -> None:
    """Emits ``buffer[index] = value``; the value is converted to the buffer's type.

    Raises:
        ShapeError: the index is not that of one element, or of a slice of a row.
    """
    target = element_or_region(buffer, index)
    if isinstance(target, Region):
        if extensions.assign(target, value):
            return
        raise errors.ShapeError(
            f"`{target}` is a region of shape {shape_text(target.shape)}; single elements are "
            "assigned, and slices of a row in tensors, shared and private memory: A[i, j : j + 4]",
            span=span.here(),
            notes=["use T.copy(source, region), T.fill(region, value), or a T.Parallel loop"],
        )
    if isinstance(value, (Buffer, Region)):
        name = value.name if isinstance(value, Buffer) else str(value)
        raise errors.ShapeError(
            f"`{target}` is one element, but {name} on the right has several",
            span=span.here(),
            notes=["index all dimensions on the right, or copy whole tiles by T.copy"],
        )
    if isinstance(value, str):
        raise errors.DTypeError(
            f"element `{target}` of {target.dtype} cannot hold text, {value!r}",
            span=span.here(),
            notes=["text of values of the run is printed: T.print(value, msg=...)"],
        )
    emit(store(target, value))


def store(target: Load, value: Any) -> Stmt:
    """Returns the statement that writes ``value`` to the element ``target``."""
    dtype = target.buffer.dtype
    return _store(target.buffer, target.indices, as_element(value, dtype), span.current())


__all__ = ["Expr", "Func", "Stmt", "emit", "emit_store", "ir_function", "set_sink", "store"]
