"""The edits that make a program smaller, each at one place of its syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .frozen import is_frozen

#: From a node to one below it: fields, and indices of fields that are lists.
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Edit:
    """A change of the node at a place: ``change`` gets a copy, which it may alter or replace."""

    path: Path
    change: Callable[[Any], Any]


def cost_of(tree: ast.AST) -> tuple[int, int]:
    """What an edit must make smaller: the number of nodes, then the bits of all integers."""
    nodes = list(ast.walk(tree))
    integers = [node.value for node in nodes if isinstance(node, ast.Constant)]
    bits = sum(value.bit_length() for value in integers if isinstance(value, int))
    return len(nodes), bits


def applied(tree: ast.Module, edit: Edit) -> ast.Module:
    """A copy of the tree with the change."""
    root = copy.deepcopy(tree)
    if not edit.path:
        return edit.change(root)  # type: ignore[no-any-return]
    *way, last = edit.path
    owner: Any = root
    for step in way:
        owner = owner[step] if isinstance(step, int) else getattr(owner, step)
    if isinstance(last, int):
        owner[last] = edit.change(owner[last])
    else:
        setattr(owner, last, edit.change(getattr(owner, last)))
    return root


def deletions(tree: ast.Module) -> Iterator[Edit]:
    """Yields deletions of statements: of whole blocks, of halves, and so on to single ones."""
    for path, block in _blocks(tree):
        size = len(block)
        while size:
            for start in range(0, len(block), size):
                yield Edit(path, _without(start, start + size))
            size //= 2


def unwrappings(tree: ast.Module) -> Iterator[Edit]:
    """Yields replacements of statements by the blocks inside them."""
    for path, block in _blocks(tree):
        for n, statement in enumerate(block):
            for field in ("body", "orelse", "finalbody"):
                if getattr(statement, field, None):
                    yield Edit(path, _unwrapped(n, field))


def simplifications(tree: ast.Module) -> Iterator[Edit]:
    """Yields smaller expressions, shorter lists, and smaller integers."""
    for path, node in _nodes(tree, ()):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and not _is_block(value):
                for n in range(len(value)):
                    yield Edit((*path, field), _without(n, n + 1, keep_one=False))
        if isinstance(node, ast.expr):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield Edit(path, _replaced_by(child))
            yield Edit(path, _replaced_by(ast.Constant(0)))
        if isinstance(node, ast.Constant) and type(node.value) is int:
            for smaller in (0, 1, node.value // 2):
                yield Edit(path, _replaced_by(ast.Constant(smaller)))
        if getattr(node, "returns", None) is not None:
            yield Edit((*path, "returns"), lambda _: None)


def _is_block(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], ast.stmt)


def _nodes(node: Any, path: Path) -> Iterator[tuple[Path, ast.AST]]:
    """Yields the nodes that edits may change, outer ones first, and where they are."""
    if isinstance(node, list):
        for n, child in enumerate(node):
            yield from _nodes(child, (*path, n))
        return
    if not isinstance(node, ast.AST) or is_frozen(node):
        return
    yield path, node
    for field, value in ast.iter_fields(node):
        yield from _nodes(value, (*path, field))


def _blocks(tree: ast.Module) -> Iterator[tuple[Path, list[ast.stmt]]]:
    for path, node in _nodes(tree, ()):
        for field, value in ast.iter_fields(node):
            if _is_block(value):
                yield (*path, field), value


def _without(start: int, stop: int, keep_one: bool = True) -> Callable[[Any], Any]:
    def change(items: list[Any]) -> list[Any]:
        rest = items[:start] + items[stop:]
        return rest or ([ast.Pass()] if keep_one else [])

    return change


def _unwrapped(n: int, field: str) -> Callable[[Any], Any]:
    def change(block: list[Any]) -> list[Any]:
        return [*block[:n], *getattr(block[n], field), *block[n + 1 :]]

    return change


def _replaced_by(node: ast.expr) -> Callable[[Any], Any]:
    return lambda _: copy.deepcopy(node)
