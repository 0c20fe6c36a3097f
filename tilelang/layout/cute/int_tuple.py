"""Nested tuples of integers, as CuTe has them: shapes, strides and coordinates.

A leaf is an int, an integer expression that only a kernel or a call knows, or a
:class:`ScaledBasis`. A stride of such a basis leads to a coordinate instead of a number.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

from ... import _ffi
from ...errors import LayoutError
from ...ir.expr import Expr, Operand, as_expr

#: An int, an expression, a :class:`ScaledBasis`, an :class:`IntTuple`, or a list or tuple of them.
IntTupleLike: TypeAlias = Any


class ScaledBasis:
    """``value`` times the unit of one axis of a coordinate.

    Attributes:
        value: the factor.
        mode: where the axis is in the coordinate: its index at each level, outermost first.
    """

    __slots__ = ("mode", "value")

    def __init__(self, value: Any, mode: int | Sequence[int]) -> None:
        self.value = value
        self.mode = (mode,) if isinstance(mode, int) else tuple(mode)
        if not self.mode or min(self.mode) < 0:
            raise LayoutError(f"an axis of a coordinate is given by indices from 0 on, got {mode}")

    def __mul__(self, factor: Any) -> ScaledBasis:
        return ScaledBasis(mul(self.value, factor), self.mode)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, ScaledBasis) and self.mode == other.mode
        return same and identical(self.value, other.value)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.mode)

    def __repr__(self) -> str:
        return f"{self.value}@" + "@".join(map(str, reversed(self.mode)))


def E(mode: int | Sequence[int]) -> ScaledBasis:
    """Returns the unit of an axis: of axis ``mode``, or of an axis inside of an axis."""
    return ScaledBasis(1, mode)


class IntTuple:
    """A nested tuple with CuTe's arithmetic: ``+`` adds leaf by leaf, ``*`` scales a leaf."""

    __slots__ = ("value",)

    def __init__(self, value: IntTupleLike) -> None:
        self.value = to_python(value)

    def __add__(self, other: IntTupleLike) -> IntTuple:
        return IntTuple(add(self.value, to_python(other)))

    def __radd__(self, other: IntTupleLike) -> IntTuple:
        return IntTuple(add(to_python(other), self.value))

    def __mul__(self, other: IntTupleLike) -> IntTuple:
        return IntTuple(mul(self.value, to_python(other)))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntTuple) and identical(self.value, other.value)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return text_of(self.value)

    __repr__ = __str__

    @staticmethod
    def parse(text: str) -> IntTuple:
        """Reads what ``str`` gives: ``((2,4),3@1)``.

        Raises:
            LayoutError: the text is no tuple.
        """
        value, rest = _parsed(text.replace(" ", ""), text)
        if rest:
            raise LayoutError(f"{text!r} is no tuple of integers: {rest!r} follows it")
        return IntTuple(value)


def to_python(value: IntTupleLike) -> Any:
    """Returns the same as tuples of Python, ints, expressions and bases."""
    if isinstance(value, IntTuple):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple(map(to_python, value))
    if isinstance(value, (int, ScaledBasis)):
        return value
    constant = getattr(value, "value", None)
    if isinstance(constant, int):
        return constant
    if isinstance(value, Operand):
        return as_expr(value)
    if hasattr(value, "__index__"):
        return value.__index__()
    raise LayoutError(f"{value!r} is no integer and no tuple of integers")


def from_python(value: IntTupleLike) -> IntTuple:
    """Returns nested lists or tuples as an :class:`IntTuple`."""
    return IntTuple(value)


def text_of(value: Any) -> str:
    """Returns a tuple as CuTe writes it, without spaces."""
    if isinstance(value, tuple):
        return "(" + ",".join(map(text_of, value)) + ")"
    return str(value)


def _parsed(text: str, whole: str) -> tuple[Any, str]:
    if text.startswith("("):
        items, rest = [], text[1:]
        while True:
            item, rest = _parsed(rest, whole)
            items.append(item)
            if rest.startswith(")"):
                return tuple(items), rest[1:]
            if not rest.startswith(","):
                raise LayoutError(f"{whole!r} is no tuple of integers: a bracket is not closed")
            rest = rest[1:]
    found = re.match(r"(-?\d+)((?:@\d+)*)", text)
    if found is None:
        raise LayoutError(f"{whole!r} is no tuple of integers: {text!r} begins with none")
    value: Any = int(found[1])
    if found[2]:
        value = ScaledBasis(value, [int(axis) for axis in reversed(found[2][1:].split("@"))])
    return value, text[found.end() :]


def identical(a: Any, b: Any) -> bool:
    """Returns whether two tuples have the same form and the same leaves."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        both = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)
        return both and all(map(identical, a, b))
    if isinstance(a, Expr) and isinstance(b, Expr):
        return bool(_ffi.tvm_ffi.structural_equal(a, b))
    return type(a) is type(b) and bool(a == b)


def equal(a: Any, b: Any) -> bool:
    """Returns whether two leaves are equal for all values of their variables."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        if isinstance(a, ScaledBasis) or isinstance(b, ScaledBasis):
            return False
        analyzer = _ffi.get("arith.Analyzer")()
        return bool(_ffi.get("arith.CanProveEqual")(analyzer, as_expr(a), as_expr(b)))
    return bool(a == b)


def simplified(value: Any) -> Any:
    """Returns a tuple with simpler expressions, and ints where these are constant."""
    if isinstance(value, tuple):
        return tuple(map(simplified, value))
    if isinstance(value, Expr):
        analyzer = _ffi.get("arith.Analyzer")()
        return to_python(_ffi.get("arith.Simplify")(analyzer, value))
    return value


def is_int(value: Any) -> bool:
    """Returns whether a leaf is known now."""
    return isinstance(value, int)


def add(a: Any, b: Any) -> Any:
    """Returns the sum of two tuples or leaves; 0 stands for a tuple of zeros.

    A basis is the coordinate with its value on one axis. The shorter of two tuples ends in zeros.
    """
    if is_int(a) and a == 0 and not isinstance(b, ScaledBasis):
        return b
    if is_int(b) and b == 0 and not isinstance(a, ScaledBasis):
        return a
    a, b = _coordinate(a), _coordinate(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(itertools.starmap(add, itertools.zip_longest(a, b, fillvalue=0)))
    if isinstance(a, tuple) or isinstance(b, tuple):
        if (is_int(a) and a == 0) or (is_int(b) and b == 0):
            return a if isinstance(a, tuple) else b
        raise LayoutError(f"a number and a coordinate have no sum: {text_of(a)} and {text_of(b)}")
    return a + b


def _coordinate(value: Any) -> Any:
    if not isinstance(value, ScaledBasis):
        return value
    found = value.value
    for axis in reversed(value.mode):
        found = (0,) * axis + (found,)
    return found


def mul(a: Any, b: Any) -> Any:
    """Returns the product of two leaves, of which one may be a basis."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise LayoutError(f"tuples have no product: {text_of(a)} and {text_of(b)}")
    if isinstance(a, ScaledBasis) and isinstance(b, ScaledBasis):
        raise LayoutError(f"two axes have no product: {a} and {b}")
    if isinstance(b, ScaledBasis):
        return b * a
    if isinstance(a, ScaledBasis):
        return a * b
    if is_int(a) and a in (0, 1):
        return b if a else 0
    if is_int(b) and b in (0, 1):
        return a if b else 0
    return a * b


def ceil_div(a: Any, b: Any) -> Any:
    """Returns the quotient of two leaves, rounded up."""
    if is_int(b) and b == 1:
        return a
    return (a + b - 1) // b


def leaves(value: Any) -> tuple[Any, ...]:
    """Returns the leaves of a tuple, in order."""
    if isinstance(value, tuple):
        return tuple(itertools.chain.from_iterable(map(leaves, value)))
    return (value,)


def flatten_to_tuple(value: IntTupleLike) -> tuple[Any, ...]:
    """Returns the leaves of a nested tuple as a tuple of one level."""
    return leaves(to_python(value))


def product(shape: IntTupleLike) -> Any:
    """Returns the product of the leaves: an int, or an expression if one of them is one."""
    return reduce(mul, leaves(to_python(shape)), 1)


def congruent(a: IntTupleLike, b: IntTupleLike) -> bool:
    """Returns whether two tuples are nested alike, whatever their leaves are."""
    a, b = to_python(a), to_python(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def compatible(a: IntTupleLike, b: IntTupleLike) -> bool:
    """Returns whether coordinates of shape ``a`` are coordinates of shape ``b``.

    Each leaf of ``a`` is a leaf or a tuple of the same size in ``b``.
    """
    a, b = to_python(a), to_python(b)
    if not isinstance(a, tuple):
        return equal(a, product(b))
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))


def evaluate(coord: Any, shape: Any, stride: Any) -> Any:
    """Returns the value of ``shape:stride`` at a coordinate, or at a number in place of one.

    The first axis is the fastest one, and the last one takes what is left of a number.
    """
    if isinstance(shape, tuple):
        parts = coord if isinstance(coord, tuple) else _split(coord, shape)
        if len(parts) != len(shape):
            raise LayoutError(
                f"the coordinate {text_of(coord)} has {len(parts)} axes, but the layout "
                f"{text_of(shape)}:{text_of(stride)} has {len(shape)}"
            )
        return reduce(add, map(evaluate, parts, shape, stride))
    if isinstance(coord, tuple):
        raise LayoutError(f"the coordinate {text_of(coord)} is deeper than the shape {shape}")
    return _coordinate(mul(coord, stride))


def _split(number: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = []
    for extent in map(product, shape[:-1]):
        parts.append(0 if is_int(extent) and extent == 1 else number % extent)
        number = number if is_int(extent) and extent == 1 else number // extent
    return (*parts, number)


__all__ = [
    "E",
    "IntTuple",
    "IntTupleLike",
    "ScaledBasis",
    "add",
    "ceil_div",
    "compatible",
    "congruent",
    "equal",
    "evaluate",
    "flatten_to_tuple",
    "from_python",
    "identical",
    "is_int",
    "leaves",
    "mul",
    "product",
    "simplified",
    "text_of",
    "to_python",
]
