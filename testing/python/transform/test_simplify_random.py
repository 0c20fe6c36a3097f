"""Random programs write the same memory before and after the simplify pass."""

from __future__ import annotations

import itertools
from typing import Any

from arith.exprs import binary, imm, var
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_interpreter import Interpreter
from tiers import examples
from transform.kernels import buffer, load, node, seq, store

from tilelang import _ffi
from tilelang.transform import run_pass, verify

_SIZE = 64
_MAX_DEPTH = 3


class Program:
    """Draws a program over one array, one scalar parameter and its own variables."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.names = (f"v{i}" for i in itertools.count())
        self.out = buffer("out", [_SIZE], "int32")
        self.n = var("n")
        self.variables = [self.n]

    def pick(self, choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def integer(self, depth: int = 2) -> Any:
        kind = self.pick(["var", "imm", "op", "op", "div", "load"] if depth else ["var", "imm"])
        if kind == "var":
            return self.pick(self.variables)
        if kind == "imm":
            return imm(self.pick(range(-6, 40)))
        if kind == "load":
            return load(self.out, [self.index()])
        a = self.integer(depth - 1)
        if kind == "div":
            return binary(self.pick(["//", "%"]), a, imm(self.pick([1, 2, 3, 4, 8, 16])))
        return binary(self.pick(["+", "-", "min", "max"]), a, self.integer(depth - 1))

    def index(self) -> Any:
        return binary("%", self.integer(1), imm(_SIZE))

    def condition(self) -> Any:
        a = binary(self.pick(["<", "<=", "==", "!=", ">"]), self.integer(1), self.integer(1))
        if self.pick([True, False, False]):
            b = binary(self.pick(["<", ">="]), self.integer(1), self.integer(1))
            a = binary(self.pick(["and", "or"]), a, b)
        return _ffi.get("ir.Unary")(1, a, None) if self.pick([True, False, False]) else a

    def block(self, depth: int, loop: bool) -> Any:
        known = len(self.variables)
        stmts = [self.statement(depth, loop) for _ in range(self.pick([1, 2, 3]))]
        del self.variables[known:]
        return seq(*stmts)

    def statement(self, depth: int, loop: bool) -> Any:
        nested = ["if", "if", "for", "for"] if depth < _MAX_DEPTH else []
        jumps = ["break", "continue"] if loop else []
        kind = self.pick(["store", "store", "bind", *nested, *jumps])
        if kind in ("break", "continue"):
            jump = node(kind.capitalize())
            return (
                node("If", self.condition(), jump, None) if self.pick([True, True, False]) else jump
            )
        if kind == "bind":
            v = var(next(self.names))
            bind = node("Bind", v, self.pick([self.integer(0), self.integer(2)]))
            self.variables.append(v)
            return bind
        if kind == "store":
            return store(self.out, [self.index()], self.integer(2))
        if kind == "if":
            condition, then_case = self.condition(), self.block(depth + 1, loop)
            else_case = self.block(depth + 1, loop) if self.pick([True, False]) else None
            return node("If", condition, then_case, else_case)
        v = var(next(self.names))
        low = self.pick([imm(0), imm(2), self.integer(0)])
        size = self.pick([imm(0), imm(1), imm(4), binary("%", self.integer(1), imm(5))])
        self.variables.append(v)
        body = self.block(depth + 1, True)
        self.variables.pop()
        return node("For", v, low, size, 0, body, {})

    def func(self) -> Any:
        launch = node(
            "KernelLaunch", [var("bx")], [imm(1)], [var("tx")], [imm(1)], {}, self.block(0, False)
        )
        return node("Func", "main", [self.out, self.n], launch, {})


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    func = Program(data).func()
    simple = run_pass("simplify", func)
    verify(simple, "tile")
    for n in (-7, 0, 1, 5, 16):
        # Values in memory are whatever they are; large ones are no index.
        before = [(i * 37 + 11) % 101 - 20 for i in range(_SIZE)]
        after = list(before)
        Interpreter(func, before, n)
        Interpreter(simple, after, n)
        assert before == after, f"n={n}\n{func}\n{simple}"
