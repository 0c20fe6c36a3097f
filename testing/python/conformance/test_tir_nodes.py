"""Expressions made by the classes of ``tvm.tir``, with TVM's arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import equal, poison, run

import tilelang.language as T
from tilelang import errors
from tilelang.layout import make_swizzled_layout
from tilelang.tvm import tir

_MADE: dict[str, tuple[Any, Any]] = {
    "Cast": (lambda x: tir.Cast("int32", tir.Cast("int8", x)), lambda x: x.to(torch.int8).int()),
    "Select": (lambda x: tir.Select(x > 0, x, -x), torch.abs),
    "IntImm": (lambda x: x + tir.IntImm("int32", 1), lambda x: x + 1),
    "FloatImm": (
        lambda x: tir.Cast("int32", tir.Cast("float32", x) * tir.FloatImm("float32", 0.5)),
        lambda x: (x * 0.5).int(),
    ),
    "Add": (lambda x: tir.Add(x, tir.Mul(x, 2)), lambda x: 3 * x),
    "Sub": (lambda x: tir.Sub(100, x, span=None), lambda x: 100 - x),
    "Div": (lambda x: tir.Div(x, 7), lambda x: torch.div(x, 7, rounding_mode="trunc")),
    "Mod": (lambda x: tir.Mod(x, 7), lambda x: torch.fmod(x, 7)),
    "FloorDiv": (lambda x: tir.FloorDiv(x, 7), lambda x: x // 7),
    "FloorMod": (lambda x: tir.FloorMod(x, 7), lambda x: x % 7),
    "Min": (lambda x: tir.Min(x, tir.Max(x, -3)), lambda x: x),
    "And": (
        lambda x: tir.Select(tir.And(tir.GT(x, -50), tir.Not(tir.EQ(x, 3))), x, 0),
        lambda x: torch.where((x > -50) & (x != 3), x, 0),
    ),
    "Or": (
        lambda x: tir.Cast("int32", tir.Or(tir.LT(x, -9), tir.GE(x, 9))),
        lambda x: ((x < -9) | (x >= 9)).int(),
    ),
    "Call": (
        lambda x: tir.Cast("int32", tir.Call("float32", "tir.exp2", [tir.Cast("float32", x % 8)])),
        lambda x: 2 ** (x % 8),
    ),
    "Shuffle": (lambda x: tir.Shuffle([tir.Ramp(x, 5, 4)], [2]), lambda x: x + 10),
    "const": (lambda x: x + tir.const(3) + tir.const(2, "int32"), lambda x: x + 5),
}


@pytest.mark.parametrize("name", _MADE)
def test_expressions(name: str, target: str) -> None:
    make, expected = _MADE[name]

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = make(tir.BufferLoad(A, [i]))

    a = torch.randint(-100, 100, (64,), dtype=torch.int32)
    equal(run(main, target, a, poison(64, dtype="int32")), expected(a).int())


def test_select_lane_by_lane(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=16):
            t = T.get_thread_binding()
            four = T.Ramp(4 * t, 1, 4)
            B[four] = tir.Select(A[four] > four, A[four], T.Broadcast(-1, 4))

    a = torch.randint(0, 64, (64,), dtype=torch.int32)
    lanes = torch.arange(64)
    equal(run(main, target, a, poison(64, dtype="int32")), torch.where(a > lanes, a, -1))


def test_what_expressions_are() -> None:
    n = tir.Var("n", "int32")
    made = {
        "Add": n + 1,
        "Mul": n * 2,
        "LT": n < 4,
        "And": tir.And(n < 4, n > 1),
        "Not": tir.Not(tir.And(n < 4, n > 1)),
        "Cast": tir.Cast("float32", n),
        "Select": tir.Select(n > 0, n, 1),
        "IntImm": tir.const(3),
        "FloatImm": tir.const(1.5),
        "Var": n,
    }
    for name, value in made.items():
        kinds = [other for other in made if isinstance(value, getattr(tir, other))]
        assert kinds == [name] and isinstance(value, tir.PrimExpr)
    assert tir.const(1.5).dtype == "float32" and tir.const(True).dtype == "bool"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tir.Cast("int33", 1), "int33"),
        (lambda: tir.Cast("int32"), "missing a required argument: 'value'"),
        (lambda: tir.IntImm("int8", 200), "holds -128 to 127"),
        (lambda: tir.IntImm("float32", 2), "no integer type"),
        (lambda: tir.FloatImm("int32", 2.5), "no floating-point type"),
        (lambda: tir.BufferLoad(3, [0]), "BufferLoad of int, which is no buffer"),
        (lambda: tir.Select(tir.Var("n"), "a", object()), "expected a number or an expression"),
        (lambda: bool(T.Ramp(0, 1, 4)), "is no condition"),
    ],
)
def test_wrong_arguments_are_the_users(wrong: Any, message: str) -> None:
    with pytest.raises(errors.UserError, match=message):
        wrong()


def test_functions_with_statements_replaced(target: str) -> None:
    """Calls that a program left in a kernel as marks become nothing."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8, 64), "int32")
            T.annotate_layout({tile: make_swizzled_layout(tile)})
            t = T.get_thread_binding()
            T.evaluate(T.call_extern("handle", "mark_of_the_test", t))
            T.clear(tile)
            A[t] = t

    def is_mark(node: Any) -> bool:
        if not isinstance(node, tir.Evaluate) or not isinstance(node.value, tir.Call):
            return False
        name = next(iter(node.value.args), None)
        return isinstance(name, tir.StringImm) and name.value == "mark_of_the_test"

    marks: list[Any] = []

    def without(node: Any) -> Any:
        if not is_mark(node):
            return node
        marks.append(node)
        return tir.Evaluate(tir.IntImm("int32", 0))

    body = tir.stmt_functor.ir_transform(main.body, None, without)
    func = tir.PrimFunc(
        params=list(main.params),
        body=body,
        ret_type=main.ret_type,
        buffer_map=dict(main.buffer_map),
        attrs=main.attrs,
    )
    assert isinstance(func, tir.PrimFunc) and len(marks) == 1
    a = poison(64, dtype="int32")
    run(func, target, a)
    equal(a, torch.arange(64).int())
    with pytest.raises(errors.UnsupportedError, match="write results to a tensor"):
        tir.PrimFunc(main.params, body, "int32")


def test_views_of_declared_buffers() -> None:
    A = tir.decl_buffer((16, 32), "float4_e2m1fn", name="A")
    raw = T.view(A, (16, 16), dtype="uint8")
    assert (str(A.dtype), A.shape) == ("float4_e2m1fn", (16, 32))
    assert (str(raw.dtype), raw.shape) == ("uint8", (16, 16))
    assert raw.data.same_as(A.data)
    other = tir.decl_buffer((16, 32), "float4_e2m1fn", name="A")
    assert not other.data.same_as(A.data)


@pytest.mark.parametrize("function", [T.view, T.reshape])
def test_a_wrong_shape_is_an_assertion_of_the_program(function: Any) -> None:
    with pytest.raises(AssertionError, match="the view needs 33792 bits, but the buffer has 32768"):
        function(tir.decl_buffer((1024,), "float32"), (32, 33))
