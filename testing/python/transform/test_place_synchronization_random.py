"""Random programs of thread IR: on every path each hazard has its barrier, and its fence.

The paths of the result are enumerated and checked one by one, knowing nothing of the pass.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from thread_ir import (
    Buf,
    Kernel,
    call,
    called,
    evaluate,
    fence_proxy_async,
    if_,
    ir,
    loop,
    place_synchronization,
    seq,
    sync_threads,
    var,
    wait_parity,
)

EVENTS = {"sync_threads": "|", "fence_proxy_async": "F", "tl::read": "Er", "tl::write": "Ew"}


class Program:
    """A random kernel of 128 threads on one buffer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.k = Kernel()
        self.out = self.k.param("Out", "float32", 4096)
        self.n = self.k.scalar("n", "int32")
        self.s = Buf("S", "float32", 1024, "shared.dyn")
        self.bar = Buf("bar", "uint64", 1, "shared.barrier")

    def engine(self, key: str) -> list[Any]:
        """One thread leaves an access to an engine, all wait for it."""
        name = {"reads": "tl::read", "writes": "tl::write"}[key]
        issue = evaluate(call("void", name, **{key: [self.s.node], "async": True}))
        wait = wait_parity(self.bar)
        return [if_(self.k.tx.eq(0), issue), wait]

    def leaf(self) -> list[Any]:
        kind = self.random.choice("WWRRER|F")
        if kind == "W":
            return [self.s.put(self.k.tx, 1.0)]
        if kind == "R":
            return [self.out.put(self.k.tx, self.s[self.k.tx ^ 1])]
        if kind == "E":
            return self.engine(self.random.choice(["reads", "writes"]))
        return [sync_threads() if kind == "|" else fence_proxy_async()]

    def block(self, depth: int, in_loop: bool) -> Any:
        stmts = []
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(["leaf", "leaf", "for", "while", "if", "leave"])
            if depth == 0 or kind == "leaf":
                stmts += self.leaf()
            elif kind == "for":
                extent = self.random.choice([self.n, 2])
                stmts.append(loop(var("i"), extent, self.block(depth - 1, True)))
            elif kind == "while":
                body = self.block(depth - 1, True)
                stmts.append(ir("While", (self.n < 3).node, body, None))
            elif kind == "if":
                other = self.block(depth - 1, in_loop) if self.random.random() < 0.5 else None
                stmts.append(if_(self.n < 5, self.block(depth - 1, in_loop), other))
            elif in_loop:
                leave = ir(self.random.choice(["Break", "Continue"]), None)
                stmts.append(if_(self.n < 7, leave))
        return seq(*stmts)

    def func(self) -> Any:
        return place_synchronization(
            self.k.func(
                self.s.alloc(), self.bar.alloc(), self.block(3, False), self.block(2, False)
            )
        )


def event(s: Any) -> str:
    kind = type(s).__name__
    if kind == "Store":
        return "W" if str(s.buffer.scope).startswith("shared") else "R"
    return EVENTS.get(called(s), "")


# A path: its events, and how it ends ("", "Break" or "Continue").
Path = tuple[tuple[str, ...], str]
LIMIT = 400


def paths(s: Any) -> set[Path]:
    """Of a statement; some of them when there are many."""
    kind = type(s).__name__
    if kind == "Seq":
        found: set[Path] = {((), "")}
        for child in s.stmts:
            found = extend(found, paths(child))
        return found
    if kind == "If":
        other = paths(s.else_case) if s.else_case is not None else {((), "")}
        taken = paths(s.then_case)
        # Of one thread: an engine's access, which happens.
        return taken if any("E" in e for events, _ in taken for e in events) else taken | other
    if kind in ("For", "While"):
        fixed = kind == "For" and hasattr(s.extent, "value")
        return set(loop_paths(paths(s.body), int(s.extent.value) if fixed else None))
    if kind in ("Break", "Continue"):
        return {((), kind)}
    word = event(s)
    return {((word,) if word else (), "")}


def loop_paths(body: set[Path], trips: int | None) -> Iterator[Path]:
    ended: set[Path] = {((), "")}
    for trip in range(1 + (2 if trips is None else trips)):
        if trips is None or trip == trips:
            yield from ended
        following = extend(ended, body)
        yield from ((events, "") for events, end in following if end == "Break")
        ended = {(events, "") for events, end in following if end != "Break"}


def extend(before: set[Path], after: set[Path]) -> set[Path]:
    result = {p for p in before if p[1]}
    for events, end in sorted(before):
        if end:
            continue
        for more, last in sorted(after):
            result.add((events + more, last))
            if len(result) > LIMIT:
                return result
    return result


def hazard(events: tuple[str, ...]) -> str | None:
    """The first pair of a path that lacks its barrier or its fence."""
    for i, first in enumerate(events):
        barrier = fenced = fence_at_barrier = False
        for later in events[i + 1 :]:
            if later == "F":
                fenced = True
                fence_at_barrier |= barrier
            elif later == "|":
                barrier, fence_at_barrier = True, fence_at_barrier or fenced
            elif first in ("W", "R") and later in ("W", "R") and first != later and not barrier:
                return f"{first} .. {later} without a barrier"
            elif first in ("W", "R") and later.startswith("E"):
                if (first, later) != ("R", "Er") and not barrier:
                    return f"{first} .. {later} without a barrier"
                if first == "W" and not fence_at_barrier:
                    return f"W .. {later} without a fence"
    return None


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_every_path_is_ordered(first: int) -> None:
    for seed in range(first, first + 50):
        func = Program(seed).func()
        for events, _ in paths(func.body.body):
            found = hazard(events)
            assert found is None, f"seed {seed}: {found} in {' '.join(events)}\n{func}"
