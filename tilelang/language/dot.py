"""``T.dp4a``: a dot product of four bytes."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import load
from ..ir.expr import as_expr, cast
from ..ir.stmt import emit, store
from .builder import in_kernel
from .pointer import element_of


def dp4a(A: Any, B: Any, C: Any) -> None:
    """Adds to ``C`` the dot product of four elements of ``A`` and four of ``B``.

    Args:
        A, B: the first of four adjacent elements, int8 or uint8.
        C: an element of 32 bits.

    Raises:
        DTypeError: other types.
    """
    a, b, c = element_of(A), element_of(B), element_of(C)
    bytes_ok = all(each.dtype in ("int8", "uint8") for each in (a, b))
    if not bytes_ok or c.dtype not in ("int32", "uint32"):
        raise errors.DTypeError(
            f"T.dp4a requires int8 or uint8 to multiply and int32 or uint32 to add to, not "
            f"{a.dtype} and {b.dtype} into {c.dtype}",
            span=span.here(),
        )
    in_kernel("T.dp4a")
    total: Any = as_expr(c)
    for n in range(4):
        x, y = (load(each.buffer, [*each.indices[:-1], each.indices[-1] + n]) for each in (a, b))
        total = total + cast(x, c.dtype) * cast(y, c.dtype)
    emit(store(c, total))
