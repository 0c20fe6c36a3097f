"""The search for a small program that still prints a text."""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Callable, Iterator

from .edits import Edit, applied, cost_of, deletions, simplifications, unwrappings
from .frozen import frozen_nodes, mark_frozen
from .running import Runner

#: Large edits first: they leave less for the small ones to try.
_GROUPS = (deletions, unwrappings, simplifications)


class Reduction:
    """Makes a program smaller while its output contains ``text``.

    Attributes:
        best: the smallest program so far.
        tried: the number of programs that have run.
    """

    def __init__(
        self,
        source: str,
        text: str,
        runner: Runner,
        jobs: int = 1,
        accepted: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.text, self.runner, self.jobs, self.accepted = text, runner, jobs, accepted
        self.tree = ast.parse(source)
        mark_frozen(self.tree, source)
        self.frozen = frozen_nodes(self.tree)
        self.best = source
        self.tried = 0
        self._known: set[str] = set()
        runner.prepare(self.tree)

    def reproduces(self) -> bool:
        """Whether the program as it is given prints the text."""
        return self._reports(self.best, self.runner.outputs([self.best])[0])

    def _reports(self, source: str, output: str) -> bool:
        """Whether the text is in the output, apart from lines of the program that errors show."""
        shown = {line.strip() for line in source.splitlines()}
        return any(self.text in line and line.strip() not in shown for line in output.splitlines())

    def run(self) -> str:
        """Reduces until no edit is left; returns the smallest program."""
        while any(self._exhaust(group) for group in _GROUPS):
            pass
        return self.best

    def _exhaust(self, group: Callable[[ast.Module], Iterator[Edit]]) -> bool:
        """Applies edits of a group as long as one of them succeeds; returns whether one did."""
        changed = False
        done = 0  # edits at earlier places have failed: go on behind them
        while True:
            found = self._first(group, done)
            if found is None:
                if done == 0:
                    return changed
                done = 0
                continue
            done, changed = found, True

    def _first(self, group: Callable[[ast.Module], Iterator[Edit]], done: int) -> int | None:
        """Applies the first edit from number ``done`` on that succeeds; returns its number."""
        candidates = self._candidates(itertools.islice(enumerate(group(self.tree)), done, None))
        while batch := list(itertools.islice(candidates, self.jobs)):
            outputs = self.runner.outputs([source for _, _, source in batch])
            self.tried += len(batch)
            for (number, tree, source), output in zip(batch, outputs, strict=True):
                if self._reports(source, output):
                    self.tree, self.best = tree, source
                    self.accepted(source)
                    return number
        return None

    def _candidates(
        self, edits: Iterator[tuple[int, Edit]]
    ) -> Iterator[tuple[int, ast.Module, str]]:
        """Yields the programs that the edits make, if they are smaller and have not run yet."""
        cost = cost_of(self.tree)
        for number, edit in edits:
            tree = applied(self.tree, edit)
            if cost_of(tree) >= cost or frozen_nodes(tree) != self.frozen:
                continue
            source = _source_of(tree)
            if source is None or source in self._known:
                continue
            self._known.add(source)
            yield number, tree, source


def _source_of(tree: ast.Module) -> str | None:
    """The text of a program; None if it is no valid program."""
    try:
        source = ast.unparse(ast.fix_missing_locations(tree))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<reduced>", "exec")
    except (ValueError, TypeError, SyntaxError, AttributeError):
        return None
    return source + "\n"
