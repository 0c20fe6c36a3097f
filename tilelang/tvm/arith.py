"""``tvm.arith.Analyzer``: what is known of integer expressions."""

from __future__ import annotations

from typing import Any

from .. import _ffi
from ..ir.expr import as_expr


class Analyzer:
    """Simplifies and proves; knows nothing of variables until :meth:`bind`."""

    def __init__(self) -> None:
        self._handle = _ffi.get("arith.Analyzer")()

    def bind(self, variable: Any, low: Any, extent: Any = None) -> None:
        """States that ``low <= variable < low + extent``; without an extent, that it is ``low``."""
        if extent is None:
            _ffi.get("arith.BindValue")(self._handle, variable, as_expr(low))
        else:
            _ffi.get("arith.BindRange")(self._handle, variable, as_expr(low), as_expr(extent))

    def simplify(self, expr: Any) -> Any:
        """Returns an expression of the same value."""
        return _ffi.get("arith.Simplify")(self._handle, as_expr(expr))

    def can_prove(self, condition: Any) -> bool:
        """Returns whether ``condition`` holds for all values of its variables."""
        return bool(_ffi.get("arith.CanProve")(self._handle, as_expr(condition)))

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Returns whether ``a == b`` for all values of their variables."""
        return bool(_ffi.get("arith.CanProveEqual")(self._handle, as_expr(a), as_expr(b)))


__all__ = ["Analyzer"]
