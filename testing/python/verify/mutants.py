"""Thread IR with one synchronizing statement less."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from thread_ir import called, ir

from tilelang.transform import pipeline, run_pass

#: calls that order accesses: barriers, mbarriers, fences, commits, waits
SYNCHRONIZING = re.compile(
    r"(tl::)?(sync_\w+|mbarrier_(arrive|expect|wait)\w*|fence_\w+|tma_store_(commit|wait)\w*|"
    r"cp_async_(commit|wait)|"
    r"wgmma_(fence|commit|wait)|tcgen05_(commit|wait_st|before_thread_sync|after_thread_sync))"
    r"(<.*>)?"
)


def compiled(func: Any, target: str, without: Sequence[str] = ()) -> Any:
    """Returns the thread IR of which code is generated; `without`: passes that do not run."""
    return stages(func, target, without)[1]


def stages(func: Any, target: str, without: Sequence[str] = ()) -> tuple[Any, Any]:
    """Returns the program with planned operators, and the thread IR of which code is generated."""
    planned = None
    for name in pipeline():
        if name in without:
            continue
        if name == "pipeline_loops":
            planned = func
        func = run_pass(name, func, target)
    return planned, func


#: of equal ones without such a call in between one alone would do
FENCES = re.compile(r"tcgen05_(before|after)_thread_sync|tl::wgmma_fence")
BETWEEN = re.compile(
    r"sync_\w+|mbarrier_\w+|tl::(tcgen05_(mma|cp|load|st|commit|alloc|dealloc)|wgmma_wait).*"
)


def groups(func: Any) -> list[list[tuple[str, int]]]:
    """The synchronizing statements: the call, and which of that name it is. Equal fences are one
    group when no operation that they order stands in between."""
    counts: dict[str, int] = {}
    found: list[list[tuple[str, int]]] = []
    open_fences: dict[str, list[tuple[str, int]]] = {}

    def visit(s: Any) -> Any:
        name = called(s)
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
        return s

    edited(func, visit)
    return found


def mutants(func: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    """Yields the first statement of each group, and the function without the group."""
    for group in groups(func):
        mutant = func
        for key in reversed(group):
            mutant = without(mutant, *key)
        yield group[0], mutant


def without(func: Any, name: str, number: int = 0) -> Any:
    """The function without the ``number``-th statement that calls ``name``."""
    return replaced(func, name, number, lambda s: ir("Seq", [], s.span))


def replaced(func: Any, name: str, number: int, instead: Callable[[Any], Any]) -> Any:
    """The function with ``instead`` of the ``number``-th statement that calls ``name``."""
    seen = [0]

    def edit(s: Any) -> Any:
        if called(s) != name:
            return s
        seen[0] += 1
        return instead(s) if seen[0] == number + 1 else s

    changed = edited(func, edit)
    assert seen[0] > number, f"there is no {name} number {number}"
    return changed


def edited(func: Any, edit: Callable[[Any], Any]) -> Any:
    """The function with ``edit`` applied to every statement that holds no others."""
    return ir("Func", func.name, func.params, _edited(func.body, edit), func.attrs, func.span)


def with_arguments(s: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    """The statement with other arguments of its call; of one of an mbarrier: its operands."""
    if _kind(s) == "WaitParity":
        return ir("WaitParity", *change([s.mbar, s.parity]), s.span)
    if _kind(s) == "Arrive":
        mbar, *tx = change([s.mbar, *([] if s.bytes is None else [s.bytes])])
        return ir("Arrive", s.arrive_kind, mbar, tx[0] if tx else None, s.block, s.span)
    if _kind(s) == "MbarrierInit":
        return ir("MbarrierInit", *change([s.mbar, s.count]), s.span)
    call = s.value
    made = ir("Call", call.dtype, call.name, change(list(call.args)), call.attrs, call.span)
    return ir("Evaluate", made, s.span)


def _kind(s: Any) -> str:
    return str(type(s).__tvm_ffi_type_info__.type_key).rsplit(".", 1)[-1]


def _edited(s: Any, edit: Callable[[Any], Any]) -> Any:
    kind = _kind(s)
    if kind == "Seq":
        return ir("Seq", [_edited(child, edit) for child in s.stmts], s.span)
    if kind == "If":
        then = _edited(s.then_case, edit)
        other = _edited(s.else_case, edit) if s.else_case is not None else None
        return ir("If", s.condition, then, other, s.span)
    if kind == "For":
        body = _edited(s.body, edit)
        return ir("For", s.var, s.min, s.extent, s.for_kind, body, s.annotations, s.span)
    if kind == "While":
        return ir("While", s.condition, _edited(s.body, edit), s.span)
    if kind == "KernelLaunch":
        body = _edited(s.body, edit)
        return ir(
            "KernelLaunch", s.block_vars, s.grid, s.thread_vars, s.threads, s.attrs, body, s.span
        )
    return edit(s)
