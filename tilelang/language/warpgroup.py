"""``T.ws``: a part of the kernel that only some warpgroups execute."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.expr import Expr
from ..ir.stmt import emit
from .builder import Block, Builder, in_block
from .early_return import path_of, skip_the_rest
from .scalar import OR, logical
from .threads import get_warp_group_idx

_if = _ffi.get("ir.If")


class WarpgroupFrame:
    """The open block of the chosen warpgroups."""

    def __init__(self, condition: Expr, builder: Builder) -> None:
        self._condition = condition
        self._builder = builder
        self._block: Block | None = None
        self._where = span.current()

    def __enter__(self) -> None:
        self._block = self._builder.push("T.ws")

    def __exit__(self, error: Any, *_rest: Any) -> None:
        if error is not None or self._block is None:
            return
        self._builder.end(self._block)
        leaves = path_of(self._condition, [self._block])
        emit(_if(self._condition, self._block.body(), None, self._where))
        skip_the_rest(self._builder, leaves)
        self._builder.left = "a T.ws block"


def ws(*warp_group_idx: int) -> WarpgroupFrame:
    """``with T.ws(0, 1):`` executes its body only in these warpgroups (128 threads each).

    Raises:
        SemanticsError: no warpgroup given, or one that the block does not have.
    """
    builder = in_block("T.ws")
    groups = builder.kernel.thread_count // 128
    if not warp_group_idx or not all(0 <= index < groups for index in warp_group_idx):
        raise errors.SemanticsError(
            f"T.ws{warp_group_idx}: the block has {groups} warpgroups of 128 threads",
            span=span.here(),
        )
    group = get_warp_group_idx()
    condition = group == warp_group_idx[0]
    for index in warp_group_idx[1:]:
        condition = logical(OR, condition, group == index)
    return WarpgroupFrame(condition, builder)
