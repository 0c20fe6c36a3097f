"""The analyzer against brute force on random expressions over bounded variables."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from arith.exprs import OverflowSkip, Pair, conditions, integers_over, var
from arith.exprs import imm as make_imm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import examples

from tilelang import _ffi

_SETTINGS = settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# min and extent: negative ranges, digits, a single value, an odd size.
RANGES = {"i": (0, 8), "j": (-5, 7), "k": (0, 4), "one": (3, 1)}


class Case:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.vars = {name: var(name, dtype) for name in RANGES}
        self.pairs = [Pair(v, self._lookup(name)) for name, v in self.vars.items()]
        self.integers = integers_over(self.pairs, dtype)

    @staticmethod
    def _lookup(name: str) -> Any:
        return lambda env: env[name]

    def analyzer(self) -> Any:
        a = _ffi.get("arith.Analyzer")()
        for name, (low, extent) in RANGES.items():
            bind = _ffi.get("arith.BindRange")
            bind(a, self.vars[name], make_imm(low, self.dtype), make_imm(extent, self.dtype))
        return a

    def evaluate(self, expr: Any, env: dict[str, int]) -> int:
        return _ffi.get("arith.HostEvaluate")([expr], list(self.vars.values()), list(env.values()))[
            0
        ]


CASES = {dtype: Case(dtype) for dtype in ("int32", "int64")}
ENVIRONMENTS = [
    dict(zip(RANGES, values, strict=True))
    for values in itertools.product(*[range(lo, lo + n) for lo, n in RANGES.values()])
]


def _values(pair: Pair) -> list[tuple[dict[str, int], int]]:
    values = []
    for env in ENVIRONMENTS:
        try:
            values.append((env, int(pair.value(env))))
        except OverflowSkip:
            continue
    return values


def _integer(data: st.DataObject) -> tuple[Case, Pair]:
    case = CASES[data.draw(st.sampled_from(list(CASES)))]
    return case, data.draw(case.integers)


@given(st.data())
@_SETTINGS
def test_simplified_integers_have_the_same_values(data: st.DataObject) -> None:
    case, pair = _integer(data)
    simplified = _ffi.get("arith.Simplify")(case.analyzer(), pair.ir)
    assert simplified.dtype == pair.ir.dtype
    for env, value in _values(pair):
        assert case.evaluate(simplified, env) == value


@given(st.data())
@_SETTINGS
def test_simplified_conditions_have_the_same_values(data: st.DataObject) -> None:
    case = CASES[data.draw(st.sampled_from(list(CASES)))]
    pair = data.draw(conditions(case.integers))
    simplified = _ffi.get("arith.Simplify")(case.analyzer(), pair.ir)
    for env, value in _values(pair):
        assert case.evaluate(simplified, env) == value


@given(st.data())
@_SETTINGS
def test_bounds_and_modular_sets_hold(data: st.DataObject) -> None:
    case, pair = _integer(data)
    low, high = _ffi.get("arith.ConstBounds")(case.analyzer(), pair.ir)
    coeff, base = _ffi.get("arith.Modular")(case.analyzer(), pair.ir)
    for _, value in _values(pair):
        assert low <= value <= high
        assert (value == base) if coeff == 0 else (value - base) % coeff == 0


@given(st.data())
@_SETTINGS
def test_strides_hold(data: st.DataObject) -> None:
    case, pair = _integer(data)
    stride = _ffi.get("arith.LinearIn")(case.analyzer(), pair.ir, case.vars["i"])
    if stride is None:
        return
    table = {tuple(env.values()): value for env, value in _values(pair)}
    for values, value in table.items():
        after = table.get((values[0] + 1, *values[1:]))
        if after is not None:
            step = case.evaluate(stride, dict(zip(RANGES, values, strict=True)))
            assert after - value == step


@given(st.data())
@_SETTINGS
def test_facts_in_scope_are_used_soundly(data: st.DataObject) -> None:
    case, pair = _integer(data)
    fact = data.draw(conditions(case.integers))
    a = case.analyzer()
    _ffi.get("arith.EnterScope")(a)
    _ffi.get("arith.Assume")(a, fact.ir)
    simplified = _ffi.get("arith.Simplify")(a, pair.ir)
    low, high = _ffi.get("arith.ConstBounds")(a, pair.ir)
    _ffi.get("arith.ExitScope")(a)
    outside = _ffi.get("arith.Simplify")(a, pair.ir)
    for env, value in _values(pair):
        assert case.evaluate(outside, env) == value
        try:
            holds = fact.value(env)
        except OverflowSkip:
            continue
        if holds:
            assert case.evaluate(simplified, env) == value
            assert low <= value <= high


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_case_variables_cover_negative_values(dtype: str) -> None:
    assert min(env["j"] for env in ENVIRONMENTS) < 0 and CASES[dtype].dtype == dtype
