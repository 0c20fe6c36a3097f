"""Thread IR with one synchronizing statement less."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from thread_ir import ir

from tilelang.transform import pipeline, run_pass

#: calls that order accesses: barriers, mbarriers, fences, commits, waits
SYNCHRONIZING = re.compile(
    r"(tl::)?(sync_\w+|mbarrier_(arrive|expect|wait)\w*|fence_\w+|tma_store_(commit|wait)\w*|"
    r"wgmma_(fence|commit|wait)|tcgen05_(commit|wait_st|before_thread_sync|after_thread_sync))"
    r"(<.*>)?"
)


def compiled(func: Any, target: str) -> Any:
    """Returns the thread IR of which code is generated."""
    for name in pipeline():
        func = run_pass(name, func, target)
    return func


#: of equal ones without such a call in between one alone would do
FENCES = re.compile(r"tl::(tcgen05_(before|after)_thread_sync|wgmma_fence)")
BETWEEN = re.compile(
    r"sync_\w+|mbarrier_\w+|tl::(tcgen05_(mma|cp|load|st|commit|alloc|dealloc)|wgmma_wait).*"
)


def groups(func: Any) -> list[list[tuple[str, int]]]:
    """The synchronizing statements: the call, and which of that name it is. Equal fences are one
    group when no operation that they order stands in between."""
    counts: dict[str, int] = {}
    found: list[list[tuple[str, int]]] = []
    open_fences: dict[str, list[tuple[str, int]]] = {}

    def visit(name: str) -> bool:
        if SYNCHRONIZING.fullmatch(name):
            key = (name, counts.get(name, 0))
            counts[name] = key[1] + 1
            if name in open_fences:
                open_fences[name].append(key)
            else:
                found.append([key])
            if FENCES.fullmatch(name):
                open_fences.setdefault(name, found[-1])
        if BETWEEN.fullmatch(name):
            open_fences.clear()
        return False

    _rebuild(func.body, visit)
    return found


def mutants(func: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    """Yields the first statement of each group, and the function without the group."""
    for group in groups(func):
        mutant = func
        for key in reversed(group):
            mutant = without(mutant, *key)
        yield group[0], mutant


def without(func: Any, name: str, number: int) -> Any:
    """The function without the ``number``-th statement that calls ``name``."""
    seen = [0]

    def drop(called: str) -> bool:
        if called != name:
            return False
        seen[0] += 1
        return seen[0] == number + 1

    body = _rebuild(func.body, drop)
    return ir("Func", func.name, func.params, body, func.attrs, func.span)


def _rebuild(s: Any, drop: Callable[[str], bool]) -> Any:
    kind = type(s).__type_key__ if hasattr(type(s), "__type_key__") else s.__class__.__name__
    kind = kind.rsplit(".", 1)[-1]
    if kind == "Seq":
        return ir("Seq", [_rebuild(child, drop) for child in s.stmts], s.span)
    if kind == "If":
        then = _rebuild(s.then_case, drop)
        other = _rebuild(s.else_case, drop) if s.else_case is not None else None
        return ir("If", s.condition, then, other, s.span)
    if kind == "For":
        body = _rebuild(s.body, drop)
        return ir("For", s.var, s.min, s.extent, s.for_kind, body, s.annotations, s.span)
    if kind == "While":
        return ir("While", s.condition, _rebuild(s.body, drop), s.span)
    if kind == "KernelLaunch":
        body = _rebuild(s.body, drop)
        return ir(
            "KernelLaunch", s.block_vars, s.grid, s.thread_vars, s.threads, s.attrs, body, s.span
        )
    if kind == "Evaluate":
        name = getattr(s.value, "name", "")
        if drop(str(name)):
            return ir("Seq", [], s.span)
    return s
