"""``tvm.ir``: functions by name, and comparison of IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import _ffi
from ..ir.expr import Expr as PrimExpr
from ..ir.stmt import Func
from ..layout import cute

tvm_ffi = _ffi.tvm_ffi


class Range:
    """A range of integers: from 0 to ``begin``, or from ``begin`` to ``end``.

    Attributes:
        min: the first one.
        extent: how many there are.
    """

    def __init__(self, begin: Any, end: Any = None) -> None:
        self.min: Any = 0 if end is None else begin
        self.extent: Any = begin if end is None else end - begin

    @classmethod
    def from_min_extent(cls, min_value: Any, extent: Any) -> Range:
        """Returns the range of ``extent`` integers from ``min_value`` on."""
        found = cls(extent)
        found.min = min_value
        return found


class IRModule:
    """Functions by name.

    Attributes:
        functions: name -> function.
    """

    def __init__(self, functions: Mapping[str, Func] | None = None) -> None:
        self.functions = {str(name): func for name, func in (functions or {}).items()}

    @classmethod
    def from_expr(cls, func: Func) -> IRModule:
        """Returns the module of one function, by its own name."""
        return cls({func.name: func})

    def __getitem__(self, name: str) -> Func:
        return self.functions[str(name)]

    def __setitem__(self, name: str, func: Func) -> None:
        self.functions[str(name)] = func

    def __contains__(self, name: str) -> bool:
        return str(name) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def script(self) -> str:
        """Returns the IR of all functions as text."""
        return "\n".join(func.script() for func in self.functions.values())

    __str__ = script


def _plain(node: Any) -> Any:
    return node.functions if isinstance(node, IRModule) else node


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Returns whether two pieces of IR are the same but for the names of what they define."""
    a, b = _plain(lhs), _plain(rhs)
    if isinstance(a, cute.Layout | cute.IntTuple):
        return a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(
            structural_equal(a[name], b[name], map_free_vars) for name in a
        )
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars))


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raises AssertionError, with both texts, where :func:`structural_equal` does not hold."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise AssertionError(f"the IR differs:\n{lhs}\n--- and ---\n{rhs}")


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Returns a number that is equal for pieces of IR that :func:`structural_equal` holds for."""
    return int(tvm_ffi.structural_hash(node, map_free_vars))


__all__ = [
    "IRModule",
    "PrimExpr",
    "Range",
    "assert_structural_equal",
    "structural_equal",
    "structural_hash",
]
