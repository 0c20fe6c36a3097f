"""Compiles rewritten kernels to Python code objects, once for each function definition."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from .declarations import declaring_part
from .desugar import desugared
from .rewrite import TRACER, Tables, function_def, located, rewrite
from .source import definition


class Compiled(NamedTuple):
    """The code of a rewritten function, and what its calls of the tracer refer to."""

    code: CodeType
    tables: Tables


# By file too: code of equal text in two files is equal.
_compiled: dict[tuple[str, CodeType], Compiled] = {}
_declaring: dict[tuple[str, CodeType], Compiled] = {}
_INNER = "__tl_inner"
#: The attribute of a function with values of names that its code does not know: see
#: :func:`parameters.remember_scope`.
SCOPE = "__tilelang_scope__"
#: The code objects of all rewritten functions.
CODES: set[CodeType] = set()


def _inner(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def compiled(function: FunctionType) -> Compiled:
    """Returns the rewritten code of ``function``."""
    return _cached(_compiled, function, lambda node: node)


def declaring(function: FunctionType) -> Compiled:
    """Compiles only the statements in the body that declare parameters."""
    return _cached(_declaring, function, declaring_part)


def _cached(
    cache: dict[tuple[str, CodeType], Compiled],
    function: FunctionType,
    part: Callable[[ast.FunctionDef], ast.FunctionDef],
) -> Compiled:
    original = function.__code__
    key = original.co_filename, original
    found = cache.get(key)
    if found is None:
        node, tables = rewrite(part(desugared(definition(function))), original.co_filename)
        found = cache[key] = Compiled(_compile(node, original), tables)
        CODES.add(found.code)
    return found


def _compile(node: ast.FunctionDef, original: CodeType) -> CodeType:
    """Compiles ``node`` inside a function that has its free variables, then takes it out."""
    free = [TRACER, *original.co_freevars]
    arguments = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    # Under its own name the function would hide what the name means outside: recursion.
    node.name = _INNER
    outer = function_def("__tl_outer", arguments, [node])
    place = (node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 1)
    module = ast.Module([located(outer, place)], [])
    code = compile(module, original.co_filename, "exec", dont_inherit=True)
    inner = _inner(_inner(code, "__tl_outer"), _INNER)
    return inner.replace(co_name=original.co_name)


def bind_tracer(function: FunctionType, rewritten: Compiled, tracer: Any) -> Callable[..., Any]:
    """Returns the rewritten ``function``, or part of it, with ``tracer`` as its tracer.

    Globals, the cells of the closure and the defaults are those of the original.
    """
    code = rewritten.code
    names = function.__globals__
    if SCOPE in function.__dict__:
        names = {**names, **function.__dict__[SCOPE]}
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[TRACER] = CellType(tracer)
    closure = tuple(cells[name] for name in code.co_freevars)
    bound = FunctionType(code, names, function.__name__, function.__defaults__, closure)
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound
