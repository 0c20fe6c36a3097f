"""Random integer expressions, built twice: as IR and as a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tilelang import _ffi

OPS = ["+", "-", "*", "/", "//", "%", "min", "max", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
OPS += ["&", "|", "^", "<<", ">>"]
_BINARY = _ffi.get("ir.Arithmetic")
_IMM = _ffi.get("ir.IntImm")


class Pair(NamedTuple):
    """An IR expression and the function of an environment that it stands for."""

    ir: Any
    value: Callable[[dict[str, int]], int]


def imm(value: int, dtype: str = "int32") -> Any:
    return _IMM(dtype, value, None)


def var(name: str, dtype: str = "int32") -> Any:
    return _ffi.get("ir.Var")(name, dtype, None)


def binary(op: str, a: Any, b: Any) -> Any:
    return _BINARY(OPS.index(op), a, b, None)


def constant(value: int, dtype: str = "int32") -> Pair:
    return Pair(imm(value, dtype), lambda env: value)


class OverflowSkip(Exception):
    """An intermediate result does not fit: the program has no defined value there."""


def _checked(value: int, limit: int) -> int:
    if not -limit <= value < limit:
        raise OverflowSkip
    return value


_PYTHON = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
}


def apply(op: str, a: Pair, b: Pair) -> Pair:
    fn = _PYTHON[op]
    limit = 1 << (a.ir.dtype.bits - 1 if a.ir.dtype.bits > 8 else 31)
    return Pair(binary(op, a.ir, b.ir), lambda env: _checked(fn(a.value(env), b.value(env)), limit))


def select(c: Pair, a: Pair, b: Pair) -> Pair:
    node = _ffi.get("ir.Select")(c.ir, a.ir, b.ir, None)
    return Pair(node, lambda env: a.value(env) if c.value(env) else b.value(env))


def negate(c: Pair) -> Pair:
    return Pair(_ffi.get("ir.Unary")(1, c.ir, None), lambda env: not c.value(env))


def conditions(integers: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    comparison = st.builds(
        apply, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), integers, integers
    )
    logic = st.builds(apply, st.sampled_from(["and", "or"]), comparison, comparison)
    return st.one_of(comparison, logic, st.builds(negate, st.one_of(comparison, logic)))


def integers_over(variables: list[Pair], dtype: str = "int32") -> st.SearchStrategy[Pair]:
    """Expressions over the variables; divisors are not 0 and shift counts are in range."""

    def number(value: int) -> Pair:
        return constant(value, dtype)

    small = st.integers(-20, 20).map(number)
    powers = st.sampled_from([1, 2, 4, 8, 16, 32, 12, 6]).map(number)
    nonzero = st.one_of(powers, st.sampled_from([-8, -4, -3, -1, 3, 5, 7]).map(number))
    leaves = st.one_of(st.sampled_from(variables), small)

    def grow(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
        return st.one_of(
            st.builds(apply, st.sampled_from(["+", "-", "min", "max"]), inner, inner),
            st.builds(apply, st.just("*"), inner, st.one_of(powers, small)),
            st.builds(apply, st.just("*"), inner, inner),
            st.builds(apply, st.sampled_from(["//", "%"]), inner, nonzero),
            st.builds(apply, st.sampled_from(["&", "|", "^"]), inner, st.one_of(inner, powers)),
            st.builds(apply, st.just(">>"), inner, st.integers(0, 4).map(number)),
            st.builds(select, conditions(inner), inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=14)
