"""Nodes of ``tvm.tir`` by their classes: made with TVM's arguments, and told apart.

Calling one gives a node of this compiler's IR, which may be simpler than what was asked for
(``Add(1, 2)`` is 3); ``isinstance`` asks what a node is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .. import _ffi, errors, nodes
from ..ir import expr as ir
from ..ir import span as places
from ..ir.buffer import Buffer, Load
from ..ir.dtype import dtype_of
from ..ir.stmt import Func
from ..language import lanes, scalar
from ..language.raw import expressions as raw
from ..language.raw import statements


class NodeClass(type):
    """A class whose instances are those of the IR that a test holds for."""

    holds: Callable[[Any], bool]

    def __instancecheck__(cls, value: Any) -> bool:
        return cls.holds(value)


def _class(name: str, make: Callable[..., Any], holds: Callable[[Any], bool]) -> NodeClass:
    signature = inspect.signature(make)

    def new(_cls: Any, *args: Any, span: Any = None, **kwargs: Any) -> Any:
        del span  # expressions have the place of the statement that they stand in
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.SemanticsError(
                f"tir.{name}: {error}",
                span=places.here(),
                notes=[f"it takes {signature}"],
            ) from None
        return make(*args, **kwargs)

    doc = make.__doc__ or f"``tir.{name}``."
    return NodeClass(name, (), {"__new__": new, "holds": staticmethod(holds), "__doc__": doc})


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _of(*operators: ir.BinaryOp) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, ir.Binary) and value.op in operators


def _integer(dtype: Any, value: Any) -> Any:
    """A constant of an integer type.

    Raises:
        DTypeError: the type is no integer, or does not hold the value.
    """
    kind, number = dtype_of(dtype), int(value)
    low, high = (0, 1) if kind.is_bool else kind.integer_range
    if kind.is_float or not low <= number <= high:
        what = "is no integer type" if kind.is_float else f"holds {low} to {high}"
        raise errors.DTypeError(
            f"tir.IntImm({kind!s}, {number}): {kind!s} {what}", span=places.here()
        )
    return ir.const(number, kind)


def _real(dtype: Any, value: Any) -> Any:
    """A constant of a floating-point type.

    Raises:
        DTypeError: the type is none.
    """
    kind = dtype_of(dtype)
    if not kind.is_float:
        raise errors.DTypeError(
            f"tir.FloatImm({kind!s}, {value}): {kind!s} is no floating-point type",
            span=places.here(),
        )
    return ir.cast(float(value), kind)


def _text(value: str) -> Any:
    """Text: the name of a function."""
    return ir.StringImm(str(value))


def _load(buffer: Any, indices: Any, predicate: Any = None) -> Any:
    """``buffer[indices]``.

    Raises:
        SemanticsError: ``buffer`` is none.
        UnsupportedError: a predicate.
    """
    if not isinstance(buffer, Buffer):
        raise errors.SemanticsError(
            f"tir.BufferLoad of {type(buffer).__name__}, which is no buffer", span=places.here()
        )
    if predicate is not None:
        raise errors.UnsupportedError(
            "tir.BufferLoad with a predicate",
            span=places.here(),
            notes=["T.if_then_else(predicate, buffer[indices], other) reads under a condition"],
        )
    return buffer[tuple(indices) if isinstance(indices, (list, tuple)) else indices]


def _let(var: Any, value: Any, body: Any) -> Any:
    """``body`` with ``value`` for the variable ``var``."""
    return statements.let(var, value, body)


def _evaluate(value: Any) -> Any:
    """A statement that computes a value for its effect."""
    return _make_evaluate(ir.as_expr(value), places.current())


def _function(
    params: Any, body: Any, ret_type: Any = None, buffer_map: Any = None, attrs: Any = None
) -> Any:
    """A function of these parameters; a parameter of ``buffer_map`` is the tensor there.

    Raises:
        UnsupportedError: ``ret_type``: kernels return nothing.
    """
    if ret_type is not None:
        raise errors.UnsupportedError(
            f"tir.PrimFunc that returns {ret_type}", notes=["write results to a tensor"]
        )
    tensors = dict(buffer_map or {})
    found = [getattr(each, "source", each) for each in (tensors.get(p, p) for p in params)]
    given = dict(attrs or {})
    name = str(given.get("global_symbol", "main"))
    return _make_func(name, found, body, given, places.current())


_make_evaluate, _make_func = _ffi.get("ir.Evaluate"), _ffi.get("ir.Func")
_OPERATORS = {
    **{name: (make, _of(raw.BINARY[name])) for name, make in raw.OPERATORS.items()},
    "Div": (raw.Div, _of(ir.BinaryOp.DIV)),
    "Mod": (raw.Mod, _of()),
    "And": (raw.And, _of(ir.BinaryOp.AND)),
    "Or": (raw.Or, _of(ir.BinaryOp.OR)),
    "Not": (
        raw.Not,
        lambda value: isinstance(value, ir.Unary) and value.op == ir.UnaryOp.NOT,
    ),
}
#: Name -> class.
CLASSES: dict[str, Any] = {
    name: _class(name, make, holds)
    for name, (make, holds) in {
        **_OPERATORS,
        "IntImm": (_integer, _is(ir.IntImm)),
        "FloatImm": (_real, _is(ir.FloatImm)),
        "StringImm": (_text, _is(ir.StringImm)),
        "Cast": (scalar.Cast, _is(ir.Cast)),
        "Select": (scalar.Select, _is(ir.Select)),
        "Call": (raw.Call, _is(ir.Call)),
        "BufferLoad": (_load, _is(Load)),
        "Let": (_let, lambda value: False),
        "Ramp": (lanes.Ramp, _is(lanes.Lanes)),
        "Broadcast": (lanes.Broadcast, _is(lanes.Lanes)),
        "Shuffle": (lanes.Shuffle, _is(lanes.Lanes)),
        "Evaluate": (_evaluate, _is(nodes.Evaluate)),
        "PrimFunc": (_function, _is(Func)),
    }.items()
}

__all__ = ["CLASSES"]
