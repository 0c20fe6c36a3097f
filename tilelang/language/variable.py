"""Mutable scalars: what ``T.alloc_var`` gives, and names the tracer makes mutable itself."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, load, make_buffer
from ..ir.dtype import DType
from ..ir.expr import Expr, FloatImm, IntImm, Operand, as_expr, cast, promote
from ..ir.stmt import emit, store
from .builder import Block, in_kernel

_alloc = _ffi.get("ir.Alloc")


class Ref(Operand):
    """A place in memory that reads as its value and is written by plain assignment.

    Attributes:
        target: the element it stands for.
        fresh: not yet given a name by an assignment.
        implicit: made by the tracer for a name that changes under run-time control flow.
        home: the block it lives in; None when that is somebody else's matter.
    """

    __slots__ = ("fresh", "home", "implicit", "target")

    def __init__(
        self, target: Load, fresh: bool = False, implicit: bool = False, home: Block | None = None
    ) -> None:
        self.target = target
        self.fresh = fresh
        self.implicit = implicit
        self.home = home

    __hash__ = object.__hash__

    @property
    def dtype(self) -> DType:
        return self.target.dtype

    @property
    def buffer(self) -> Buffer:
        return self.target.buffer

    @property
    def name(self) -> str:
        return self.target.buffer.name

    def __tl_load__(self) -> Expr:
        return load(self.target.buffer, self.target.indices)

    def __getitem__(self, index: Any) -> Load | Region:
        return self.buffer[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.buffer[index] = value

    def __str__(self) -> str:
        return str(self.target) if not self.is_scalar else self.name

    __repr__ = __str__

    @property
    def is_scalar(self) -> bool:
        return self.buffer.scope == "local.var"

    def assign(self, value: Any) -> None:
        """Emits a store of ``value``, a scalar.

        Raises:
            DTypeError: ``value`` is no scalar, or an implicit variable cannot hold its type.
        """
        if not isinstance(value, (bool, int, float, Operand)) or isinstance(value, Region):
            raise errors.DTypeError(
                f"{self.name} is a {self.dtype} variable; it cannot be assigned "
                f"{type(value).__name__} `{value}`",
                span=span.here(),
            )
        if self.implicit:
            self._check_type(as_expr(value, self.dtype))
        emit(store(self.target, value))

    def _check_type(self, value: Expr) -> None:
        if promote(self.dtype, value.dtype) == self.dtype:
            return
        raise errors.DTypeError(
            f"`{self.name}` starts as {self.dtype} and is then assigned a {value.dtype} value "
            "under control flow known only at run time",
            span=span.here(),
            notes=[
                f'declare it: {self.name} = T.alloc_var("{value.dtype}", init=...), or convert '
                "the value"
            ],
        )


def allocate(name: str, dtype: DType, init: Any = None, implicit: bool = False) -> Ref:
    """Emits the allocation of a mutable scalar and returns it."""
    value = None if init is None else cast(as_expr(init, dtype), dtype)
    is_constant = isinstance(value, (IntImm, FloatImm))
    buffer = make_buffer(
        name, dtype, (1,), "local.var", attrs={"init": value} if is_constant else {}
    )
    emit(_alloc(buffer, span.current()))
    place = load(buffer, [0])
    if value is not None and not is_constant:
        # A statement of its own, as it may read memory that other threads write.
        emit(store(place, value))
    home = in_kernel("a mutable scalar").blocks[-1]
    return Ref(place, fresh=not implicit, implicit=implicit, home=home)


class Poison(Operand):
    """A name without a usable value; using it raises an error that explains why."""

    __slots__ = ("_hint", "_message")

    def __init__(self, message: str, hint: str) -> None:
        self._message = message
        self._hint = hint

    __hash__ = object.__hash__

    def _raise(self, *_args: Any, **_kwargs: Any) -> Any:
        raise errors.SemanticsError(self._message, span=span.here(), notes=[self._hint])

    __tl_load__ = __getitem__ = __setitem__ = __call__ = __iter__ = __len__ = _raise
    __bool__ = __index__ = __int__ = __float__ = __enter__ = __exit__ = __str__ = _raise
    dtype = shape = buffer = property(_raise)

    def __repr__(self) -> str:
        return f"<no value: {self._message}>"


class Unset(Poison):
    """A name that has not been assigned yet."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(
            f"`{name}` is used before it is assigned", f"assign a value to `{name}` first"
        )
