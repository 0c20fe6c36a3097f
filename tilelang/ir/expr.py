"""Expressions: values known when the kernel runs. Operators on them build larger expressions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from .. import _ffi, errors
from . import span
from .dtype import BOOL, FLOAT32, GREATEST, HANDLE, INT32, INT64, UINT64, DType, dtype_of, intern
from .span import Span

tvm_ffi = _ffi.tvm_ffi

_int_imm = _ffi.get("ir.IntImm")
_float_imm = _ffi.get("ir.FloatImm")
_string_imm = _ffi.get("ir.StringImm")
_var = _ffi.get("ir.Var")
_arithmetic = _ffi.get("ir.Arithmetic")
_unary = _ffi.get("ir.Unary")
_select = _ffi.get("ir.Select")
_cast = _ffi.get("ir.Cast")
_call = _ffi.get("ir.Call")
_condition = _ffi.get("ir.Condition")
_print = _ffi.get("ir.Print")


class BinaryOp(IntEnum):
    """The operators of two operands, numbered as in the core."""

    ADD, SUB, MUL, DIV, FLOOR_DIV, FLOOR_MOD, MIN, MAX = range(8)
    EQ, NE, LT, LE, GT, GE, AND, OR = range(8, 16)
    BIT_AND, BIT_OR, BIT_XOR, SHL, SHR = range(16, 21)


class UnaryOp(IntEnum):
    """The operators of one operand, numbered as in the core."""

    NEG, NOT, BIT_NOT = range(3)


class Operand:
    """Python's operators for everything that stands for a run-time value."""

    __slots__ = ()
    __array_ufunc__ = None  # operators with numpy scalars on the left come here

    def __add__(self, other: Any) -> Expr:
        return binary(0, self, other)

    def __radd__(self, other: Any) -> Expr:
        return binary(0, other, self)

    def __sub__(self, other: Any) -> Expr:
        return binary(1, self, other)

    def __rsub__(self, other: Any) -> Expr:
        return binary(1, other, self)

    def __mul__(self, other: Any) -> Expr:
        return binary(2, self, other)

    def __rmul__(self, other: Any) -> Expr:
        return binary(2, other, self)

    def __truediv__(self, other: Any) -> Expr:
        return binary(3, self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return binary(3, other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return binary(4, self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return binary(4, other, self)

    def __mod__(self, other: Any) -> Expr:
        return binary(5, self, other)

    def __rmod__(self, other: Any) -> Expr:
        return binary(5, other, self)

    def __eq__(self, other: Any) -> Any:
        return NotImplemented if other is None else binary(8, self, other)

    def __ne__(self, other: Any) -> Any:
        return NotImplemented if other is None else binary(9, self, other)

    def __lt__(self, other: Any) -> Expr:
        return binary(10, self, other)

    def __le__(self, other: Any) -> Expr:
        return binary(11, self, other)

    def __gt__(self, other: Any) -> Expr:
        return binary(12, self, other)

    def __ge__(self, other: Any) -> Expr:
        return binary(13, self, other)

    def __and__(self, other: Any) -> Expr:
        return binary(16, self, other)

    def __rand__(self, other: Any) -> Expr:
        return binary(16, other, self)

    def __or__(self, other: Any) -> Expr:
        return binary(17, self, other)

    def __ror__(self, other: Any) -> Expr:
        return binary(17, other, self)

    def __xor__(self, other: Any) -> Expr:
        return binary(18, self, other)

    def __rxor__(self, other: Any) -> Expr:
        return binary(18, other, self)

    def __lshift__(self, other: Any) -> Expr:
        return binary(19, self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return binary(19, other, self)

    def __rshift__(self, other: Any) -> Expr:
        return binary(20, self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return binary(20, other, self)

    def __pow__(self, other: Any) -> Expr:
        return power(self, other)

    def __rpow__(self, other: Any) -> Expr:
        return power(other, self)

    def __neg__(self) -> Expr:
        return unary(UnaryOp.NEG, self)

    def __pos__(self) -> Expr:
        return as_expr(self)

    def __divmod__(self, other: Any) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Expr, Expr]:
        return other // self, other % self

    def __invert__(self) -> Expr:
        # As in NumPy and torch: of a truth value the other one.
        value = as_expr(self)
        return unary(UnaryOp.NOT if value.dtype.is_bool else UnaryOp.BIT_NOT, value)

    def __abs__(self) -> Expr:
        value = as_expr(self)
        if value.dtype.is_bool or (value.dtype.is_integer and not value.dtype.is_signed):
            return value
        if isinstance(value, (IntImm, FloatImm)):
            return const(abs(value.value), value.dtype)
        return call(value.dtype, "abs", [value])

    def astype(self, dtype: Any) -> Expr:
        """Returns the value converted to ``dtype``."""
        return cast(self, dtype)

    def __bool__(self) -> bool:
        raise _not_known(self, "decide Python's control flow", "use T.if_then_else, `if` or `&`")

    def __index__(self) -> int:
        raise _not_known(
            self,
            "be used as a Python integer",
            "choose between values by T.if_then_else, loop by T.serial, or use a constant; "
            "a loop over a list itself is unrolled: "
            "for n, value in enumerate(values)",
        )

    def __int__(self) -> int:
        raise _not_known(self, "become a Python int", 'convert with T.cast(x, "int32")')

    def __float__(self) -> float:
        raise _not_known(
            self,
            "become a Python float",
            'convert with T.cast(x, "float32"); functions of math are T.sqrt, T.exp, ...',
        )

    def __iter__(self) -> Any:
        raise _not_known(self, "be iterated over", "loop with T.serial(n)")


def _not_known(value: Any, what: str, hint: str) -> errors.UnsupportedSyntaxError:
    return errors.UnsupportedSyntaxError(
        f"`{value}` is known only when the kernel runs; it cannot {what} while it is traced",
        span=span.here(),
        notes=[hint],
    )


@tvm_ffi.register_object("tl.ir.Expr")
class Expr(Operand, tvm_ffi.Object):
    """A scalar value of a kernel, of one data type."""

    __slots__ = ()
    span: Span | None

    def __hash__(self) -> int:
        return tvm_ffi.Object.__hash__(self)

    @property
    def dtype(self) -> DType:
        return intern(_raw_dtype(self))

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__


def raw_field(cls: Any, name: str) -> Any:
    """Returns the function that reads a field of the core's object, as the core gives it."""
    field = next(field for field in cls.__tvm_ffi_type_info__.fields if field.name == name)
    return field.as_property(cls).fget


_raw_dtype = raw_field(Expr, "dtype")


@tvm_ffi.register_object("tl.ir.IntImm")
class IntImm(Expr):
    """An integer or bool constant."""

    __slots__ = ()
    value: int

    def __init__(self, dtype: Any, value: int, span: Any = None) -> None:
        self.__init_handle_by_constructor__(_int_imm, dtype_of(dtype), value, span)

    def __bool__(self) -> bool:
        return self.value != 0

    def __index__(self) -> int:
        return self.value

    def __int__(self) -> int:
        return self.value

    def __float__(self) -> float:
        return float(self.value)


@tvm_ffi.register_object("tl.ir.FloatImm")
class FloatImm(Expr):
    """A floating-point constant."""

    __slots__ = ()
    value: float

    def __init__(self, dtype: Any, value: float, span: Any = None) -> None:
        self.__init_handle_by_constructor__(_float_imm, dtype_of(dtype), float(value), span)

    def __bool__(self) -> bool:
        return self.value != 0

    def __float__(self) -> float:
        return self.value


@tvm_ffi.register_object("tl.ir.StringImm")
class StringImm(Expr):
    """A string: name of a function, text to print."""

    __slots__ = ()
    value: str

    def __init__(self, value: str, span: Any = None) -> None:
        self.__init_handle_by_constructor__(_string_imm, value, span)


@tvm_ffi.register_object("tl.ir.Var")
class Var(Expr):
    """A named value: parameter, symbolic dimension, loop variable, thread or block index."""

    __slots__ = ()
    name: str


@tvm_ffi.register_object("tl.ir.Binary")
class Binary(Expr):
    """An operator applied to two operands of one type."""

    __slots__ = ()
    op: int
    a: Expr
    b: Expr

    def __bool__(self) -> bool:
        # Containers compare their elements with ==; a value is equal to itself.
        if self.op in (BinaryOp.EQ, BinaryOp.NE) and self.a.same_as(self.b):
            return self.op == BinaryOp.EQ
        return super().__bool__()


@tvm_ffi.register_object("tl.ir.Unary")
class Unary(Expr):
    """An operator applied to one operand."""

    __slots__ = ()
    op: int
    a: Expr


@tvm_ffi.register_object("tl.ir.Select")
class Select(Expr):
    """One of two values; only the one taken is evaluated."""

    __slots__ = ()
    condition: Expr
    true_value: Expr
    false_value: Expr


@tvm_ffi.register_object("tl.ir.Cast")
class Cast(Expr):
    """A value converted to another type."""

    __slots__ = ()
    value: Expr


@tvm_ffi.register_object("tl.ir.Call")
class Call(Expr):
    """An intrinsic or a device function, by name."""

    __slots__ = ()
    name: str
    args: Sequence[Expr]
    attrs: Any


def const(value: bool | int | float, dtype: DType) -> Expr:
    """Returns the constant ``value`` of type ``dtype``; integers wrap to the type."""
    if dtype.is_float:
        return _float_imm(dtype, float(value), span.current())
    if dtype.is_bool:
        return _int_imm(dtype, int(bool(value)), span.current())
    low, high = dtype.integer_range
    value = int(value)
    if not low <= value <= high:
        value = (value - low) % (high - low + 1) + low
    if value > INT64.integer_range[1]:
        value -= 1 << 64
    return _int_imm(dtype, value, span.current())


def _int_type(value: int) -> DType:
    for dtype in (INT32, INT64, UINT64):
        low, high = dtype.integer_range
        if low <= value <= high:
            return dtype
    raise errors.DTypeError(f"integer {value} needs more than 64 bits", span=span.here())


def _number_type(value: bool | int | float, other: DType | None) -> DType:
    """The type of a Python number beside an operand of type ``other``."""
    if other is None or other == HANDLE:
        if isinstance(value, bool):
            return BOOL
        return _int_type(value) if isinstance(value, int) else FLOAT32
    if isinstance(value, float):
        return other if other.is_float else FLOAT32
    if isinstance(value, bool):
        return BOOL if other.is_bool else other
    if other.is_float:
        return other
    if other.is_bool:
        return INT32
    low, high = other.integer_range
    if low <= value <= high or other.bits == 64:
        return other
    return INT64 if other.bits == 32 else _int_type(value)


def as_expr(value: Any, beside: DType | None = None) -> Expr:
    """Returns ``value`` as an expression.

    A Python number takes the type ``beside``, when that can hold it; else int32 (int64 where
    needed), float32 or bool. A string becomes a constant of type handle.

    Raises:
        DTypeError: it is no scalar value.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float)):
        return const(value, _number_type(value, beside))
    if isinstance(value, str) and not isinstance(value, DType):
        return _string_imm(value, span.current())
    load = getattr(value, "__tl_load__", None)
    if load is not None:
        return load()
    item = getattr(value, "item", None)  # scalars of numpy and torch
    if item is not None and not getattr(value, "shape", ()):
        return as_expr(item(), beside)
    is_tile = hasattr(value, "scope") or hasattr(value, "extents")
    raise errors.DTypeError(
        f"expected a number or an expression, got {_describe(value)}",
        span=span.here(),
        notes=["of a tile, compute element by element in T.Parallel"] if is_tile else [],
    )


def _describe(value: Any) -> str:
    text = str(value)
    return f"{type(value).__name__} `{text if len(text) < 60 else text[:57] + '...'}`"


def is_value(value: Any) -> bool:
    """Whether ``value`` is known only when the kernel runs (constants of the IR included)."""
    return isinstance(value, Operand)


_SHIFTS = (BinaryOp.SHL, BinaryOp.SHR)
#: Operations whose result is one of the operands.
_CHOICES = (BinaryOp.MIN, BinaryOp.MAX)


def _computed_with(value: Any, dtype: DType) -> DType:
    """The type that a number beside an operand of type ``dtype`` is given where one computes.

    A Python float has float32 at least: 1.44 is not rounded to float16, and a product of a float16
    value with it does not overflow float16.
    """
    return FLOAT32 if isinstance(value, float) and dtype.is_float and dtype.bits < 32 else dtype


def binary(op: int, a: Any, b: Any) -> Expr:
    """Returns ``a op b`` under the language's promotion rules."""
    beside = (lambda _, dtype: dtype) if op in _CHOICES else _computed_with
    if not isinstance(a, Expr):
        if isinstance(b, Operand) and not isinstance(b, Expr):
            b = as_expr(b)
        a = as_expr(a, beside(a, b.dtype) if isinstance(b, Expr) else None)
    if op in _SHIFTS and isinstance(b, int) and a.dtype.is_integer and a.dtype.bits <= b < 32:
        a = cast(a, "int32")  # as in C, whose smallest type of arithmetic has 32 bits
    if not isinstance(b, Expr):
        b = as_expr(b, beside(b, a.dtype))
    return _arithmetic(op, a, b, span.current())


def unary(op: int, a: Any) -> Expr:
    """Returns ``op a``."""
    return _unary(op, as_expr(a), span.current())


def power(a: Any, b: Any) -> Expr:
    """Returns ``a ** b``; small constant integer powers become multiplications."""
    if isinstance(b, int) and 1 <= b <= 4:
        base = result = as_expr(a)
        for _ in range(b - 1):
            result = result * base
        return result
    x = as_expr(a, _computed_with(a, b.dtype) if isinstance(b, Expr) else None)
    y = as_expr(b, _computed_with(b, x.dtype))
    dtype = promote(x.dtype, y.dtype)
    dtype = dtype if dtype.is_float else FLOAT32
    return call(dtype, "pow", [cast(x, dtype), cast(y, dtype)])


_promote = _ffi.get("ir.Promote")


def promote(a: DType, b: DType) -> DType:
    """The type that operands of types ``a`` and ``b`` are converted to."""
    return a if a == b else intern(_promote(a, b))


def cast(value: Any, dtype: Any) -> Expr:
    """Returns ``value`` converted to ``dtype``; a number becomes a constant of that type.

    Raises:
        DTypeError: it is text.
    """
    dtype = dtype_of(dtype)
    if isinstance(value, (bool, int, float)):
        if isinstance(value, float) and not dtype.is_float and not dtype.is_bool:
            value = _truncated(value, dtype)
        if dtype.is_float and dtype.bits == 8 and value == value:  # saturates as at run time
            value = max(-GREATEST[dtype], min(value, GREATEST[dtype]))
        return const(value, dtype)
    return _cast(dtype, _no_text(_as_in_c(as_expr(value), dtype), dtype), span.current())


_BITWISE = (BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR)


def _as_in_c(value: Expr, dtype: DType) -> Expr:
    """Returns a value that is converted to a wider integer, with shifts to the left of 32 bits.

    C computes 8 and 16 bits as int, so that such a shift loses no bits before the conversion:
    ``T.cast(x << 8, "uint32")`` of a uint16 has 24.
    """
    if not isinstance(value, Binary) or not (value.dtype.is_integer and dtype.is_integer):
        return value
    if value.dtype.bits >= min(32, dtype.bits):
        return value
    sides = [value.a, value.b]
    if value.op in _BITWISE:
        sides = [_as_in_c(side, dtype) for side in sides]
        if sides[0] is value.a and sides[1] is value.b:
            return value
    elif value.op != BinaryOp.SHL:
        return value
    return _arithmetic(value.op, *(cast(side, "int32") for side in sides), span.current())


def as_element(value: Any, dtype: DType) -> Expr:
    """Returns ``value`` as what an element of type ``dtype`` is set to.

    Raises:
        DTypeError: it is text, or an integer that the type does not have.
    """
    if not isinstance(value, (bool, int, float)):
        return cast(as_expr(value, dtype), dtype)
    if isinstance(value, int) and dtype.is_integer:
        check_integer(value, dtype)
    return cast(value, dtype)


def check_integer(value: int, dtype: DType) -> None:
    """Refuses a number that an integer type does not have.

    The same bits may be given with the other sign, as C compilers take them without a warning: -1
    of unsigned types, and 0xFFFFFFFF of int32, not of narrower types.
    """
    low, high = dtype.integer_range
    least = -(1 << (dtype.bits - 1))
    most = high if dtype.bits < 32 else (1 << dtype.bits) - 1
    if not least <= value <= most:
        wrapped = (value - low) % (1 << dtype.bits) + low
        raise errors.DTypeError(
            f"{value} is no value of type {dtype}, which goes from {low} to {high}",
            span=span.here(),
            notes=[f'take a wider type; T.cast({value}, "{dtype}") wraps it to {wrapped}'],
        )


def _no_text(expr: Expr, dtype: DType) -> Expr:
    """The expression, if it is not text where a value of another type is asked for."""
    if isinstance(expr, StringImm) and dtype != HANDLE:
        raise errors.DTypeError(
            f"text, `{expr}`, is no value of type {dtype}",
            span=span.here(),
            notes=['infinities and the like are names: T.infinity("float32")'],
        )
    return expr


def _truncated(value: float, dtype: DType) -> int:
    """A floating-point constant as an integer: toward zero, within the range, NaN as 0."""
    low, high = dtype.integer_range
    if value != value:
        return 0
    return low if value <= low else high if value >= high else int(value)


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """Returns ``true_value`` where ``condition`` holds, else ``false_value``, promoted."""
    beside = next((v.dtype for v in (true_value, false_value) if isinstance(v, Operand)), None)  # type: ignore[attr-defined]
    a, b = as_expr(true_value, beside), as_expr(false_value, beside)
    _no_text(a, b.dtype), _no_text(b, a.dtype)
    return _select(as_expr(condition), a, b, span.current())


def condition(value: Any) -> Expr:
    """Returns ``value`` as a bool: itself, or ``value != 0``.

    Raises:
        DTypeError: it is text or an address.
    """
    expr = as_expr(value)
    if expr.dtype == HANDLE:
        raise errors.DTypeError(f"`{expr}` is no condition", span=span.here())
    return _condition(expr)


def call(dtype: DType, name: str, args: Sequence[Any], attrs: dict[str, Any] | None = None) -> Call:
    """Returns the intrinsic ``name`` applied to ``args``, giving a value of type ``dtype``."""
    return _call(dtype, name, [as_expr(arg) for arg in args], attrs or {}, span.current())


def var(name: str, dtype: DType) -> Var:
    """Returns a new variable; two variables of one name are still two."""
    return _var(name, dtype, span.current())
