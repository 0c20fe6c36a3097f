"""The part of a function that declares its parameters in its body.

Shapes of declared tensors determine the constants of ``T.const``, and everything else may use
these: so the declarations are executed first, with whatever their annotations are computed from,
and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .liveness import Names, assignments, nested, reads, target_names

_NONE: Names = frozenset()


def declaring_part(node: ast.FunctionDef) -> ast.FunctionDef:
    """Returns ``node`` with those statements alone; the tree is changed."""
    imports = (s for s in nested(node.body) if isinstance(s, (ast.Import, ast.ImportFrom)))
    local = frozenset(assignments(node.body)).union(*map(_bound, imports))
    needed = _NONE
    while True:  # what an assignment needs may be assigned before it or, in a loop, after it
        found = needed.union(*(_needs(stmt, needed) for stmt in node.body)) & local
        if found == needed:
            break
        needed = found
    node.body = _kept(node.body, needed)
    return node


def _is_declaration(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.AnnAssign) and stmt.value is None


def _bound(stmt: ast.stmt) -> Names:
    """The names that a simple statement may give a value, or whose value it may change."""
    if isinstance(stmt, ast.Assign):
        roots = [reads(target) for target in stmt.targets if not isinstance(target, ast.Name)]
        return frozenset().union(*map(target_names, stmt.targets), *roots)
    if isinstance(stmt, (ast.AugAssign, ast.AnnAssign)):
        return target_names(stmt.target) | reads(stmt.target)
    if isinstance(stmt, ast.FunctionDef):
        return frozenset({stmt.name})
    if isinstance(stmt, (ast.Import, ast.ImportFrom)):
        return frozenset((alias.asname or alias.name).split(".")[0] for alias in stmt.names)
    if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
        function = stmt.value.func
        return reads(function) if isinstance(function, ast.Attribute) else _NONE
    return _NONE


def _is_kept(stmt: ast.stmt, needed: Names) -> bool:
    if isinstance(stmt, (ast.If, ast.For, ast.While)):
        return any(_is_kept(inner, needed) for inner in (*stmt.body, *stmt.orelse))
    return _is_declaration(stmt) or bool(_bound(stmt) & needed)


def _needs(stmt: ast.stmt, needed: Names) -> Names:
    """Names that must have a value so that the kept part of ``stmt`` can be executed."""
    if not _is_kept(stmt, needed):
        return _NONE
    if isinstance(stmt, (ast.If, ast.For, ast.While)):
        head = stmt.iter if isinstance(stmt, ast.For) else stmt.test
        inside = (_needs(inner, needed) for inner in (*stmt.body, *stmt.orelse))
        return reads(head).union(*inside)
    return reads(stmt)


def _kept(body: Iterable[ast.stmt], needed: Names) -> list[ast.stmt]:
    result = [stmt for stmt in body if _is_kept(stmt, needed)]
    for stmt in result:
        if isinstance(stmt, (ast.If, ast.For, ast.While)):
            stmt.body = _kept(stmt.body, needed)
            stmt.orelse = _kept(stmt.orelse, needed)
    return result
