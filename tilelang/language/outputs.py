"""The outputs of a function, which it allocates with ``T.empty`` and returns."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer
from ..ir.stmt import Func
from .builder import Builder
from .view import View

_func = _ffi.get("ir.Func")

#: The annotation of a function that names the parameters it allocates and returns.
OUTPUTS = "outputs"


def check_returned(function: str, value: Any, parameters: dict[str, Any]) -> None:
    """Refuses what a function cannot return.

    Args:
        function: its name.
        value: what it returns: a tensor, or several.
        parameters: what it takes, by name.

    Raises:
        SemanticsError: something in it is no tensor that T.empty gave, or is there twice.
    """
    items = _memory_of(value)
    for number, item in enumerate(items):
        _check_one(function, item, parameters)
        if any(item.same_as(other) for other in items[:number]):
            raise errors.SemanticsError(
                f"{item.name} is returned twice",
                span=span.here(),
                notes=["return it once; the caller can use the tensor twice"],
            )


def _memory_of(value: Any) -> list[Any]:
    """What a function returns: a tensor, or several; of a narrow type their bytes."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    is_narrow = [isinstance(item, View) and item.codec is not None for item in items]
    return [x.source if narrow else x for x, narrow in zip(items, is_narrow, strict=True)]


def _check_one(function: str, value: Any, parameters: dict[str, Any]) -> None:
    name = getattr(value, "name", None)
    is_buffer = isinstance(value, Buffer)
    if is_buffer and value.scope == "global" and name not in parameters:
        return
    if is_buffer and name in parameters:
        message = f"{name} is an argument of {function}: the caller has it already"
        note = "return what T.empty gives; what is updated in place need not be returned"
    else:
        what = f"{name}, a {value.scope} buffer," if is_buffer else f"`{value}`"
        message = f"{function} returns {what} which is no output of the kernel"
        note = "return what T.empty gives, and copy results to it: T.copy(C_local, C[...])"
    raise errors.SemanticsError(message, span=span.here(), notes=[note])


def function_of(
    builder: Builder, name: str, result: Any, where: span.Span
) -> tuple[Func, list[int]]:
    """The traced function, and the indices of the parameters that it returns: the last ones.

    Args:
        builder: has collected its statements.
        name: of the function.
        result: what it returns.
        where: it stands.
    """
    outputs = _taken(builder, [] if result is None else _memory_of(result))
    inputs = builder.parameters.in_order()
    body = builder.pop(builder.blocks[0])
    indices = list(range(len(inputs), len(inputs) + len(outputs)))
    attrs = {**builder.attrs, OUTPUTS: indices} if indices else builder.attrs
    return _func(name, [*inputs, *outputs], body, attrs, where), indices


def _taken(builder: Builder, returned: list[Buffer]) -> list[Buffer]:
    """Makes parameters of the allocations that are returned."""
    block = builder.blocks[0]
    for buffer in returned:
        stmt = next((s for b, s in builder.workspaces if b.same_as(buffer)), None)
        kept = [each for each in block.stmts if stmt is None or not each.same_as(stmt)]
        if len(kept) == len(block.stmts):
            raise errors.SemanticsError(
                f"{buffer.name} is returned, but allocated under control flow of the run",
                notes=["allocate outputs at the beginning of the function"],
            )
        block.stmts = kept
    return returned


__all__ = ["OUTPUTS", "check_returned", "function_of"]
