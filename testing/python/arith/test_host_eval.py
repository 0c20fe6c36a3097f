"""Expressions evaluated on the host against Python, in the arithmetic of their types."""

from __future__ import annotations

import pytest
from arith.exprs import binary, imm, integers_over, var
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

from tilelang import _ffi, errors

_evaluate = _ffi.get("arith.HostEvaluate")
_cast = _ffi.get("ir.Cast")


def value(expr, **variables):
    """The value of an expression over (variable, value) pairs."""
    pairs = list(variables.values())
    return _evaluate([expr], [v for v, _ in pairs], [n for _, n in pairs])[0]


def wrapped(n: int, bits: int, signed: bool) -> int:
    n &= (1 << bits) - 1
    return n - (1 << bits) if signed and n >> (bits - 1) else n


DTYPES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)] + ["int64"]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_results_wrap_to_their_type(dtype, data):
    bits, signed = int(dtype.lstrip("uint")), not dtype.startswith("u")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    a, b = data.draw(st.integers(low, high)), data.draw(st.integers(low, high))
    x, y = var("x", dtype), var("y", dtype)
    for op, expected in [("+", a + b), ("-", a - b), ("*", a * b), ("^", a ^ b), ("&", a & b)]:
        assert value(binary(op, x, y), x=(x, a), y=(y, b)) == wrapped(expected, bits, signed)
    if b != 0:
        assert value(binary("//", x, y), x=(x, a), y=(y, b)) == wrapped(a // b, bits, signed)
        assert value(binary("%", x, y), x=(x, a), y=(y, b)) == a % b
    for narrow in ("int8", "uint16", "int32"):
        to_bits, to_signed = int(narrow.lstrip("uint")), not narrow.startswith("u")
        assert value(_cast(narrow, x, None), x=(x, a)) == wrapped(a, to_bits, to_signed)


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_random_expressions(data):
    from arith.exprs import OverflowSkip, Pair

    names = ["a", "b", "c"]
    variables = [Pair(var(n, "int64"), lambda env, n=n: env[n]) for n in names]
    pair = data.draw(integers_over(variables, "int64"))
    env = {n: data.draw(st.integers(-1000, 1000)) for n in names}
    try:
        expected = int(pair.value(env))
    except OverflowSkip:
        return
    assert _evaluate([pair.ir], [v.ir for v in variables], [env[n] for n in names])[0] == expected


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_many_points_at_once(dtype, data):
    """Two expressions at 600 points, against Python."""
    from arith.exprs import OverflowSkip, Pair

    names = ["a", "b"]
    variables = [Pair(var(n, dtype), lambda env, n=n: env[n]) for n in names]
    pairs = [data.draw(integers_over(variables, dtype)) for _ in range(2)]
    first, step = data.draw(st.integers(-500, 500)), data.draw(st.integers(1, 7))
    points = [{"a": first + step * p, "b": p % 13 - 6} for p in range(600)]
    try:
        expected = [[int(pair.value(env)) for env in points] for pair in pairs]
    except OverflowSkip:
        return
    columns = [[env[n] for env in points] for n in names]
    found = _ffi.get("arith.HostEvaluateMany")(
        [pair.ir for pair in pairs], [v.ir for v in variables], columns
    )
    assert [list(column) for column in found] == expected


def test_division_by_zero_at_one_of_many_points():
    x, y = var("x"), var("y")
    run = _ffi.get("arith.HostEvaluateMany")
    assert list(run([binary("//", x, y)], [x, y], [[7, -7], [2, 4]])[0]) == [3, -2]
    with pytest.raises(errors.SemanticsError):
        run([binary("//", x, y)], [x, y], [[7, 7], [2, 0]])


def test_several_outputs_and_deep_expressions():
    x = var("x")
    deep = x
    for k in range(100):
        deep = binary("+", imm(k), binary("-", imm(0), deep))
    expected = 7
    for k in range(100):
        expected = k - expected
    assert list(_evaluate([x, deep, imm(5)], [x], [7])) == [7, expected, 5]


def test_only_the_branch_taken_is_evaluated():
    x = var("x")
    guarded = _ffi.get("ir.Select")(
        binary("!=", x, imm(0)), binary("//", imm(12), x), imm(-1), None
    )
    assert value(guarded, x=(x, 5)) == 2
    assert value(guarded, x=(x, 0)) == -1


def test_division_by_zero():
    x = var("x")
    with pytest.raises(errors.SemanticsError, match=r"not defined: 12 // 0"):
        value(binary("//", imm(12), x), x=(x, 0))


def test_what_the_host_cannot_evaluate():
    x, f = var("x"), var("f", "float32")
    with pytest.raises(errors.InternalError, match="variable x has no value on the host"):
        _evaluate([x], [], [])
    with pytest.raises(errors.InternalError, match="integers only"):
        _evaluate([_cast("int32", f, None)], [f], [1])
    with pytest.raises(errors.InternalError, match="cannot evaluate"):
        _evaluate([_ffi.get("ir.Call")("int32", "clock", [], {}, None)], [], [])
