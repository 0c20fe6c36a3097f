"""Statements that others say as well: ``match`` becomes branches, ``:=`` an assignment before.

What cannot be said so is left as it is, and refused where it is rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

_BLOCKS = ("body", "orelse")
# Expressions whose operands are evaluated under a condition, later, or several times.
_DEFERRED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def desugared(node: ast.FunctionDef) -> ast.FunctionDef:
    """Returns the definition with such statements replaced; it may be changed in place."""
    desugar = _Desugar()
    node.body = desugar.block(node.body)
    return node


class _Desugar:
    def __init__(self) -> None:
        self._subjects = 0

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for stmt in statements:
            result += self._statement(stmt)
        return result

    def _statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        if isinstance(stmt, ast.FunctionDef):  # rewritten when a decorator asks for it
            return [stmt]
        before: list[ast.stmt] = []
        if not isinstance(stmt, (ast.While, ast.For)):
            stmt, before = _hoisted(stmt)
        if isinstance(stmt, ast.Match):
            return [*before, *self._match(stmt)]
        for name in _BLOCKS:
            if inner := getattr(stmt, name, None):
                setattr(stmt, name, self.block(inner))
        return [*before, stmt]

    def _match(self, node: ast.Match) -> list[ast.stmt]:
        """Branches for the cases, tried in order; as it is if a pattern takes values apart."""
        self._subjects += 1
        name = f"__tl_subject_{self._subjects}"
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            test = _test(case.pattern, name)
            if test is None:
                return [node]
            body = self.block(case.body)
            captured = _capture(case.pattern)
            if captured and case.guard:
                return [node]
            if captured:
                body = [_assign(captured, _load(name, case.pattern), case.pattern), *body]
            if case.guard is not None:
                guarded = ast.BoolOp(ast.And(), [test, case.guard])
                test = ast.copy_location(guarded, case.pattern)
            whole = isinstance(test, ast.Constant) and test.value is True
            chain = body if whole else [ast.copy_location(ast.If(test, body, chain), case.pattern)]
        return [_assign(name, node.subject, node.subject), *chain]


def _load(name: str, like: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), like)


def _assign(name: str, value: ast.expr, like: ast.AST) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), like)
    return ast.copy_location(ast.Assign([target], value), like)


def _capture(pattern: ast.pattern) -> str | None:
    return pattern.name if isinstance(pattern, ast.MatchAs) and pattern.pattern is None else None


def _test(pattern: ast.pattern, subject: str) -> ast.expr | None:
    """The condition under which a pattern matches; None for one that takes a value apart."""
    test: ast.expr | None = None
    if isinstance(pattern, ast.MatchValue):
        test = ast.Compare(_load(subject, pattern), [ast.Eq()], [pattern.value])
    elif isinstance(pattern, ast.MatchSingleton):
        value = ast.copy_location(ast.Constant(pattern.value), pattern)
        test = ast.Compare(_load(subject, pattern), [ast.Is()], [value])
    elif isinstance(pattern, ast.MatchOr):
        tests = [_test(each, subject) for each in pattern.patterns]
        test = None if None in tests else ast.BoolOp(ast.Or(), tests)  # type: ignore[arg-type]
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        test = ast.Constant(True)
    return test and ast.copy_location(test, pattern)


def _evaluated(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The expressions of a statement in the order of evaluation, and whether each surely is."""
    for field, value in ast.iter_fields(node):
        if field in _BLOCKS or field == "cases":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr):
                yield from _inside(child, True)
            elif isinstance(child, (ast.withitem, ast.keyword)):
                yield from _evaluated(child)


def _inside(node: ast.expr, sure: bool) -> Iterator[tuple[ast.AST, bool]]:
    children = [c for c in ast.iter_child_nodes(node) if isinstance(c, (ast.expr, ast.keyword))]
    for n, child in enumerate(children):
        first = n == 0
        always = sure and not isinstance(node, _DEFERRED)
        if isinstance(node, ast.BoolOp):
            always = always and first
        elif isinstance(node, ast.IfExp):
            always = always and child is node.test
        elif isinstance(node, ast.Compare):
            always = always and n <= 1
        inner = child.value if isinstance(child, ast.keyword) else child
        yield from _inside(inner, always)
    yield node, sure


def _hoisted(stmt: ast.stmt) -> tuple[ast.stmt, list[ast.stmt]]:
    """The statement with its ``:=`` taken out, and the assignments that go before it.

    Only where nothing changes: the value is computed in any case, and no call and no use of the
    name comes before it in the statement.
    """
    before: list[ast.stmt] = []
    replaced: dict[int, ast.expr] = {}
    read: set[str] = set()
    called = False
    for node, sure in _evaluated(stmt):
        if isinstance(node, ast.NamedExpr):
            if not sure or called or node.target.id in read - _own_reads(node):
                break
            value: Any = _Replace(replaced).visit(node.value)
            before.append(_assign(node.target.id, value, node))
            replaced[id(node)] = _load(node.target.id, node)
            called = False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Call):
            called = not _is_inside_named(stmt, node)
    return (_Replace(replaced).visit(stmt) if replaced else stmt), before


def _own_reads(node: ast.NamedExpr) -> set[str]:
    """Returns the names that the value of a ``:=`` reads."""
    return {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}


def _is_inside_named(stmt: ast.stmt, call: ast.Call) -> bool:
    """Returns whether a call belongs to the value of a ``:=``."""
    named = (n for n in ast.walk(stmt) if isinstance(n, ast.NamedExpr))
    return any(call is inner for each in named for inner in ast.walk(each.value))


class _Replace(ast.NodeTransformer):
    def __init__(self, replaced: dict[int, ast.expr]) -> None:
        self._replaced = replaced

    def visit(self, node: ast.AST) -> Any:
        return self._replaced.get(id(node)) or self.generic_visit(node)


__all__ = ["desugared"]
