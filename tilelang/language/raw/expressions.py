"""Expressions of TIR by name: ``T.Add(a, b)`` is ``a + b``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ... import errors
from ...ir import expr as ir_expr
from ...ir import span
from ...ir.buffer import Buffer
from ...ir.dtype import DType, dtype_of
from ...ir.expr import BinaryOp, as_expr, binary, call
from ...ir.extensions import extensions
from ..builder import active
from ..lanes import Lanes
from ..scalar import AND, OR, logical, logical_not, truncmod
from ..vector_tile import vector_type

PrimExpr = ir_expr.Expr

BINARY = {
    "Add": BinaryOp.ADD,
    "Sub": BinaryOp.SUB,
    "Mul": BinaryOp.MUL,
    "FloorDiv": BinaryOp.FLOOR_DIV,
    "FloorMod": BinaryOp.FLOOR_MOD,
    "Min": BinaryOp.MIN,
    "Max": BinaryOp.MAX,
    "EQ": BinaryOp.EQ,
    "NE": BinaryOp.NE,
    "LT": BinaryOp.LT,
    "LE": BinaryOp.LE,
    "GT": BinaryOp.GT,
    "GE": BinaryOp.GE,
}


def _of_two(name: str, op: BinaryOp) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        return binary(op, as_expr(a), b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``T.{name}(a, b)``: the operator {op.name.lower()} as a function."
    return function


OPERATORS: dict[str, Callable[..., Any]] = {name: _of_two(name, op) for name, op in BINARY.items()}


def Div(a: Any, b: Any) -> Any:
    """``a / b``; of integers rounded toward zero, as in C."""
    from ..scalar import truncdiv

    x = as_expr(a)
    return x / b if x.dtype.is_float else truncdiv(x, b)


def Mod(a: Any, b: Any) -> Any:
    """The remainder of :func:`Div`, with the sign of ``a``."""
    return truncmod(as_expr(a), b)


def And(*conditions: Any) -> Any:
    """Returns whether all of the conditions hold; stops at the first that does not."""
    return reduce(lambda a, b: logical(AND, a, b), conditions)


def Or(*conditions: Any) -> Any:
    """Returns whether one of the conditions holds; stops at the first that does."""
    return reduce(lambda a, b: logical(OR, a, b), conditions)


def Not(a: Any) -> Any:
    """Returns whether the condition does not hold."""
    return logical_not(a)


def IntImm(dtype: Any, value: int) -> Any:
    """A constant of an integer type."""
    return ir_expr.const(int(value), dtype_of(dtype))


def FloatImm(dtype: Any, value: float) -> Any:
    """A constant of a floating-point type."""
    return ir_expr.const(float(value), dtype_of(dtype))


def StringImm(value: str) -> Any:
    """Text: the name of a function."""
    return as_expr(value)


def Call(dtype: Any, op: Any, args: Any) -> Any:
    """A call of an intrinsic by name, as ``T.call_intrin``."""
    name = str(getattr(op, "name", op)).removeprefix("tl.").removeprefix("tir.")
    return call(dtype_of(dtype), name, list(args))


def BufferLoad(buffer: Buffer, indices: Any) -> Any:
    """``buffer[indices]``."""
    return buffer[tuple(indices)]


class _VarClass(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, ir_expr.Var)


class Var(metaclass=_VarClass):
    """A variable: of a shape, as of ``T.dynamic``; two of one name are two.

    ``isinstance(x, T.Var)`` says whether an expression is a variable.
    """

    def __new__(cls, name: str, dtype: Any = "int32") -> Any:
        """Returns the variable, an expression; of a type of vectors a vector of variables."""
        kind = vector_type(dtype)
        if kind is None:
            return ir_expr.var(name, dtype_of(dtype))
        return Lanes([ir_expr.var(f"{name}_{lane}", kind.base) for lane in range(kind.lanes)])


var = SizeVar = Var


def extent_variable(dtype: DType) -> Any:
    """``n = T.int32()``: a variable for extents, by the name that the statement gives it.

    Outside of a function it is a variable of any type, as ``T.Var`` gives it.

    Raises:
        DTypeError: extents are not of this type.
    """
    builder = active()
    if builder is None:
        return ir_expr.var("n", dtype)
    if dtype not in ("int32", "int64"):
        raise errors.DTypeError(
            f"T.{dtype}() without a value is a variable for extents, of int32 or int64",
            span=span.here(),
            notes=[f'T.{dtype}(x) converts x; T.alloc_var("{dtype}") is a mutable scalar'],
        )
    return ir_expr.var(builder.take_hint("n"), dtype)


extensions.extent_variable = extent_variable


def likely(cond: Any) -> Any:
    """``cond``; which way is likelier is not used."""
    return cond


def type_annotation(dtype: Any) -> DType:
    """The type of the elements, for ``T.tvm_access_ptr``."""
    return dtype_of(dtype)


def fmul(a: Any, b: Any) -> Any:
    """``a * b``."""
    return a * b


def isnullptr(handle: Any) -> Any:
    """Returns whether an address is null."""
    return call(dtype_of("uint64"), "reinterpret", [handle]) == 0


def void() -> DType:
    """The type of calls without a value."""
    return dtype_of("void")


def Range(begin: Any, end: Any = None) -> Any:
    """A slice of a dimension: from 0 to ``begin``, or from ``begin`` to ``end``."""
    return slice(0, begin) if end is None else slice(begin, end)
