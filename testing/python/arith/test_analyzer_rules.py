"""What the analyzer must find: the forms that layouts and tile programs produce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from arith.exprs import binary, imm, var

from tilelang import _ffi

_PRINT = _ffi.get("ir.Print")


class E:
    """An expression with Python operators."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def _apply(self, op: str, other: E | int, swap: bool = False) -> E:
        right = imm(other, self.node.dtype) if isinstance(other, int) else other.node
        a, b = (right, self.node) if swap else (self.node, right)
        return E(binary(op, a, b))

    def __getattr__(self, name: str) -> Callable[..., E]:
        raise AttributeError(name)


for _op, _name in [
    ("+", "add"), ("-", "sub"), ("*", "mul"), ("//", "floordiv"), ("%", "mod"), ("<", "lt"),
    ("<=", "le"), (">", "gt"), (">=", "ge"), ("==", "eq"), ("!=", "ne"), ("&", "and"),
    ("^", "xor"), ("|", "or"), (">>", "rshift"), ("<<", "lshift"),
]:  # fmt: skip
    setattr(E, f"__{_name}__", lambda self, other, op=_op: self._apply(op, other))
    setattr(E, f"__r{_name}__", lambda self, other, op=_op: self._apply(op, other, True))


def call(op: str, a: E, b: E | int) -> E:
    return a._apply(op, b)


def cast(dtype: str, e: E) -> E:
    return E(_ffi.get("ir.Cast")(dtype, e.node, None))


class Analyzer:
    def __init__(self) -> None:
        self.handle = _ffi.get("arith.Analyzer")()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        fn = _ffi.get(f"arith.{name}")
        return lambda *args: fn(self.handle, *[a.node if isinstance(a, E) else a for a in args])

    def bind(self, name: str, extent: int | E, low: int | E = 0, dtype: str = "int32") -> E:
        e = E(var(name, dtype))
        as_node = lambda x: imm(x, dtype) if isinstance(x, int) else x.node  # noqa: E731
        self.BindRange(e.node, as_node(low), as_node(extent))
        return e


class Names:
    """The variables of the tests: thread and block indices, loop counters, symbolic sizes."""

    def __init__(self) -> None:
        self.a = Analyzer()
        self.tx = self.a.bind("tx", 128)
        self.i = self.a.bind("i", 8)
        self.v = self.a.bind("v", 8)
        self.k = self.a.bind("k", 5, -2)
        self.M, self.N = E(var("M")), E(var("N"))
        for size in (self.M, self.N):
            self.a.Assume(size >= 1)
        self.bx = self.a.bind("bx", (self.N + 127) // 128)
        self.row = self.a.bind("row", self.M)
        self.col = self.a.bind("col", self.N)
        self.x = E(var("x"))


EXPRESSIONS: list[tuple[Callable[[Names], E], str]] = [
    (lambda n: (n.tx * 8 + n.v) // 8, "tx"),
    (lambda n: (n.tx * 8 + n.v) % 8, "v"),
    (lambda n: (n.x // 4) // 8, "x // 32"),
    (lambda n: n.x // 8 * 8 + n.x % 8, "x"),
    (lambda n: (n.x // 4 % 8) * 4 + n.x % 4 + n.x // 32 * 32, "x"),
    (lambda n: (n.x // 4 % 8) * 4 + n.x % 4, "x % 32"),
    (lambda n: n.tx % 128, "tx"),
    (lambda n: n.tx // 128, "0"),
    (lambda n: (n.x * 16 + n.tx // 8) % 16, "tx // 8"),
    (lambda n: (n.x * 32 + n.v * 4 + 2) // 4, "x * 8 + v"),
    (lambda n: (n.x * 8 + 5) // 32, "x // 4"),
    (lambda n: (n.x * 8 + 5) ^ 3, "x * 8 + 6"),
    (lambda n: (n.x * 8 + 5) | 2, "x * 8 + 7"),
    (lambda n: n.x % 32 % 8, "x % 8"),
    (lambda n: n.x - n.x // 32 * 32, "x % 32"),
    (lambda n: n.N - n.x // 4 * 8 + n.x * 2, "x % 4 * 2 + N"),
    (lambda n: (n.x * 12 + n.v) % 4, "v % 4"),
    (lambda n: (n.row * n.N + n.col) // n.N, "row"),
    (lambda n: (n.row * n.N + n.col) % n.N, "col"),
    (lambda n: n.x // n.N * n.N + n.x % n.N, "x"),
    (lambda n: n.x + n.x + n.x - n.x * 2, "x"),
    (lambda n: (n.x + 3) - (n.x - 4), "7"),
    (lambda n: call("min", n.tx, 127), "tx"),
    (lambda n: call("max", call("min", n.x, 7), 7), "7"),
    (lambda n: call("min", call("min", n.x, 9), 4), "min(x, 4)"),
    (lambda n: (n.tx * 8 + n.v) ^ (n.i * 8), "(tx ^ i) * 8 + v"),
    (lambda n: (n.tx << 3) >> 3, "tx"),
    (lambda n: n.k // 8 + 1, "k // 8 + 1"),
    (lambda n: (n.k + 2) // 5, "0"),
    (lambda n: cast("int64", n.tx) // 128, "int64(0)"),
    (lambda n: cast("int32", cast("int64", n.x)), "x"),
    (lambda n: n.tx < 128, "True"),
    (lambda n: n.tx * 4 + 3 > 511, "False"),
    (lambda n: call("and", n.tx < 64, n.tx < 96), "tx < 64"),
    (lambda n: call("or", n.x < 4, n.x >= 4), "True"),
    (lambda n: call("and", n.x < 4, n.x > 6), "False"),
    (lambda n: n.tx * 4 < 9, "tx < 3"),
    (lambda n: n.tx + 5 >= 9, "tx >= 4"),
    (lambda n: n.bx * 128 < n.N, "True"),
]


@pytest.mark.parametrize("index", range(len(EXPRESSIONS)))
def test_simplifies_to(index: int) -> None:
    names = Names()
    build, expected = EXPRESSIONS[index]
    assert _PRINT(names.a.Simplify(build(names))) == expected


PROVEN: list[Callable[[Names], E]] = [
    lambda n: n.row * n.N + n.col < n.M * n.N,
    lambda n: n.row * n.N + n.col >= 0,
    lambda n: n.bx * 128 <= n.N - 1,
    lambda n: (n.N + 127) // 128 * 128 >= n.N,
    lambda n: n.N // 16 * 16 <= n.N,
    lambda n: call("min", n.x, n.N) <= n.N,
    lambda n: call("max", n.x, 3) >= 2,
    lambda n: n.x % 32 - n.x % 4 == n.x // 4 % 8 * 4,
    lambda n: n.x * 4 + 1 != n.N * 2,
    lambda n: n.tx // 8 < 16,
    lambda n: (n.tx ^ n.i) < 128,
    lambda n: n.col + 1 <= n.N,
    lambda n: ((n.tx * 8) | n.v) == n.tx * 8 + n.v,
]
NOT_PROVEN: list[Callable[[Names], E]] = [
    lambda n: n.row * n.N + n.col < n.M * n.N - 1,
    lambda n: n.bx * 128 + 127 < n.N,
    lambda n: n.x >= 0,
    lambda n: n.N // 16 * 16 == n.N,
    lambda n: n.x * 4 != n.N * 2,
    lambda n: n.col < n.M,
]


@pytest.mark.parametrize("index", range(len(PROVEN)))
def test_proves(index: int) -> None:
    names = Names()
    assert names.a.CanProve(PROVEN[index](names))


@pytest.mark.parametrize("index", range(len(NOT_PROVEN)))
def test_does_not_prove_what_may_fail(index: int) -> None:
    names = Names()
    assert not names.a.CanProve(NOT_PROVEN[index](names))


def test_divisibility_of_a_symbolic_size() -> None:
    n = Names()
    n.a.Assume(n.N % 16 == 0)
    assert list(n.a.Modular(n.row * n.N + n.tx * 8)) == [8, 0]
    assert _PRINT(n.a.Simplify(n.N // 16 * 16)) == "N"
    assert n.a.CanProve((n.row * n.N + n.v * 16) % 16 == 0)
    assert list(n.a.Modular(n.row * n.M)) == [1, 0]


def test_alignment_survives_a_swizzle() -> None:
    n = Names()
    assert list(n.a.Modular((n.tx * 8) ^ (n.i * 16))) == [8, 0]


@pytest.mark.parametrize(
    ("build", "stride"),
    [
        (lambda n: n.tx * 8 + n.v, "1"),
        (lambda n: (n.tx * 8 + n.v) % 64 + n.N, "1"),
        (lambda n: ((n.tx * 8 + n.v) ^ (n.i * 8)) * 2, "2"),
        (lambda n: n.v * n.N + n.col, "N"),
        (lambda n: n.col, "0"),
        (lambda n: n.v // 2, None),
        (lambda n: (n.v + 1) % 8, None),
        (lambda n: n.v * n.v, None),
    ],
)
def test_stride_in_a_vector_loop(build: Callable[[Names], E], stride: str | None) -> None:
    n = Names()
    found = n.a.LinearIn(build(n), n.v)
    assert (None if found is None else _PRINT(found)) == stride


def test_scopes_end() -> None:
    n = Names()
    condition = n.x < 4
    n.a.EnterScope()
    n.a.Assume(condition)
    assert _PRINT(n.a.Simplify(n.x < 10)) == "True"
    n.a.ExitScope()
    assert _PRINT(n.a.Simplify(n.x < 10)) == "x < 10"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int16"])
def test_arithmetic_that_may_wrap_is_kept(dtype: str) -> None:
    a = Analyzer()
    x = E(var("x", dtype))
    for e in [(x * 4) // 4, (x + 1) > x, cast("int64", x + 1) - 1]:
        assert "x" in _PRINT(a.Simplify(e))


def test_shifts_that_drop_bits_are_kept() -> None:
    a, x = Analyzer(), E(var("x"))
    assert _PRINT(a.Simplify((x << 24) >> 24)) == "x << 24 >> 24"


def test_floats_are_not_touched() -> None:
    a, x = Analyzer(), E(var("x", "float32"))
    zero = E(_ffi.get("ir.FloatImm")("float32", 0.0, None))
    for e in [x + zero, x - x + x, x * zero]:
        assert a.Simplify(e.node).same_as(e.node)


def test_values_in_memory_may_wrap() -> None:
    a, i = Analyzer(), E(var("i"))
    buffer = _ffi.get("ir.Buffer")("buf", "int32", [imm(8)], [], "global", {}, None)
    load = E(_ffi.get("ir.Load")(buffer, [i.node], None))
    assert "//" in _PRINT(a.Simplify((load * 4) // 4))
    assert _PRINT(a.Simplify(load + 1 - load)) == "1"


def test_names_of_values_that_may_wrap_are_multiples_of_powers_of_two() -> None:
    a = Analyzer()
    buffer = _ffi.get("ir.Buffer")("buf", "int32", [imm(8)], [], "global", {}, None)
    number = E(_ffi.get("ir.Load")(buffer, [imm(0)], None))
    begin, row = E(var("begin")), E(var("row"))
    a.BindValue(begin, number * 48 + 16)
    a.BindValue(row, number * 4 * (1 << 20))
    assert list(a.Modular(begin)) == [16, 0]
    assert list(a.Modular(row)) == [1 << 22, 0]


def test_calls_with_effects_stay() -> None:
    a = Analyzer()
    call_node = _ffi.get("ir.Call")("int32", "atomic_add", [], {}, None)
    e = E(call_node)
    assert _PRINT(a.Simplify(e + 1 - e)).count("atomic_add") == 2


def test_deep_shared_expressions_take_linear_time() -> None:
    a, e = Analyzer(), E(var("x", "int64"))
    f = E(var("f", "float32"))
    for _ in range(50):
        e, f = e + e, f * f
    assert _PRINT(a.Simplify(e)) == f"x * int64({1 << 50})"
    assert a.Simplify(f.node).same_as(f.node)
