"""Data types: names, promotion, literals, conversions on stores."""

import numpy as np
import pytest
import torch

import tilelang.language as T
from tilelang.errors import DTypeError, UnsupportedError, UnsupportedSyntaxError
from tilelang.ir import Var, dtype_of
from tilelang.ir.expr import as_expr, binary, var

NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_spelling_names_the_type(name):
    dtype = getattr(T, name)
    assert dtype == name and dtype_of(name) is dtype
    assert dtype_of(getattr(torch, name)) is dtype
    if hasattr(np, name):
        assert dtype_of(getattr(np, name)) is dtype
        assert dtype_of(np.dtype(name)) is dtype
    assert dtype.bytes == torch.empty(0, dtype=getattr(torch, name)).itemsize


@pytest.mark.parametrize("name", NAMES)
def test_types_are_made_of_whatever_names_them(name):
    spellings = [name, getattr(T, name), getattr(torch, name), f"torch.{name}"]
    spellings += [np.dtype(name), getattr(np, name)] if hasattr(np, name) else []
    for spelling in spellings:
        assert T.dtype(spelling) is getattr(T, name)
    assert isinstance(T.dtype(name), T.dtype)


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ("float32x4", UnsupportedError, "supported: bool"),
        ("flot32", DTypeError, "did you mean float32"),
        (torch.complex64, DTypeError, "complex64"),
        (np.dtype("V3"), DTypeError, "known types"),
        (object, DTypeError, "known types"),
        (None, DTypeError, 'use T.float16, "float16", torch.float16'),
        (16, DTypeError, "16 is not a data type"),
        ([1], DTypeError, "is not a data type"),
    ],
)
def test_what_names_no_type_is_refused_with_advice(wrong, error, text):
    with pytest.raises(error) as caught:
        T.dtype(wrong)
    assert text in str(caught.value)


def test_strided_tensors_by_subscript():
    subscripted = T.StridedTensor[[8, 4], [16, 1], T.float16]
    called = T.StridedTensor((8, 4), (16, 1), "float16")
    for each in (subscripted, called):
        assert (each.shape, each.strides, each.dtype) == ((8, 4), (16, 1), "float16")
    assert T.StridedTensor[[8], [2]].dtype == "float32"
    for wrong in ([8], ([8],), ([8], [1], "int8", 4)):
        with pytest.raises(UnsupportedSyntaxError, match=r"T\.StridedTensor\[\[M, N\]"):
            T.StridedTensor[wrong]


def test_other_names():
    assert [dtype_of(d) for d in (int, float, bool)] == ["int32", "float32", "bool"]
    assert (T.float, T.half, T.int, T.long) == ("float32", "float16", "int32", "int64")
    assert dtype_of(torch.half) == "float16" and dtype_of("torch.bfloat16") == "bfloat16"


FLOATS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8}


def expected_type(a, b):
    """The rules of the language, restated: wider float; float over integer; wider integer."""
    if a == b:
        return a
    if a in FLOATS and b in FLOATS:
        if FLOATS[a] != FLOATS[b]:
            return max(a, b, key=FLOATS.__getitem__)
        return "float32"
    for x, y in ((a, b), (b, a)):
        if x in FLOATS or y == "bool":
            return x
    bits = {name: int(name.lstrip("uint")) for name in (a, b)}
    if bits[a] != bits[b]:
        return max(a, b, key=bits.__getitem__)
    return a if a.startswith("u") else b


@pytest.mark.parametrize("a", [n for n in NAMES if n != "float8_e5m2"])
@pytest.mark.parametrize("b", [n for n in NAMES if n != "float8_e5m2"])
def test_promotion(a, b):
    x, y = var("x", dtype_of(a)), var("y", dtype_of(b))
    expected = expected_type(a, b)
    assert (x + y).dtype == ("int32" if expected == "bool" else expected)
    assert (x < y).dtype == "bool"
    assert (x / y).dtype == (expected if expected in FLOATS else "float32")


@pytest.mark.parametrize(
    ("dtype", "literal", "expected"),
    [
        ("float16", 2.5, "float32"),
        ("float8_e4m3fn", 0.5, "float32"),
        ("bfloat16", 3, "bfloat16"),
        ("float32", True, "float32"),
        ("int8", 100, "int8"),
        ("int8", 300, "int32"),
        ("uint8", -1, "int32"),
        ("uint32", -1, "int64"),
        ("int32", 1 << 40, "int64"),
        ("int64", 1, "int64"),
        ("int32", 1.5, "float32"),
        ("bool", 1, "int32"),
        ("uint64", (1 << 64) - 1, "uint64"),
    ],
)
def test_literals_take_the_type_beside_them(dtype, literal, expected):
    x = var("x", dtype_of(dtype))
    assert (x + literal).dtype == expected
    assert (literal - x).dtype == expected


def test_python_floats_do_not_round_to_narrow_types():
    x = var("x", dtype_of("float16"))
    assert (x < 0.1).a.dtype == "float32"
    assert (x * T.float16(1.44)).dtype == "float16"
    assert T.max(x, 0.5).dtype == "float16"  # one of the operands


def test_constants():
    assert [as_expr(v).dtype for v in (1, 1 << 31, 1.5, True, "s")] == [
        *("int32", "int64", "float32", "bool", "handle")
    ]
    assert str(T.uint8(300)) == "uint8(44)" and str(T.int8(200)) == "int8(-56)"
    assert as_expr(np.float64(2.5)).value == 2.5 and as_expr(np.int32(7)).value == 7


def test_folding():
    x = var("x", T.int32)
    assert binary(0, 2, 3).value == 5
    assert isinstance(x + 0, Var) and isinstance(x * 1, Var)


def test_limits():
    for name in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"):
        limits = torch.finfo(getattr(torch, name))
        assert T.max_value(name).value == limits.max
        assert T.min_value(name).value == limits.min
    for name in ("int8", "int16", "int32", "int64", "uint8"):
        limits = torch.iinfo(getattr(torch, name))
        assert T.max_value(name).value == limits.max
        assert T.min_value(name).value == limits.min
    assert T.infinity("float16").value == float("inf")


def test_stores_convert():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "float16")):
        with T.Kernel(1):
            A[0] = B[1]
            B[0] = A[1] + 0.5
            A[2] = 2.75
            B[2] = True

    body = [line.strip() for line in str(main).splitlines()[2:]]
    assert body == [
        "A[0] = int32(B[1])",
        "B[0] = float16(float32(A[1]) + float32(0.5))",
        "A[2] = 2",
        "B[2] = float16(1)",
    ]
