"""The meaning of assignment in a kernel.

A name is bound to a value once and for all (an immutable let), or holds a mutable scalar
(:class:`Ref`). A name that changes under control flow known only at run time becomes a mutable
scalar by itself, or is refused when it is no scalar.
"""

from __future__ import annotations

from typing import Any

from ... import errors
from ...ir.buffer import Buffer, Load, Region, make_region
from ...ir.dtype import FLOAT32
from ...ir.expr import Expr, FloatImm, IntImm, Operand, StringImm, Var, as_expr
from ..builder import Builder
from ..lanes import Lanes
from ..raw.launch import BoundLoop
from ..variable import Poison, Ref, Unset
from ..vector_tile import VectorVariable
from ..view import Element, View

_IMMUTABLE = frozenset(
    {int, float, bool, str, type(None), Buffer, Var, IntImm, FloatImm, StringImm}
)

_MUTABLE = (Ref, VectorVariable)


def bind(builder: Builder, name: str, value: Any) -> Any:
    """Gives ``value`` a name: run-time values are evaluated here, containers element by element."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind in _MUTABLE and value.fresh:
        value.fresh = False
        return value
    if kind is Ref:
        return builder.bind(name, as_expr(value))
    if kind in (Lanes, VectorVariable):
        return Lanes([bind(builder, f"{name}_{n}", item) for n, item in enumerate(value)])
    if kind is Element:
        return builder.bind(name, as_expr(value))
    if kind is Load and value.buffer.scope == "shared.barrier":
        return value
    if isinstance(value, Expr):
        return value if value.dtype in ("handle", "void") else builder.bind(name, value)
    if kind is Region:
        return make_region(
            value.buffer,
            [bind(builder, f"{name}_{n}", low) for n, low in enumerate(value.mins)],
            value.extents,
        )
    if kind in (tuple, list):
        return kind(bind(builder, f"{name}_{n}", item) for n, item in enumerate(value))
    if isinstance(value, Poison):
        value._raise()
    if isinstance(value, BoundLoop):
        return value.named(name)
    return value


def assign(builder: Builder, name: str, value: Any, old: Any) -> Any:
    """Assigns to a name that has the value ``old``: a store if that is mutable."""
    if type(old) not in _MUTABLE or (type(value) in _MUTABLE and value.fresh):
        return bind(builder, name, value)
    if old.home is not None and old.home not in builder.blocks:
        return bind(builder, name, value)  # its block is over: nobody reads it any more
    if value is not old:
        old.assign(value)
    return old


def is_scalar(value: Any) -> bool:
    """Returns whether a mutable scalar could hold ``value``."""
    if isinstance(value, Ref):
        return True
    if isinstance(value, Expr):
        return value.dtype not in ("handle", "void")
    return isinstance(value, (bool, int, float))


def is_traced(value: Any) -> bool:
    """Whether ``value`` exists only in the kernel: an expression, a buffer, or one of them."""
    if isinstance(value, (tuple, list)):
        return any(map(is_traced, value))
    return isinstance(value, (Operand, Buffer)) and not isinstance(
        value, (IntImm, FloatImm, StringImm, Unset)
    )


def same(a: Any, b: Any) -> bool:
    """Returns whether two values of a name are the same thing."""
    if a is b:
        return True
    if isinstance(a, (Expr, Buffer)) and isinstance(b, (Expr, Buffer)):
        return a.same_as(b)
    if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
        return all(map(same, a, b))
    plain = (bool, int, float, str)
    return isinstance(a, plain) and type(a) is type(b) and a == b


def is_tile_again(before: Any, after: list[Any]) -> bool:
    """Returns whether a name means a tile after a block as it did before.

    Args:
        before: what the name meant before the block.
        after: what it means at the ends of the block: scalars, which belong to the block, but no
            other tile.
    """
    tiles = (Buffer, View)
    return isinstance(before, tiles) and not any(
        isinstance(value, (*tiles, Region)) and value is not before for value in after
    )


def common_type(values: list[Any]) -> Any:
    """The type that holds all of ``values``, scalars; Python numbers adapt to the others."""
    exprs = [as_expr(value) for value in values if isinstance(value, Operand)]
    if not exprs:
        exprs = [as_expr(value) for value in values]
        if any(isinstance(value, float) for value in values):
            return FLOAT32
    total = exprs[0]
    for other in exprs[1:]:
        total = total + other if total.dtype != other.dtype else total
    for value in values:
        if not isinstance(value, Operand):
            number = as_expr(value, total.dtype)
            total = total if number.dtype == total.dtype else total + number
    return total.dtype


def out_of_scope(name: str, block: str, value: Any = None) -> Poison:
    """The value of a name after the block that assigned it.

    Args:
        value: that, where the block may have allocated it.
    """
    if isinstance(value, (Buffer, Region)):
        return Poison(
            f"the tile `{name}` was allocated inside {block} and is gone after it",
            "allocate it before, or, for another T.Kernel, copy it to a tensor: "
            f"{name} = T.alloc_global(shape, dtype) before both",
        )
    return Poison(
        f"`{name}` got its value inside {block} and has none after it",
        f"declare it before: {name} = T.alloc_var(dtype, init=...); then plain assignment "
        "inside updates it",
    )


def no_rebinding(name: str, block: str, where: errors.Span | None) -> errors.SemanticsError:
    """The error for a name, not of a scalar, that would change from iteration to iteration."""
    return errors.SemanticsError(
        f"`{name}` is assigned something else in {block} and used again in its next iteration",
        span=where,
        notes=[
            "only scalars can change at run time (T.alloc_var); for buffers, allocate one with a "
            "leading stage dimension and index it"
        ],
    )
