"""The IR as Python sees it: expressions with operators, buffers, statements, functions."""

from .buffer import Buffer, Load, Region
from .dtype import DType, dtype_of
from .expr import Call, Expr, FloatImm, IntImm, Var, as_expr, cast
from .span import Span
from .stmt import Func, Stmt

__all__ = [
    "Buffer",
    "Call",
    "DType",
    "Expr",
    "FloatImm",
    "Func",
    "IntImm",
    "Load",
    "Region",
    "Span",
    "Stmt",
    "Var",
    "as_expr",
    "cast",
    "dtype_of",
]
