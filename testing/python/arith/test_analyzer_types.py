"""Narrow, unsigned and mixed types against brute force over all values of the variables.

These types wrap, and the analyzer must never reason as if they did not.
"""

from __future__ import annotations

from typing import Any

import pytest
from arith.exprs import binary, imm, var
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiers import examples

from tilelang import _ffi

_SETTINGS = settings(
    max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck)
)
_VALUES = {
    "int8": [-128, -127, -65, -5, -1, 0, 1, 3, 7, 64, 100, 126, 127],
    "uint8": [0, 1, 2, 3, 8, 15, 16, 100, 127, 128, 200, 254, 255],
    "int16": [-32768, -300, -1, 0, 1, 5, 300, 32767],
    "uint32": [0, 1, 5, 7, 8, 255, 65536, 1 << 31, (1 << 32) - 8, (1 << 32) - 1],
}
_TYPES = [*_VALUES, "int32", "int64"]
_COMPARE = ["==", "!=", "<", "<=", ">", ">="]


def _constant(dtype: str, value: int) -> Any:
    if dtype.startswith("u"):
        value = abs(value)
    return imm(value % 120 if value >= 0 else value, dtype)


def _expressions(dtype: str, variables: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    """Expressions of one type over the variables of all types, converted where they differ."""
    leaves = [st.integers(-9, 100).map(lambda n: _constant(dtype, n)), st.just(variables[dtype])]
    if depth == 0:
        return st.one_of(leaves)
    same = _expressions(dtype, variables, depth - 1)
    other = st.sampled_from(_TYPES).flatmap(lambda t: _expressions(t, variables, depth - 1))
    divisors = st.sampled_from([1, 2, 3, 4, 8, 16, 5]).map(lambda n: imm(n, dtype))
    condition = st.builds(binary, st.sampled_from(_COMPARE), same, same)
    # Index types are taken not to overflow, so nothing large is computed in them.
    growing = ["*"] if dtype in _VALUES else []
    return st.one_of(
        *leaves,
        st.builds(
            binary, st.sampled_from(["+", "-", "min", "max", "&", "|", "^", *growing]), same, same
        ),
        st.builds(binary, st.sampled_from(["//", "%"]), same, divisors),
        st.builds(
            binary,
            st.sampled_from([">>"] if not growing else ["<<", ">>"]),
            same,
            st.integers(0, 7).map(lambda n: imm(n, dtype)),
        ),
        other.map(lambda e: _ffi.get("ir.Cast")(dtype, e, None)),
        st.builds(lambda c, a, b: _ffi.get("ir.Select")(c, a, b, None), condition, same, same),
    )


def test_sums_of_constants_wrap():
    """99 + 29 of 8 bits is -128, whatever shows that the operand is 29."""
    select = _ffi.get("ir.Select")
    v = var("v", "int8")
    same = select(binary("==", v, imm(0, "int8")), imm(29, "int8"), imm(29, "int8"), None)
    e = binary("+", imm(99, "int8"), same)
    low, high = _ffi.get("arith.ConstBounds")(_ffi.get("arith.Analyzer")(), e)
    assert low <= -128 <= high


@given(st.data())
@_SETTINGS
def test_simplification_keeps_wrapping_values(data: st.DataObject) -> None:
    variables = {t: var(t.replace("int", "v"), t) for t in _TYPES}
    dtype = data.draw(st.sampled_from(list(_VALUES)))
    expr = data.draw(_expressions(dtype, variables, 3))
    a = _ffi.get("arith.Analyzer")()
    for index_type in ("int32", "int64"):
        _ffi.get("arith.BindRange")(
            a, variables[index_type], imm(-3, index_type), imm(9, index_type)
        )
    simple = _ffi.get("arith.Simplify")(a, expr)
    low, high = _ffi.get("arith.ConstBounds")(a, expr)
    coeff, base = _ffi.get("arith.Modular")(a, expr)
    names = list(variables.values())
    for _ in range(16):
        values = [data.draw(st.sampled_from(_VALUES.get(t, range(-3, 6)))) for t in _TYPES]
        before, after = _ffi.get("arith.HostEvaluate")([expr, simple], names, values)
        assert before == after, _ffi.get("ir.Print")(simple)
        assert low <= before <= high
        assert before == base if coeff == 0 else (before - base) % coeff == 0


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_unsigned_values_that_provably_fit_are_simplified(dtype: str) -> None:
    a, x = _ffi.get("arith.Analyzer")(), var("x", dtype)
    _ffi.get("arith.BindRange")(a, x, imm(0, dtype), imm(8, dtype))
    e = binary("//", binary("+", binary("*", x, imm(4, dtype)), imm(3, dtype)), imm(4, dtype))
    assert _ffi.get("ir.Print")(_ffi.get("arith.Simplify")(a, e)) == "x"
