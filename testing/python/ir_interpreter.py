"""Executes scalar tile IR in Python, one thread at a time: what a traced kernel means.

For tests of the frontend: the result must be what Python itself computes from the same source.
Covers statements and expressions without tile operators; integers are exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    min,
    max,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Interpreter:
    """Runs a function on Python lists (tensors of rank one or nested lists) and numbers."""

    def __init__(self, func: Any, *args: Any) -> None:
        self.values: dict[Any, Any] = {}
        self.memory: dict[Any, Any] = {}
        for param, arg in zip(func.params, args, strict=True):
            (self.memory if _kind(param) == "Buffer" else self.values)[_key(param)] = arg
        self.run(func.body)

    # Statements

    def run(self, stmt: Any) -> None:
        getattr(self, f"run_{_kind(stmt)}")(stmt)

    def run_Seq(self, stmt: Any) -> None:
        for each in stmt.stmts:
            self.run(each)

    def run_KernelLaunch(self, stmt: Any) -> None:
        assert all(self.eval(e) == 1 for e in (*stmt.grid, *stmt.threads)), "one thread only"
        for index in (*stmt.block_vars, *stmt.thread_vars):
            self.values[_key(index)] = 0
        self.run(stmt.body)

    def run_Alloc(self, stmt: Any) -> None:
        buffer = stmt.buffer
        size = 1
        for extent in buffer.shape:
            size *= extent
        init = buffer.attrs.get("init", None)
        self.memory[_key(buffer)] = [None if init is None else self.eval(init)] * size

    def run_Bind(self, stmt: Any) -> None:
        self.values[_key(stmt.var)] = self.eval(stmt.value)

    def run_Store(self, stmt: Any) -> None:
        cells, index = self.place(stmt.buffer, stmt.indices)
        cells[index] = self.eval(stmt.value)

    def run_If(self, stmt: Any) -> None:
        if self.eval(stmt.condition):
            self.run(stmt.then_case)
        elif stmt.else_case is not None:
            self.run(stmt.else_case)

    def run_For(self, stmt: Any) -> None:
        low = self.eval(stmt.min)
        for index in range(low, low + self.eval(stmt.extent)):
            self.values[_key(stmt.var)] = index
            if self.once(stmt.body):
                break

    def run_While(self, stmt: Any) -> None:
        while self.eval(stmt.condition):
            if self.once(stmt.body):
                break

    def run_ParallelFor(self, stmt: Any) -> None:
        self.nest(stmt, 0)

    def nest(self, stmt: Any, depth: int) -> None:
        if depth == len(stmt.vars):
            self.run(stmt.body)
            return
        for index in range(self.eval(stmt.extents[depth])):
            self.values[_key(stmt.vars[depth])] = index
            self.nest(stmt, depth + 1)

    def once(self, body: Any) -> bool:
        try:
            self.run(body)
        except _Continue:
            return False
        except _Break:
            return True
        return False

    def run_Break(self, stmt: Any) -> None:
        raise _Break

    def run_Continue(self, stmt: Any) -> None:
        raise _Continue

    # Expressions

    def eval(self, expr: Any) -> Any:
        return getattr(self, f"eval_{_kind(expr)}")(expr)

    def eval_IntImm(self, expr: Any) -> Any:
        return bool(expr.value) if expr.dtype == "bool" else expr.value

    def eval_FloatImm(self, expr: Any) -> Any:
        return expr.value

    def eval_Var(self, expr: Any) -> Any:
        return self.values[_key(expr)]

    def eval_Load(self, expr: Any) -> Any:
        cells, index = self.place(expr.buffer, expr.indices)
        value = cells[index]
        assert value is not None, f"{expr} is read before it is written"
        return value

    def eval_Binary(self, expr: Any) -> Any:
        if expr.op == 14:
            return self.eval(expr.a) and self.eval(expr.b)
        if expr.op == 15:
            return self.eval(expr.a) or self.eval(expr.b)
        function = OPERATORS[expr.op] if expr.op < 14 else BITS[expr.op - 16]
        return function(self.eval(expr.a), self.eval(expr.b))

    def eval_Unary(self, expr: Any) -> Any:
        value = self.eval(expr.a)
        if expr.op == 1:
            return not value
        return -value if expr.op == 0 else ~value

    def eval_Select(self, expr: Any) -> Any:
        taken = expr.true_value if self.eval(expr.condition) else expr.false_value
        return self.eval(taken)

    def eval_Cast(self, expr: Any) -> Any:
        value = self.eval(expr.value)
        if expr.dtype == "bool":
            return bool(value)
        return float(value) if expr.dtype.is_float else int(value)

    def place(self, buffer: Any, indices: Any) -> tuple[Any, int]:
        cells = self.memory[_key(buffer)]
        positions = [self.eval(index) for index in indices]
        for position in positions[:-1]:
            cells = cells[position]
        assert 0 <= positions[-1] < len(cells), f"{buffer} at {positions}"
        return cells, positions[-1]


def _kind(node: Any) -> str:
    return type(node).__tvm_ffi_type_info__.type_key.split(".")[-1]


def _key(node: Any) -> int:
    return hash(node)
