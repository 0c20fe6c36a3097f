"""Cluster launch control: a running block takes over the work of one that has not started."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.dtype import BOOL, UINT32, DType
from ..ir.expr import Expr, call
from .builder import in_kernel
from .gemm import barrier_element
from .pointer import address_of, element_of
from .sync import emit_call

_BYTES = 16


def _address(what: str, result: Any) -> Expr:
    """The address of an answer.

    Raises:
        ScopeError: it does not lie in shared memory.
        ShapeError: it has less than 16 bytes.
    """
    in_kernel(what)
    buffer = element_of(result).buffer
    if buffer.scope not in ("shared", "shared.dyn"):
        raise errors.ScopeError(
            f"{what}: the answer needs a buffer in shared memory, got {buffer.describe()}",
            span=span.here(),
            notes=['result = T.alloc_shared((4,), "uint32")'],
        )
    size = buffer.dtype.bytes
    for extent in buffer.shape:
        size *= extent if isinstance(extent, int) else 1
    if size < _BYTES:
        raise errors.ShapeError(
            f"{what}: the answer needs {_BYTES} bytes, but {buffer.describe()} has {size}",
            span=span.here(),
            notes=['result = T.alloc_shared((4,), "uint32")'],
        )
    return address_of(result)


def _ask(name: str, result: Any, mbarrier: Any) -> None:
    what = f"T.{name}"
    emit_call(name, _address(what, result), barrier_element(f"mbarrier of {what}", mbarrier))


def clc_try_cancel(result: Any, mbarrier: Any) -> None:
    """Asks for a cluster of the grid that has not started: it will not start, the caller does its
    work.

    The answer, 16 bytes, completes on ``mbarrier``, which is told to expect them
    (``T.mbarrier_arrive_expect_tx(mbarrier, 16)``). Each thread that gets here asks: call it in one
    of them, when all are done with the last answer.

    Args:
        result: ``T.alloc_shared((4,), "uint32")``.
        mbarrier: one of ``T.alloc_barrier``.

    Raises:
        ScopeError, ShapeError: ``result`` is not in shared memory, or too small.
        TargetError (when compiled): the target is not sm_100a.
    """
    _ask("clc_try_cancel", result, mbarrier)


def clc_try_cancel_multicast(result: Any, mbarrier: Any) -> None:
    """As :func:`clc_try_cancel`, with the answer to ``result`` in each block of the cluster.

    It completes on the ``mbarrier`` of each. One thread of the cluster asks.
    """
    _ask("clc_try_cancel_multicast", result, mbarrier)


def _query(name: str, dtype: DType, result: Any) -> Expr:
    builder = in_kernel(f"T.{name}")
    answer = call(UINT32, name, [_address(f"T.{name}", result)])
    return builder.bind(builder.take_hint("clc"), answer != 0 if dtype == BOOL else answer)


def clc_is_canceled(result: Any) -> Expr:
    """Returns whether the answer names a cluster to take over (bool); if not, all have started."""
    return _query("clc_is_canceled", BOOL, result)


def clc_get_first_ctaid_x(result: Any) -> Expr:
    """The index of the first block of the cluster to take over, along x (uint32).

    Undefined where :func:`clc_is_canceled` is False.
    """
    return _query("clc_get_first_ctaid_x", UINT32, result)


def clc_get_first_ctaid_y(result: Any) -> Expr:
    """The same along y."""
    return _query("clc_get_first_ctaid_y", UINT32, result)


def clc_get_first_ctaid_z(result: Any) -> Expr:
    """The same along z."""
    return _query("clc_get_first_ctaid_z", UINT32, result)
