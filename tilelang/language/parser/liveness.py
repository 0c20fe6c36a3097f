"""Which names a block assigns, and which of those are read after it or in its next iteration.

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
    """What the tracer has to know about the names of an ``if``, a loop or a ``with``.

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


def reads(node: ast.AST | None) -> Names:
    """Names read anywhere in ``node``."""
    if node is None:
        return _NONE
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def target_names(node: ast.AST) -> Names:
    """Names that the assignment target ``node`` binds."""
    return frozenset(
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def assignments(body: Iterable[ast.stmt]) -> list[str]:
    """Names bound by the statements, once for each place that binds them."""
    found: list[str] = []
    for stmt in body:
        if isinstance(stmt, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
            found += [name for target in targets for name in sorted(target_names(target))]
        elif isinstance(stmt, ast.For):
            found += [*sorted(target_names(stmt.target)), *assignments(stmt.body)]
        elif isinstance(stmt, ast.While):
            found += assignments(stmt.body)
        elif isinstance(stmt, ast.If):
            found += [*assignments(stmt.body), *assignments(stmt.orelse)]
        elif isinstance(stmt, ast.With):
            for item in stmt.items:
                found += sorted(target_names(item.optional_vars)) if item.optional_vars else []
            found += assignments(stmt.body)
        elif isinstance(stmt, ast.FunctionDef):
            found.append(stmt.name)
    return found


class Liveness:
    """Computes :class:`BlockNames` for every block of a function body."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.blocks: dict[ast.stmt, BlockNames] = {}
        self._after_loop: list[tuple[Names, Names]] = []
        self._live_in(body, _NONE)

    def _live_in(self, body: Sequence[ast.stmt], live: Names) -> Names:
        for stmt in reversed(body):
            live = self._before(stmt, live)
        return live

    def _before(self, stmt: ast.stmt, live: Names) -> Names:
        if isinstance(stmt, ast.Assign):
            bound = frozenset().union(*map(target_names, stmt.targets))
            return (live - bound) | reads(stmt)
        if isinstance(stmt, ast.AnnAssign):
            return (live - target_names(stmt.target)) | reads(stmt)
        if isinstance(stmt, ast.AugAssign):
            return live | reads(stmt) | target_names(stmt.target)
        if isinstance(stmt, ast.If):
            return self._before_if(stmt, live)
        if isinstance(stmt, (ast.For, ast.While)):
            return self._before_loop(stmt, live)
        if isinstance(stmt, ast.With):
            return self._before_with(stmt, live)
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return reads(stmt)
        if isinstance(stmt, (ast.Break, ast.Continue)) and self._after_loop:
            return self._after_loop[-1][isinstance(stmt, ast.Continue)]
        return live | reads(stmt)

    def _before_if(self, stmt: ast.If, live: Names) -> Names:
        bound = frozenset(assignments([stmt]))
        then, other = self._live_in(stmt.body, live), self._live_in(stmt.orelse, live)
        only_else = (frozenset(assignments(stmt.body)) & other) - live
        names = tuple(sorted((bound & live) | only_else))
        self.blocks[stmt] = BlockNames(names, _NONE, only_else)
        return then | other | reads(stmt.test)

    def _before_loop(self, stmt: ast.For | ast.While, live: Names) -> Names:
        targets = target_names(stmt.target) if isinstance(stmt, ast.For) else _NONE
        test = reads(stmt.test) if isinstance(stmt, ast.While) else _NONE
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
        return head | (reads(stmt.iter) if isinstance(stmt, ast.For) else _NONE)

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
            inside |= reads(item.context_expr)
        return inside
