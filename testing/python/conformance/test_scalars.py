"""Scalars: functions of numbers, bits and types, one a program, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T

N = 192


def of_one(function: Callable[..., Any], source: str, result: str | None = None) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), source), B: T.Tensor((N,), result or source)):
        with T.Kernel(2, threads=96) as bx:
            for i in T.Parallel(96):
                B[bx * 96 + i] = function(A[bx * 96 + i])

    return main


def of_two(function: Callable[..., Any], dtype: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(2, threads=96) as bx:
            for i in T.Parallel(96):
                C[bx * 96 + i] = function(A[bx * 96 + i], B[bx * 96 + i])

    return main


OF_FLOATS = {
    "exp10": (T.exp10, lambda x: 10.0**x),
    "expm1": (T.expm1, torch.expm1),
    "log1p": (lambda x: T.log1p(T.fabs(x)), lambda x: torch.log1p(x.abs())),
    "log10": (lambda x: T.log10(T.fabs(x) + 0.1), lambda x: torch.log10(x.abs() + 0.1)),
    "cbrt": (T.cbrt, lambda x: x.sign() * x.abs() ** (1 / 3)),
    "tan": (T.tan, torch.tan),
    "sinh": (T.sinh, torch.sinh),
    "cosh": (T.cosh, torch.cosh),
    "asin": (lambda x: T.asin(x / 8), lambda x: torch.asin(x / 8)),
    "acos": (lambda x: T.acos(x / 8), lambda x: torch.acos(x / 8)),
    "atan": (T.atan, torch.atan),
    "asinh": (T.asinh, torch.asinh),
    "acosh": (lambda x: T.acosh(T.fabs(x) + 1.5), lambda x: torch.acosh(x.abs() + 1.5)),
    "atanh": (lambda x: T.atanh(x / 8), lambda x: torch.atanh(x / 8)),
    "erfc": (T.erfc, torch.erfc),
    "trunc": (T.trunc, torch.trunc),
    "nearbyint": (lambda x: T.nearbyint(x * 4), lambda x: torch.round(x * 4)),
    "round": (lambda x: T.round(x * 4), lambda x: torch.round(x * 4)),
    "round away": (
        lambda x: T.round(T.trunc(x * 4) / 2, "ties-away-from-zero"),
        lambda x: ((x * 4).trunc() / 2).abs().add(0.5).floor() * x.sign(),
    ),
    "ldexp": (lambda x: T.ldexp(x, 3), lambda x: x * 8),
    "fast_rcp": (lambda x: T.fast_rcp(T.fabs(x) + 0.5), lambda x: 1 / (x.abs() + 0.5)),
    "__exp10": (lambda x: T.__exp10(x / 4), lambda x: 10.0 ** (x / 4)),
    "__log2": (lambda x: T.__log2(T.fabs(x) + 0.5), lambda x: torch.log2(x.abs() + 0.5)),
    "__log10": (lambda x: T.__log10(T.fabs(x) + 0.5), lambda x: torch.log10(x.abs() + 0.5)),
    "__exp": (lambda x: T.__exp(x), torch.exp),
    "__log": (lambda x: T.__log(T.fabs(x) + 0.5), lambda x: torch.log(x.abs() + 0.5)),
    "__sin": (lambda x: T.__sin(x), torch.sin),
    "__cos": (T.__cos, torch.cos),
    "__tan": (lambda x: T.__tan(x / 4), lambda x: torch.tan(x / 4)),
    "clamp": (lambda x: T.clamp(x, -0.5, 0.5), lambda x: x.clamp(-0.5, 0.5)),
    "Cast": (lambda x: T.Cast("float32", T.Cast("float16", x)), lambda x: x.half()),
    "where": (lambda x: T.where(x > 0, x, x * 2), lambda x: torch.where(x > 0, x, x * 2)),
    "Select": (lambda x: T.Select(x > 0, x, -x), torch.abs),
}


@pytest.mark.parametrize("name", OF_FLOATS)
def test_function_of_a_float(name: str, target: str) -> None:
    function, reference = OF_FLOATS[name]
    a = normal(N)
    close(run(of_one(function, "float32"), target, a, poison(N)), reference(a.double()), 3e-5)


OF_TWO_FLOATS = {
    "atan2": (T.atan2, torch.atan2),
    "hypot": (T.hypot, torch.hypot),
    "copysign": (T.copysign, torch.copysign),
    "fmod": (T.fmod, torch.fmod),
    "pow": (lambda a, b: T.pow(T.fabs(a) + 0.5, b), lambda a, b: (a.abs() + 0.5) ** b),
    "fma": (lambda a, b: T.fma(a, b, a), lambda a, b: a * b + a),
    "min": (T.min, torch.minimum),
    "max": (T.max, torch.maximum),
}


@pytest.mark.parametrize("name", OF_TWO_FLOATS)
def test_function_of_two_floats(name: str, target: str) -> None:
    function, reference = OF_TWO_FLOATS[name]
    a, b = normal(N), normal(N)
    actual = run(of_two(function, "float32"), target, a, b, poison(N))
    close(actual, reference(a.double(), b.double()), 3e-5)


def test_nextafter(target: str) -> None:
    a, b = normal(N), normal(N)
    equal(run(of_two(T.nextafter, "float32"), target, a, b, poison(N)), torch.nextafter(a, b))


OF_TWO_INTEGERS = {
    "bitwise_and": (T.bitwise_and, torch.bitwise_and),
    "bitwise_or": (T.bitwise_or, torch.bitwise_or),
    "bitwise_xor": (T.bitwise_xor, torch.bitwise_xor),
    "bitwise_not": (lambda a, b: T.bitwise_not(a) + b, lambda a, b: ~a + b),
    "shift_left": (lambda a, b: T.shift_left(a, b & 7), lambda a, b: a << (b & 7)),
    "shift_right": (lambda a, b: T.shift_right(a, b & 7), lambda a, b: a >> (b & 7)),
    "floordiv": (
        lambda a, b: T.floordiv(a, T.abs(b) + 1),
        lambda a, b: torch.div(a, b.abs() + 1, rounding_mode="floor"),
    ),
    "floormod": (lambda a, b: T.floormod(a, T.abs(b) + 1), lambda a, b: a % (b.abs() + 1)),
    "truncdiv": (
        lambda a, b: T.truncdiv(a, T.abs(b) + 1),
        lambda a, b: torch.div(a, b.abs() + 1, rounding_mode="trunc"),
    ),
    "truncmod": (
        lambda a, b: T.truncmod(a, T.abs(b) + 1),
        lambda a, b: torch.fmod(a, b.abs() + 1),
    ),
    "ceildiv": (
        lambda a, b: T.ceildiv(a, T.abs(b) + 1),
        lambda a, b: -torch.div(-a, b.abs() + 1, rounding_mode="floor"),
    ),
    "cdiv": (
        lambda a, b: T.cdiv(a, 7) + b,
        lambda a, b: -torch.div(-a, 7, rounding_mode="floor") + b,
    ),
    "align_up": (
        lambda a, b: T.align_up(a, 8) + b,
        lambda a, b: -torch.div(-a, 8, rounding_mode="floor") * 8 + b,
    ),
}


@pytest.mark.parametrize("name", OF_TWO_INTEGERS)
def test_function_of_two_integers(name: str, target: str) -> None:
    function, reference = OF_TWO_INTEGERS[name]
    a, b = integers(N), integers(N)
    equal(run(of_two(function, "int32"), target, a, b, poison(N, dtype="int32")), reference(a, b))


@pytest.mark.parametrize(
    ("source", "function", "reference"),
    [
        (T.double, lambda x: x * 2, lambda x: x * 2),
        (T.half, lambda x: x + 1, lambda x: x + 1),
        (T.short, lambda x: x + 1, lambda x: x + 1),
        (T.long, lambda x: x * x, lambda x: x * x),
        (T.int, lambda x: x * x, lambda x: x * x),
        (T.float, lambda x: x - 1, lambda x: x - 1),
        (T.boolean, lambda x: T.if_then_else(x, T.boolean(0), T.boolean(1)), lambda x: ~x),
        (T.uint, lambda x: x + 3, lambda x: (x.long() + 3).to(torch.uint32)),
        (T.float8_e4m3, lambda x: x, lambda x: x),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_other_names_of_types(source: Any, function: Any, reference: Any, target: str) -> None:
    kind = str(source)
    if kind.startswith(("float", "bfloat")):
        a = normal(N, dtype=kind)
    else:
        a = integers(N, low=0, high=2 if kind == "bool" else 90, dtype=kind)
    actual = run(of_one(function, source), target, a, poison(N, dtype=kind))
    close(actual, reference(a))


def test_bits(target: str) -> None:
    a = integers(N, low=-(2**31), high=2**31, dtype="int64").int()
    actual = run(
        of_one(lambda x: T.popcount(x) * 100 + T.clz(x), "int32"),
        target,
        a,
        poison(N, dtype="int32"),
    )
    bits = [int(x) & 0xFFFFFFFF for x in a]
    equal(actual, torch.tensor([b.bit_count() * 100 + 32 - b.bit_length() for b in bits]))


def test_reinterpret(target: str) -> None:
    a = normal(N)
    actual = run(
        of_one(lambda x: T.reinterpret(x, "int32"), "float32", "int32"),
        target,
        a,
        poison(N, dtype="int32"),
    )
    equal(actual, a.view(torch.int32))


def test_limits_of_types(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((6,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = T.max_value("float16")
            A[1] = T.min_value("float16")
            A[2] = T.infinity("float32")
            A[3] = -T.infinity("float32")
            A[4] = T.max_value("int8")
            A[5] = T.min_value("int8")

    expected = torch.tensor([65504.0, -65504.0, torch.inf, -torch.inf, 127.0, -128.0])
    equal(run(main, target, poison(6)), expected)


def test_predicates_of_floats(target: str) -> None:
    a = normal(N)
    a[::3], a[1::3] = torch.inf, torch.nan

    def function(x: Any) -> Any:
        return (
            T.cast(T.isnan(x), "int32")
            + 2 * T.cast(T.isinf(x), "int32")
            + 4 * T.cast(T.isfinite(x), "int32")
        )

    actual = run(of_one(function, "float32", "int32"), target, a, poison(N, dtype="int32"))
    equal(actual, a.isnan() + 2 * a.isinf() + 4 * a.isfinite())


ROUNDED = {
    "ieee_add": (lambda a, b: T.ieee_add(a, b), lambda a, b: a + b),
    "ieee_sub": (lambda a, b: T.ieee_sub(a, b), lambda a, b: a - b),
    "ieee_mul": (lambda a, b: T.ieee_mul(a, b), lambda a, b: a * b),
    "ieee_fdiv": (lambda a, b: T.ieee_fdiv(a, b), lambda a, b: a / b),
    "ieee_fsqrt": (
        lambda a, b: T.ieee_fsqrt(T.fabs(a)) + b * 0,
        lambda a, b: a.abs().double().sqrt(),
    ),
    "ieee_frcp": (lambda a, b: T.ieee_frcp(a) + b * 0, lambda a, b: 1 / a),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_correctly_rounded(name: str, target: str) -> None:
    function, reference = ROUNDED[name]
    a, b = normal(N), normal(N)
    equal(run(of_two(function, "float32"), target, a, b, poison(N)), reference(a, b))
