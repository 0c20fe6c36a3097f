"""A wait for an engine stands before the first statement that depends on the engine's work."""

from __future__ import annotations

import pytest
from thread_ir import (
    Buf,
    Kernel,
    arrive_at,
    call,
    called,
    evaluate,
    expr,
    if_,
    issue,
    loop,
    place_synchronization,
    seq,
    sync_threads,
    var,
)

FENCE = "tcgen05_after_thread_sync"


class Case:
    """A kernel of 128 threads, which load two tiles on an mbarrier each and wait together."""

    def __init__(self) -> None:
        self.k = Kernel()
        self.tx = self.k.tx
        self.out = self.k.param("Out", "float32", 4096)
        self.a, self.b = (Buf(name, "float32", 1024, "shared.dyn") for name in "ab")
        self.x = Buf("x", "float32", 1, "local")
        self.bars = {
            name: Buf(
                f"{name}_done",
                "uint64",
                1,
                "shared.barrier",
                arrive_counts=[expr(1)],
                waiting_threads=[0, 128],
            )
            for name in "ab"
        }
        self.parity = {name: Buf(f"{name}_parity", "int32", 1, "local.var") for name in "ab"}

    def load(self, name: str):
        tile = {"a": self.a, "b": self.b}[name]
        attrs = {"writes": [tile.node], "async": True}
        elected = call("bool", "elect_one", operator_threads=[0, 128])
        copy = evaluate(call("void", "tl::load", self.bars[name].at(), **attrs))
        body = if_((self.tx // 32).eq(0), if_(elected, copy))
        return issue(body, self.bars[name], self.parity[name])

    def compute(self):
        return self.x.put(0, self.x[0] * 2.0)

    def read(self, name: str):
        return self.x.put(0, {"a": self.a, "b": self.b}[name][self.tx])

    def store(self):
        return self.out.put(self.tx, self.x[0])

    def text(self, *stmts) -> str:
        """The statements after the pass, a word each; a wait and its next phase are one."""
        own = [*self.bars.values(), *self.parity.values(), self.a, self.b, self.x]
        func = self.k.func(*(buf.alloc() for buf in own), *stmts)
        return " ".join(words(place_synchronization(func).body.body))


def words(s) -> list[str]:
    kind = type(s).__name__
    if kind == "Seq":
        return [w for child in s.stmts for w in words(child)]
    if kind == "For":
        return ["for{", *words(s.body), "}"]
    if kind == "If":
        inner = words(s.then_case)
        return inner if inner == ["load"] else ["if{", *inner, "}"]
    if kind == "Store":
        names = {"local.var": None, "local": "x", "global": "out", "shared.dyn": "write"}
        name = names[str(s.buffer.scope)]
        return [name] if name else []
    if name := called(s):
        if name == "mbarrier_wait_parity":
            return [str(s.mbar.buffer.name).replace("_done", "?")]
        return [{"tl::load": "load", "sync_threads": "|"}.get(name, name)]
    return ["break"] if kind == "Break" else []


def test_before_the_first_reader() -> None:
    c = Case()
    done = c.text(c.load("a"), c.compute(), c.compute(), c.read("a"))
    assert done == "load x x a? x"


def test_loads_that_follow_each_other_are_in_flight_together() -> None:
    c = Case()
    stmts = [c.load("a"), c.load("b")]
    assert c.text(*stmts, c.read("b"), c.read("a")) == "load load b? x a? x"
    assert c.text(*stmts, c.read("a"), c.compute()) == "load load a? x x b?"


def test_before_who_writes_the_tile() -> None:
    c = Case()
    write = c.a.put(c.tx, 1.0)
    assert c.text(c.load("a"), c.compute(), write) == "load x a? write"


def test_before_the_next_phase_begins() -> None:
    """The next load on the same mbarrier, into whichever tile."""
    c = Case()
    c.bars["b"] = c.bars["a"]
    c.parity["b"] = c.parity["a"]
    own = [c.load("a"), c.compute(), c.load("b"), c.read("b")]
    assert c.text(*own) == "load x a? | load a? x"


@pytest.mark.parametrize("name", ["sync_threads", "call_of_the_program"])
def test_not_beyond_what_the_program_synchronizes(name: str) -> None:
    c = Case()
    other = sync_threads() if name == "sync_threads" else evaluate(call("void", name))
    word = "|" if name == "sync_threads" else name
    text = c.text(c.load("a"), c.compute(), other, c.read("a"))
    assert text == f"load x a? {word} x"


def test_not_beyond_a_barrier_of_the_program() -> None:
    """Who waits on it takes the tile for free."""
    c = Case()
    free = Buf("free", "uint64", 1, "shared.barrier", arrive_counts=[expr(128)])
    arrive = arrive_at(free)
    text = c.text(free.alloc(), c.load("a"), c.compute(), arrive, c.compute())
    assert text == "load x a? mbarrier_arrive x"


def test_not_beyond_a_store_to_tensors() -> None:
    """The tile may come from the same tensor."""
    c = Case()
    text = c.text(c.load("a"), c.compute(), c.store(), c.read("a"))
    assert text == "load x a? out x"


def test_not_out_of_a_loop_or_branch() -> None:
    c = Case()
    i = var("i")
    body = seq(c.load("a"), c.compute())
    assert c.text(loop(i, 4, body), c.read("a")) == "for{ | load x a? } x"
    branch = if_(c.k.bx.eq(0), seq(c.load("a"), c.compute()))
    assert c.text(branch, c.compute()) == "if{ load x a? } x"


def test_before_a_loop_or_branch_that_reads() -> None:
    c = Case()
    i = var("i")
    assert c.text(c.load("a"), c.compute(), loop(i, 4, c.read("a"))) == ("load x a? for{ x }")
    assert c.text(c.load("a"), if_(c.k.bx.eq(0), c.read("a")), c.compute()) == ("load a? if{ x } x")
    assert c.text(c.load("a"), loop(i, 4, c.compute()), c.read("a")) == ("load for{ x } a? x")


def test_into_a_sequence_that_is_part_of_another() -> None:
    c = Case()
    text = c.text(c.load("a"), seq(c.compute(), c.read("a")), c.compute())
    assert text == "load x a? x x"


def test_a_wait_for_nothing_known_stays() -> None:
    """Of what a statement touches, nothing is known: its wait stands behind it."""
    c = Case()
    unknown = issue(c.compute(), c.bars["a"], c.parity["a"])
    assert c.text(unknown, c.compute(), c.read("a")) == "x a? x x"
