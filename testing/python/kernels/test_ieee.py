"""Arithmetic with a rounding mode: exact bits for every type and mode, or a refusal by name."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import exact_floats as ef
import float_model as model
import numpy as np
import pytest

import tilelang
import tilelang.language as T

N = model.N
TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
MODES = {"rn": "rn", "rz": "rz", "ru": "rp", "rd": "rm"}  # the language's names, PTX's
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")


def root(value: ef.Value) -> ef.Value:
    """The square root; an irrational one to 2^-200 of itself, and no tie."""
    if value == "-0" or value == "inf" or value == 0:
        return value
    if value == "nan" or model.is_negative(value):
        return "nan"
    scale = 1 << 1400
    found = isqrt(int(value * scale * scale))
    exact = Fraction(found, scale)
    return exact if exact * exact == value else exact + Fraction(1, 4 * scale)


def inverse_root(value: ef.Value) -> ef.Value:
    if value in ("-0", 0):
        return "-inf" if value == "-0" else "inf"
    if value == "inf":
        return Fraction(0)
    square_root = root(value)
    return square_root if square_root == "nan" else 1 / square_root


REFERENCE = {
    "ieee_add": (2, model.add),
    "ieee_sub": (2, lambda a, b, mode: model.add(a, model.negate(b), mode)),
    "ieee_mul": (2, lambda a, b, mode: model.multiply(a, b)),
    "ieee_fdiv": (2, lambda a, b, mode: model.divide(a, b)),
    "ieee_fmaf": (3, lambda a, b, c, mode: model.add(model.multiply(a, b), c, mode)),
    "ieee_frcp": (1, lambda a, mode: model.divide(Fraction(1), a)),
    "ieee_fsqrt": (1, lambda a, mode: root(a)),
    "ieee_frsqrt": (1, lambda a, mode: inverse_root(a)),
}


def exists(name: str, dtype: str, mode: str) -> bool:
    if name == "ieee_frsqrt":
        return dtype in ("float16", "bfloat16", "float32") and mode == "rn"
    return dtype in ("float32", "float64") or (dtype in TYPES and mode == "rn")


def call(name: str, mode: str, values: list) -> T.dtype:
    return getattr(T, name)(*values[: REFERENCE[name][0]], rounding_mode=mode)


@pytest.mark.parametrize("dtype", TYPES)
def test_results_are_correctly_rounded(dtype: str) -> None:
    cases = [(f, m) for f in REFERENCE for m in MODES if exists(f, dtype, m)]
    count = len(cases)

    @T.prim_func
    def kernel(X: T.Tensor((3, N), dtype), Y: T.Tensor((count, N), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            for case, (name, mode) in enumerate(cases):
                Y[case, t] = call(name, mode, [X[0, t], X[1, t], X[2, t]])

    form = model.FORMATS[TYPES[dtype]]
    inputs = np.stack(model.codes(TYPES[dtype], 3, seed=5))
    got = np.zeros((count, N), inputs.dtype)
    compiled = tilelang.compile(kernel, target="sm_100a")
    compiled(as_tensor(inputs, dtype), as_tensor(got, dtype))
    for case, (name, mode) in enumerate(cases):
        arity, reference = REFERENCE[name]
        for column in range(N):
            values = [ef.decode(form, int(x)) for x in inputs[:arity, column]]
            expected = ef.encode(form, reference(*values, MODES[mode]), MODES[mode])
            result = int(got[case, column])
            both_nan = ef.decode(form, result) == ef.decode(form, expected) == "nan"
            assert result == expected or both_nan, (name, mode, values, hex(result), hex(expected))


def as_tensor(codes: np.ndarray, dtype: str):
    """The memory of an array of codes as a tensor of the type."""
    import torch

    return torch.from_numpy(codes.view(codes.dtype.str.replace("u", "i"))).view(
        getattr(torch, dtype)
    )


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(tilelang.errors.SemanticsError, match="Invalid rounding mode 'up'") as error:
        T.ieee_add(1.0, 2.0, "up")
    assert "rn, rz, ru, rd" in str(error.value)
    with pytest.raises(tilelang.errors.SemanticsError, match="takes 2 operands"):
        T.ieee_add(1.0)


@pytest.mark.parametrize("dtype", [*TYPES, *EIGHT_BITS])
def test_everything_else_is_refused_by_name(dtype: str) -> None:
    value = T.reinterpret(T.cast(0, f"uint{tilelang.language.dtype(dtype).bits}"), dtype)
    for name in REFERENCE:
        for mode in MODES:
            if exists(name, dtype, mode):
                assert call(name, mode, [value] * 3).dtype == dtype
                continue
            with pytest.raises(tilelang.errors.UnsupportedError, match=f"T.{name} of {dtype}"):
                call(name, mode, [value] * 3)


@pytest.mark.parametrize("dtype", [*TYPES, *EIGHT_BITS])
def test_constants_at_the_edges(dtype: str) -> None:
    """Infinity, NaN, the extremes, and constants beyond them, by their bits."""
    form = {**{k: model.FORMATS[v] for k, v in TYPES.items()},
            "float8_e4m3fn": ef.E4M3, "float8_e5m2": ef.E5M2}[dtype]  # fmt: skip
    has_infinity = form.ieee
    eight = dtype in EIGHT_BITS
    largest = ef.largest(form)

    @T.prim_func
    def kernel(Y: T.Tensor((7, 32), dtype), X: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            Y[0, t] = T.infinity(dtype) if has_infinity else T.max_value(dtype)
            Y[1, t] = -T.infinity(dtype) if has_infinity else T.min_value(dtype)
            Y[2, t] = T.max_value(dtype)
            Y[3, t] = T.min_value(dtype)
            Y[4, t] = T.cast(float("inf"), dtype)
            Y[5, t] = T.cast(X[t], dtype)
            Y[6, t] = T.cast(float("nan"), dtype)

    got = np.zeros((7, 32), f"u{form.bits // 8}")
    infinite = np.full(32, np.inf, "float32")
    import torch

    compiled = tilelang.compile(kernel, target="sm_100a")
    compiled(as_tensor(got, dtype), torch.from_numpy(infinite))
    values = [ef.decode(form, int(row[0])) for row in got]
    ends = ["inf", "-inf"] if has_infinity else [largest, -largest]
    # A conversion to 8 bits saturates, of constants as of other values.
    converted = largest if eight else "inf"
    assert values == [*ends, largest, -largest, converted, converted, "nan"]
    assert (got == got[:, :1]).all()


def test_types_without_infinity_are_refused() -> None:
    for dtype in ("float8_e4m3fn", "int32", "bool", "uint8"):
        with pytest.raises(tilelang.errors.DTypeError, match="infinity"):
            T.infinity(dtype)


NAN = float("nan")
CLAMPED = {
    "inside": (0.25, -1.0, 1.0, 0.25),
    "below": (-3.0, -1.0, 1.0, -1.0),
    "above": (3.0, -1.0, 1.0, 1.0),
    "infinite": (float("inf"), -1.0, 1.0, 1.0),
    "unbounded": (float("inf"), float("-inf"), float("inf"), float("inf")),
    "crossed": (0.0, 1.0, -1.0, -1.0),
    "nan": (NAN, -1.0, 1.0, NAN),
    "nan below": (0.0, NAN, 1.0, NAN),
    "nan above": (0.0, -1.0, NAN, NAN),
}


@pytest.mark.parametrize("dtype", [*TYPES, *EIGHT_BITS])
def test_clamp_keeps_nan_as_torch_does(dtype: str) -> None:
    import torch

    count = len(CLAMPED)

    @T.prim_func
    def kernel(X: T.Tensor((4, count), dtype), Y: T.Tensor((5, count), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(count):
                Y[3, i] = -X[0, i]
                Y[4, i] = T.abs(-X[0, i])
                Y[0, i] = T.clamp(X[0, i], X[1, i], X[2, i])
                Y[1, i] = T.min(X[0, i], X[1, i])
                Y[2, i] = T.max(X[0, i], X[1, i])

    table = torch.tensor(list(CLAMPED.values())).T.contiguous()
    if dtype == "float8_e4m3fn":  # has no infinity
        table = table.clamp(-448, 448)
    x = table.to(getattr(torch, dtype))
    y = torch.zeros(5, count).to(x.dtype)
    tilelang.compile(kernel, target="sm_100a")(x, y)
    expected = torch.clamp(table[0], table[1], table[2])
    torch.testing.assert_close(y[0].float(), x[3].float(), equal_nan=True)
    torch.testing.assert_close(expected, table[3], equal_nan=True)
    # The minimum and the maximum of a number and NaN are the number.
    low, high = torch.fmin(x[0].float(), x[1].float()), torch.fmax(x[0].float(), x[1].float())
    expected = torch.stack([low, high, -x[0].float(), x[0].float().abs()])
    torch.testing.assert_close(y[1:].float(), expected, equal_nan=True)


def test_clamp_of_python_numbers() -> None:
    for x, low, high, expected in CLAMPED.values():
        np.testing.assert_equal(T.clamp(x, low, high), expected)
