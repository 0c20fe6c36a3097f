"""Emits copies, with what programs say about them in fields of the operator."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Region
from ..ir.expr import Expr
from ..ir.stmt import emit
from .loops import constant

_copy = _ffi.get("ir.Copy")
_options = _ffi.get("ir.CopyOptions")
#: By their numbers in ``src/ir/copy_operator.h``.
_EVICTION_POLICIES = ("evict_normal", "evict_first", "evict_last")


class CopyCall(IntEnum):
    """The function of the language that a copy is: ``CopyCall`` of ``src/ir/copy_operator.h``."""

    COPY = 0
    ATOMIC_ADD = 1
    TMA_COPY = 2
    TMA_GATHER = 3
    SCALE_FACTORS = 4


def emit_copy(
    source: Region,
    target: Region,
    call: CopyCall = CopyCall.COPY,
    *,
    disable_tma: bool = False,
    prefer_tma: bool = False,
    eviction_policy: Any = None,
    cluster_mask: int = 0,
    in_pairs: bool = False,
    coalesced_width: Any = None,
    loop_layout: Any = None,
    barrier: Expr | None = None,
    block: Expr | None = None,
    rows: Sequence[Expr] = (),
) -> None:
    """Emits a copy: see ``CopyOptionsNode`` and ``CopyNode`` of ``src/ir/copy_operator.h``.

    Raises:
        SemanticsError: an eviction policy or a width that there is not.
    """
    width = 0 if coalesced_width is None else constant("coalesced_width", coalesced_width, 1)
    options = _options(
        int(call),
        bool(disable_tma),
        prefer_tma,
        _eviction(eviction_policy),
        cluster_mask,
        in_pairs,
        width,
        loop_layout,
    )
    emit(_copy(source, target, options, span.current(), barrier, block, list(rows)))


def _eviction(policy: Any) -> int:
    """Returns the number of a policy that is given by its name or its number; None is the first."""
    if policy is None:
        return 0
    if policy in _EVICTION_POLICIES:
        return _EVICTION_POLICIES.index(policy)
    if isinstance(policy, int) and 0 <= policy < len(_EVICTION_POLICIES):
        return policy
    raise errors.SemanticsError(
        f"unknown eviction_policy {policy!r}",
        span=span.here(),
        notes=[f"known: {', '.join(_EVICTION_POLICIES)}"],
    )
