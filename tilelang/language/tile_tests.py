"""Questions about whole tiles: ``T.any_of`` and ``T.all_of``."""

from __future__ import annotations

from typing import Any

from .. import _ffi
from ..ir import span
from ..ir.buffer import load, plain
from ..ir.dtype import BOOL, INT32
from ..ir.expr import Expr, as_expr, condition, unary, var
from ..ir.expr import UnaryOp as Unary
from ..ir.stmt import emit, store
from .allocate import alloc_shared
from .atomics import atomic_or
from .builder import in_block, in_kernel
from .copy import fill
from .function import macro
from .loops import Parallel
from .region import as_region
from .scalar import OR, logical
from .variable import allocate

_for = _ffi.get("ir.For")


def any_of(buffer: Any) -> Expr:
    """Returns whether an element of a tile is not 0.

    Of a fragment, all threads of the block find it out together; of other memory each thread
    reads the tile by itself.
    """
    return _some("T.any_of", buffer, False)


def all_of(buffer: Any) -> Expr:
    """Returns whether no element of a tile is 0; see :func:`any_of`."""
    return unary(Unary.NOT, _some("T.all_of", buffer, True))


def _some(what: str, buffer: Any, zero: bool) -> Expr:
    region = as_region(f"buffer of {what}", buffer)
    if region.buffer.scope == "local.fragment":
        return _together(what, buffer, zero)
    builder = in_kernel(what)
    found = allocate("found", BOOL, init=False)
    found.fresh = False
    extents = [plain(extent) for extent in region.extents]
    indices = [var(f"i{n}", INT32) for n, _ in enumerate(extents)]
    places = [low + index for low, index in zip(region.mins, indices, strict=True)]
    test = _test(load(region.buffer, places), zero)
    body = store(found.target, logical(OR, as_expr(found), test))
    for index, extent in zip(reversed(indices), reversed(extents), strict=True):
        body = _for(index, as_expr(0), as_expr(extent), 0, body, {}, span.current())
    emit(body)
    return builder.bind("found", as_expr(found))


def _test(value: Any, zero: bool) -> Expr:
    test = condition(as_expr(value))
    return unary(Unary.NOT, test) if zero else test


def _together(what: str, tile: Any, zero: bool) -> Expr:
    builder = in_block(what)
    flag = alloc_shared((1,), "int32")
    fill(flag, 0)
    _raise_flag(tile, flag, zero)
    return builder.bind("found", flag[0] != 0)


@macro
def _raise_flag(tile: Any, flag: Any, zero: Any) -> None:
    for place in Parallel(*tile.shape):
        if _test(tile[place], zero):
            atomic_or(flag[0], 1)


__all__ = ["all_of", "any_of"]
