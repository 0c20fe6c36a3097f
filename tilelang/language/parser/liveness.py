"""Finds the names that a block assigns, and which of them later code reads.

A backward walk over the structured program: ``live`` is the set of names that may be read
later, before being assigned. Functions and lambdas count as reading all names in them where
they are defined.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Names = frozenset[str]
_NONE: Names = frozenset()


class BlockNames(NamedTuple):
    """Facts about the names of an ``if``, a loop or a ``with`` for the tracer.

    Attributes:
        names: names assigned in the block and read after it (or, in a loop, in the next
            iteration; or, in an `if`, in the other branch), sorted.
        carried: those of a loop that an iteration reads before assigning them.
        local: those not read after the block: only in the other branch of an `if`, or a loop's
            own variables, which end with it.
    """

    names: tuple[str, ...]
    carried: Names
    local: Names


def reads(node: ast.AST) -> Names:
    """Names read anywhere in ``node``."""
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def nested(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """The statements of a body and those inside them, but not inside other functions."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, (ast.For, ast.While, ast.If, ast.With)):
            yield from nested(stmt.body)
            yield from nested(getattr(stmt, "orelse", ()))


def target_names(node: ast.AST) -> Names:
    """Names that the assignment target ``node`` binds."""
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def assignments(body: Iterable[ast.stmt]) -> list[str]:
    """Names bound by the statements, once for each place that binds them."""
    found: list[str] = []
    for stmt in nested(body):
        targets: list[ast.expr | None] = []
        if isinstance(stmt, ast.Assign):
            targets = [*stmt.targets]
        elif isinstance(stmt, (ast.AnnAssign, ast.AugAssign, ast.For)):
            targets = [stmt.target]
        elif isinstance(stmt, ast.With):
            targets = [item.optional_vars for item in stmt.items]
        elif isinstance(stmt, ast.FunctionDef):
            found.append(stmt.name)
        for target in targets:
            if isinstance(target, ast.Name):
                found.append(target.id)
            elif target is not None:
                found += sorted(target_names(target))
    return found


def declared_names(body: Iterable[ast.stmt]) -> Names:
    """Names that the statements give a type without a value: ``A: T.Tensor((M, N), dtype)``."""
    return frozenset(
        stmt.target.id
        for stmt in nested(body)
        if isinstance(stmt, ast.AnnAssign)
        and stmt.value is None
        and isinstance(stmt.target, ast.Name)
    )


class Liveness:
    """Computes :class:`BlockNames` for every block of a function body."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.blocks: dict[ast.stmt, BlockNames] = {}
        self._known: dict[ast.AST, Names] = {}
        self._after_loop: list[tuple[Names, Names]] = []
        self._live_in(body, _NONE)

    def _reads(self, node: ast.AST) -> Names:
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = reads(node)
        return found

    def _live_in(self, body: Sequence[ast.stmt], live: Names) -> Names:
        for stmt in reversed(body):
            live = self._before(stmt, live)
        return live

    def _before(self, stmt: ast.stmt, live: Names) -> Names:
        if isinstance(stmt, ast.Assign):
            bound = frozenset().union(*map(target_names, stmt.targets))
            return (live - bound) | self._reads(stmt)
        if isinstance(stmt, ast.AnnAssign):
            return (live - target_names(stmt.target)) | self._reads(stmt)
        if isinstance(stmt, ast.AugAssign):
            return live | self._reads(stmt) | target_names(stmt.target)
        if isinstance(stmt, ast.If):
            return self._before_if(stmt, live)
        if isinstance(stmt, (ast.For, ast.While)):
            return self._before_loop(stmt, live)
        if isinstance(stmt, ast.With):
            return self._before_with(stmt, live)
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return self._reads(stmt)
        if isinstance(stmt, (ast.Break, ast.Continue)) and self._after_loop:
            return self._after_loop[-1][isinstance(stmt, ast.Continue)]
        return live | self._reads(stmt)

    def _before_if(self, stmt: ast.If, live: Names) -> Names:
        bound = frozenset(assignments([stmt]))
        then, other = self._live_in(stmt.body, live), self._live_in(stmt.orelse, live)
        only_else = (frozenset(assignments(stmt.body)) & other) - live
        names = tuple(sorted((bound & live) | only_else))
        self.blocks[stmt] = BlockNames(names, _NONE, only_else)
        return then | other | self._reads(stmt.test)

    def _before_loop(self, stmt: ast.For | ast.While, live: Names) -> Names:
        targets = target_names(stmt.target) if isinstance(stmt, ast.For) else _NONE
        test = self._reads(stmt.test) if isinstance(stmt, ast.While) else _NONE
        head = live | test
        for _ in range(2):  # the second pass knows what the next iteration reads
            self._after_loop.append((live, head))
            head = live | test | (self._live_in(stmt.body, head) - targets)
            self._after_loop.pop()
        exposed = test | self._exposed(stmt, live)
        bound = frozenset(assignments([stmt]))
        carried = (bound - targets) & exposed
        names = tuple(sorted(carried | (bound & live)))
        self.blocks[stmt] = BlockNames(names, carried, targets & live)
        return head | (self._reads(stmt.iter) if isinstance(stmt, ast.For) else _NONE)

    def _exposed(self, stmt: ast.For | ast.While, live: Names) -> Names:
        """Names that one iteration reads before it assigns them."""
        blocks, self.blocks = self.blocks, {}
        self._after_loop.append((_NONE, _NONE))
        targets = target_names(stmt.target) if isinstance(stmt, ast.For) else _NONE
        exposed = self._live_in(stmt.body, _NONE) - targets
        self._after_loop.pop()
        self.blocks = blocks
        return exposed

    def _before_with(self, stmt: ast.With, live: Names) -> Names:
        bound = frozenset(assignments([stmt]))
        self.blocks[stmt] = BlockNames(tuple(sorted(bound & live)), _NONE, _NONE)
        inside = self._live_in(stmt.body, live)
        for item in reversed(stmt.items):
            inside -= target_names(item.optional_vars) if item.optional_vars else _NONE
            inside |= self._reads(item.context_expr)
        return inside
