"""The parameters of a function being traced: declared by annotations, or in its body."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import inspect
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from .. import errors
from ..ir import span
from ..ir.dtype import HANDLE, DType, dtype_of
from ..ir.expr import var
from .outputs import check_returned
from .parser.compiled import SCOPE
from .parser.liveness import nested, reads
from .parser.rewrite import Tables
from .tensor import PointerType, StridedTensor, Tensor, TensorType
from .variable import Poison
from .view import View

_EXAMPLES: dict[Any, str] = {
    Tensor: "(M, N), dtype",
    StridedTensor: "(M, N), (stride, 1), dtype",
}


class Undeclared(Poison):
    """A parameter that the body has not declared yet."""

    __slots__ = ("parameter",)

    def __init__(self, name: str) -> None:
        super().__init__(
            f"parameter {name} is used before it is declared",
            f"declare it first: {name}: T.Tensor((M, N), dtype)",
        )
        self.parameter = name


class Parameters:
    """The parameters of one function, in order.

    Attributes:
        name: of the function.
        names: of its parameters, in order.
        values: buffers and scalar variables, by name, as far as they are declared.
        symbols: dimensions given by name (strings).
        places: where each was declared.
    """

    def __init__(self, name: str, names: list[str]) -> None:
        self.name = name
        self.names = names
        self.values: dict[str, Any] = {}
        self.symbols: dict[str, Any] = {}
        self.places: dict[str, errors.Span | None] = {}
        # Those that stand for nothing until the body declares them.
        self._undeclared: dict[str, errors.Span] = {}

    def annotated(self, name: str, annotation: Any, where: errors.Span) -> Any:
        """Declares a parameter by its annotation and returns what stands for it."""
        self.places[name] = where
        self.values[name] = self._make(name, annotation)
        return self.values[name]

    def declare(self, name: str, annotation: Any, value: Any) -> Any:
        """Declares a parameter in the body: ``A: T.Tensor((M, N), dtype)``.

        Args:
            name: of the parameter.
            annotation: its type.
            value: what stood for it before.

        Raises:
            SemanticsError: it is declared already.
        """
        if not isinstance(value, Undeclared):
            raise errors.SemanticsError(
                f"parameter {name} is declared here, but has a value already: {value!r}",
                span=span.here(),
                notes=["declare it once, in the body or by an annotation of the parameter"],
            )
        self.places[name] = span.here()
        self.values[name] = self._make(name, annotation)
        self._undeclared.pop(name, None)
        return self.values[name]

    def expect(self, name: str, where: errors.Span) -> Undeclared:
        """Returns what stands for a parameter that the body is to declare."""
        self._undeclared[name] = where
        return Undeclared(name)

    def const(self, name: str, dtype: DType) -> Any:
        """Returns a constant of ``T.const``.

        Raises:
            SemanticsError: the function is not of the eager style.
        """
        raise errors.SemanticsError(
            f"T.const declares {name}, but the function is a T.prim_func: nothing gives it a value",
            span=span.here(),
            notes=[
                "the shapes of a T.prim_func are arguments of the function around it; T.const is "
                "for functions decorated with @tilelang.jit whose body is the kernel"
            ],
        )

    def check_return(self, value: Any) -> None:
        """Refuses what the function cannot return.

        Raises:
            SemanticsError: it is nothing that T.empty gave.
        """
        check_returned(self.name, value, self.values)

    def point(self, parameter: Any, annotation: TensorType) -> Any:
        """Declares the tensor that a parameter of type T.handle points to, and returns it.

        Raises:
            SemanticsError: it is no such parameter.
        """
        for name, value in self.values.items():
            if getattr(value, "dtype", None) == HANDLE and value.same_as(parameter):
                self.values[name] = self._make(name, annotation)
                return self.values[name]
        raise errors.SemanticsError(
            f"`{parameter}` is no parameter of type T.handle, or it has a tensor already",
            span=span.here(),
        )

    def in_order(self) -> list[Any]:
        """Returns the buffers and scalar variables in the order of the parameters.

        Raises:
            SemanticsError: one that the body should declare was not.
        """
        for name, where in self._undeclared.items():
            raise errors.SemanticsError(
                f"parameter {name} of {self.name} was not declared",
                span=where,
                notes=[f"no statement {name}: T.Tensor((M, N), dtype) of the body was executed"],
            )
        declared = [self.values[name] for name in self.names if name in self.values]
        return [value.source if isinstance(value, View) else value for value in declared]

    def _make(self, name: str, annotation: Any) -> Any:
        if isinstance(annotation, TensorType):
            return annotation.buffer(name, self.symbols)
        if isinstance(annotation, PointerType) or annotation in (PointerType, "handle"):
            return var(name, HANDLE)
        if annotation is Tensor or annotation is StridedTensor:
            raise errors.ShapeError(
                f"parameter {name} is declared as {annotation!r}, without a shape and a type",
                span=self.places[name],
                notes=[f"write {name}: {annotation!r}({_EXAMPLES[annotation]})"],
            )
        if callable(annotation) and not isinstance(annotation, (type, DType)):
            return self._make(name, annotation())
        try:
            return var(name, dtype_of(annotation))
        except errors.TileLangError as error:
            raise errors.DTypeError(
                f"parameter {name} has annotation `{annotation}`, which is neither a tensor nor a "
                "scalar type",
                span=self.places[name],
                notes=[
                    f"use {name}: T.Tensor((M, N), dtype) or {name}: T.int32",
                    *error.notes,
                ],
            ) from None


def scope_of(function: FunctionType, frame: FrameType | None) -> dict[str, Any]:
    """Returns the names that string annotations may use besides those of the module.

    Args:
        function: the function.
        frame: where it is defined.
    """
    scope: dict[str, Any] = {}
    outer: list[FrameType] = []
    while frame is not None and frame.f_code.co_name != "<module>" and len(outer) < 4:
        outer.append(frame)
        frame = frame.f_back
    for each in reversed(outer):
        if each.f_globals is function.__globals__:
            scope.update(each.f_locals)
    scope.update(_enclosed(function))
    return scope


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """The names of enclosing functions that ``function`` uses, as far as they have values yet."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # bound after the function
            values[name] = cell.cell_contents
    return values


def remember_scope(function: FunctionType, declared: ast.FunctionDef, frame: Any) -> None:
    """Lets declarations in the body use names of the scopes around the function.

    Python does not evaluate annotations of local names, and under ``from __future__ import
    annotations`` does not even keep what they use.

    Args:
        function: the function.
        declared: its definition.
        frame: where it is defined.
    """
    used = frozenset().union(
        *(
            reads(stmt.annotation)
            for stmt in nested(declared.body)
            if isinstance(stmt, ast.AnnAssign) and stmt.value is None
        )
    )
    code = function.__code__
    known = {*code.co_freevars, *code.co_varnames, *code.co_cellvars, *function.__globals__}
    missing = used - known - set(dir(builtins))
    if missing:
        scope = scope_of(function, frame)
        found = {name: scope[name] for name in missing if name in scope}
        function.__dict__.setdefault(SCOPE, {}).update(found)


def evaluated(function: FunctionType, name: str, text: str, scope: dict[str, Any]) -> Any:
    """Returns the value of an annotation that is a string.

    Raises:
        UnknownNameError: it uses a name that has no value.
    """
    try:
        return dtype_of(text)
    except errors.TileLangError:
        pass
    try:
        return eval(text, function.__globals__, scope)
    except NameError as error:
        code = function.__code__
        raise errors.UnknownNameError(
            f"annotation `{text}` of parameter {name}: {error}",
            span=errors.Span(code.co_filename, code.co_firstlineno),
        ) from None


def _annotations(function: FunctionType, frame: FrameType | None) -> dict[str, Any]:
    found = dict(function.__annotations__)
    scope = scope_of(function, frame)
    for name, annotation in found.items():
        if isinstance(annotation, str):
            found[name] = evaluated(function, name, annotation, scope)
    return found


def place_of(tables: Tables, name: str) -> Callable[[], span.Span]:
    """Returns what makes the place of a parameter."""
    return functools.partial(span.make, tables.file, *tables.arguments[name])


def parameters_of(
    function: FunctionType, frame: FrameType | None, tables: Tables
) -> tuple[Parameters, dict[str, Any]]:
    """Returns the parameters of a ``T.prim_func``, and the values to execute its body with.

    Raises:
        UnsupportedSyntaxError: a parameter that is declared nowhere, or ``*args``.
    """
    signature = inspect.signature(function).parameters
    annotations = _annotations(function, frame)
    parameters = Parameters(function.__name__, list(signature))
    values: dict[str, Any] = {}
    for name, parameter in signature.items():
        place = errors.Span(tables.file, *tables.arguments[name])
        span.set_place(place_of(tables, name))
        check_fixed(function, parameter, place)
        if name in annotations:
            values[name] = parameters.annotated(name, annotations[name], place)
        elif name in tables.declared:
            values[name] = parameters.expect(name, place)
        elif parameter.default is not parameter.empty:
            values[name] = parameter.default
        else:
            raise errors.UnsupportedSyntaxError(
                f"parameter {name} of {function.__name__} has no annotation",
                span=place,
                notes=[f"write {name}: T.Tensor((M, N), dtype), or {name}: T.int32 for a scalar"],
            )
    return parameters, values


def check_fixed(function: FunctionType, parameter: Any, place: errors.Span) -> None:
    """Refuses ``*args`` and ``**kwargs``."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise errors.UnsupportedSyntaxError(
            f"parameter *{parameter.name} of {function.__name__} is not supported: a kernel has a "
            "fixed number of parameters",
            span=place,
        )
