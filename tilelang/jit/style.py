"""Finds in which of two styles a function decorated with ``@tilelang.jit`` is written.

A *lazy* function returns a ``T.prim_func``: calling it gives a kernel. The body of an *eager* one
is the kernel: calling it with tensors runs it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import Any

from .. import errors
from ..ir.dtype import DType, dtype_of
from ..language.parameters import remember_scope, scope_of
from ..language.parser.desugar import desugared
from ..language.parser.liveness import declared_names
from ..language.parser.source import definition
from ..language.tensor import PointerType, TensorType

# Names that only a function whose body is a kernel uses.
_KERNEL_NAMES = frozenset({"Kernel", "ClusterKernel", "const"})


def runtime_types(function: FunctionType, frame: FrameType | None) -> dict[str, Any]:
    """Returns the parameters whose annotation is a tensor, a pointer or a type of the language.

    Args:
        function: a Python function.
        frame: where it is defined, for annotations that are strings.
    """
    scope: dict[str, Any] | None = None
    found = {}
    for name, annotation in function.__annotations__.items():
        value = annotation
        if isinstance(annotation, str):
            scope = scope_of(function, frame) if scope is None else scope
            value = _value(annotation, function, scope)
        if name != "return" and (
            isinstance(value, (TensorType, PointerType, DType)) or value is PointerType
        ):
            found[name] = value
    return found


def _value(text: str, function: FunctionType, scope: dict[str, Any]) -> Any:
    """Returns an annotation as text; None if it means nothing to the language."""
    value: Any = text
    for _ in range(2):  # a string may be written as such, in a file where all annotations are
        try:
            value = eval(value, function.__globals__, scope)
        except Exception:  # of annotations for type checkers only
            break
        if not isinstance(value, str):
            return value
    try:
        return dtype_of(value)
    except errors.TileLangError:
        return None


def is_eager(function: FunctionType, types: dict[str, Any], frame: FrameType | None = None) -> bool:
    """Returns whether the body of a function is a kernel.

    Args:
        function: a Python function; one without readable source is lazy.
        types: its :func:`runtime_types`.
        frame: where it is defined.

    Raises:
        UnsupportedSyntaxError: it is eager, as the names that it uses tell, but has no source.
    """
    try:
        node = desugared(definition(function))
    except errors.UnsupportedSyntaxError:
        if _KERNEL_NAMES & set(function.__code__.co_names):
            raise
        return False
    remember_scope(function, node, frame)
    if any(isinstance(kind, (TensorType, PointerType)) for kind in types.values()):
        return True
    return bool(_declared(node)) or any(_opens_kernel(each) for each in _own_nodes(node))


def declared_parameters(function: FunctionType) -> frozenset[str]:
    """Returns the parameters that the body of an eager function declares."""
    return _declared(desugared(definition(function)))


def _declared(node: ast.FunctionDef) -> frozenset[str]:
    arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    return declared_names(node.body) & arguments


def _own_nodes(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yields the nodes of a body that are not in functions or classes defined there."""
    pending: list[ast.AST] = [*node.body]
    while pending:
        each = pending.pop()
        yield each
        if not isinstance(each, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(each)


def _opens_kernel(node: ast.AST) -> bool:
    if isinstance(node, ast.With):
        return any(_called(item.context_expr).endswith("Kernel") for item in node.items)
    return _called(node) == "const" and isinstance(node.func, ast.Attribute)  # type: ignore[attr-defined]


def _called(node: ast.AST) -> str:
    """Returns the last name of the called function, or an empty string for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return str(getattr(function, "attr", None) or getattr(function, "id", ""))
