"""Eager functions that are wrong, and wrong calls of right ones: what is said, and where."""

from __future__ import annotations

import linecache

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

A4, A8 = torch.zeros(4, 4), torch.zeros(8, 8)


@tilelang.jit
def product(A, B, block=16, dtype=T.float16):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(M, threads=32) as i:
        for j in T.Parallel(N):
            C[i, j] = A[i, 0] * B[0, j]
    return C


def half(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float16)


def fails(call, kind: type[errors.UserError], *texts: str, at: str = "") -> None:
    """Checks the class of the error, texts in it, and the line of this file it points at."""
    with pytest.raises(kind) as caught:
        call()
    shown = str(caught.value)
    for text in texts:
        assert text in shown, shown
    if at:
        span = caught.value.span
        assert span is not None and span.file == __file__
        line = linecache.getline(__file__, span.line)
        assert at in line, shown
        assert "^" in shown and at in line[span.col - 1 : span.end_col - 1], shown


def test_a_wrong_rank():
    fails(
        lambda: product(half(4), half(4, 4)),
        errors.ArgumentError,
        "A is declared as float16 tensor (M, K), with 2 dimensions, but the argument has 1",
        at="A: T.Tensor[[M, K], dtype]",
    )


def test_shapes_that_contradict_each_other():
    fails(
        lambda: product(half(4, 5), half(6, 7)),
        errors.ArgumentError,
        "dimension 0 of B is 6, but must be K = 5 (dimension 1 of A is 5)",
        at="B: T.Tensor[[K, N], dtype]",
    )


def test_a_shape_that_no_product_has():
    @tilelang.jit
    def rows(A, B):
        n, k = T.const("n, k")
        A: T.Tensor((n, 2), T.float32)
        B: T.Tensor((n * k,), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = B[0]

    fails(
        lambda: rows(torch.zeros(4, 2), torch.zeros(9)),
        errors.ArgumentError,
        "dimension 0 of B is 9, but must be n * k = 8",
        "n is 4, as dimension 0 of A is 4",
        at="B: T.Tensor((n * k,), T.float32)",
    )
    fails(
        lambda: rows(torch.zeros(4, 3), torch.zeros(8)),
        errors.ArgumentError,
        "dimension 1 of A is 3, but must be 2",
        at="A: T.Tensor((n, 2), T.float32)",
    )


def test_a_wrong_type():
    fails(
        lambda: product(half(4, 4), A4),
        errors.ArgumentError,
        "B is declared as float16 tensor (K, N), but the argument has dtype float32",
        "or make the dtype a parameter of product: dtype=T.float32",
        at="B: T.Tensor[[K, N], dtype]",
    )


def test_no_tensor():
    fails(
        lambda: product(half(4, 4), 3),
        errors.ArgumentError,
        "B is declared as float16 tensor (K, N), but the argument is not a tensor: int",
        at="B: T.Tensor[[K, N], dtype]",
    )
    fails(
        lambda: product(half(4, 4), [1]), errors.ArgumentError, "the argument is not a tensor: list"
    )


def test_a_tensor_that_is_not_contiguous():
    fails(
        lambda: product(half(4, 5).T, half(4, 4)),
        errors.ArgumentError,
        "argument 'A' is not contiguous: it has strides (1, 5)",
        "T.StridedTensor",
        at="A: T.Tensor[[M, K], dtype]",
    )


def test_warm_calls_are_checked_too():
    product(half(4, 4), half(4, 4))
    for wrong in (half(4), A4, half(8, 4).T[:, :4], 3, torch.empty(4, 4, device="meta").half()):
        with pytest.raises(errors.ArgumentError):
            product(half(4, 4), wrong)


@pytest.mark.requires_cuda
def test_tensors_of_two_devices():
    fails(
        lambda: product(half(4, 4), half(4, 4).cuda()),
        errors.ArgumentError,
        "argument 'B' is on cuda:0, but 'A' is on the CPU",
        at="B: T.Tensor[[K, N], dtype]",
    )


def test_a_constant_that_nothing_determines():
    @tilelang.jit
    def tile(A):
        M, N = T.const("M, N")
        A: T.Tensor((M, N // 2), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = N

    fails(
        lambda: tile(A4),
        errors.SemanticsError,
        "no argument determines the value of N",
        "tile(..., N=64)",
        at='T.const("M, N")',
    )
    assert tile(A4.clone(), N=8) is None
    fails(
        lambda: tile(A4, N=4),
        errors.ArgumentError,
        "dimension 1 of A is 4, but must be 2",
    )


def test_compiling_without_all_constants():
    fails(
        lambda: product.compile(M=4, K=4),
        errors.SemanticsError,
        "no argument determines the value of N",
        at='T.const("M, N, K")',
    )
    fails(
        lambda: product.compile(M=4, N=4, K=2.5),
        errors.ArgumentError,
        "K=2.5 for product is no integer",
    )
    fails(
        lambda: product.compile(M=4, N=4, K=4, target="sm_100a"),
        errors.ArgumentError,
        "target='sm_100a' is an option of the compilation, not of product",
        "@tilelang.jit(target='sm_100a')",
    )


def test_arguments_by_wrong_names():
    fails(
        lambda: product(half(4, 4), half(4, 4), blocks=3),
        errors.ArgumentError,
        "product has neither a parameter nor a T.const 'blocks'",
        "A, B, block, dtype",
    )
    fails(lambda: product(half(4, 4)), errors.ArgumentError, "'B' is missing")
    fails(lambda: product(*[half(4, 4)] * 5), errors.ArgumentError, "4 arguments, but 5 were given")
    fails(lambda: product(half(4, 4), half(4, 4), A=1), errors.ArgumentError, "got two values of A")


def test_returning_what_is_no_output():
    @tilelang.jit
    def fragment(A):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 4), T.float32)
            return tile

    @tilelang.jit
    def number(A):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1
        return N + 1

    @tilelang.jit
    def argument(A):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1
        return A

    @tilelang.jit
    def twice(A):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        B = T.empty((N,))
        with T.Kernel(1, threads=32):
            B[0] = A[0, 0]
        return B, B

    kind = errors.SemanticsError
    fails(
        lambda: fragment(A4),
        kind,
        "tile, a local.fragment buffer, which is no output",
        at="return tile",
    )
    fails(lambda: number(A4), kind, "number returns `5` which is no output", at="return N + 1")
    fails(
        lambda: argument(A4), kind, "A is an argument of argument: the caller has it", at="return A"
    )
    fails(lambda: twice(A4), kind, "B is returned twice", at="return B, B")


def test_returning_under_control_flow_of_the_run():
    @tilelang.jit
    def early(A):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        B = T.empty((N,))
        with T.Kernel(1, threads=32):
            if A[0, 0] > 0:
                return B
        return B

    fails(
        lambda: early(A4),
        errors.UnsupportedSyntaxError,
        "return under control flow known only at run time",
        at="return B",
    )


def test_allocating_at_a_wrong_place():
    @tilelang.jit
    def inside(A):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        with T.Kernel(1, threads=32):
            B = T.empty((N,), T.float32)
            B[0] = A[0, 0]

    fails(
        lambda: inside(A4),
        errors.ScopeError,
        "T.empty inside T.Kernel",
        "allocate before",
        at="T.empty((N,), T.float32)",
    )

    def constant_in_prim_func():
        @T.prim_func
        def main(A: T.Tensor((4,), T.float32)):
            N = T.const("N")
            with T.Kernel(N, threads=32):
                A[0] = 1

    fails(
        constant_in_prim_func, errors.SemanticsError, "nothing gives it a value", at='T.const("N")'
    )
    fails(lambda: T.const("N"), errors.UserError, "T.const")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "takes a shape and a dtype"),
        (((4,), T.float32, 3), "takes a shape and a dtype"),
        ((4, -1), "-1 of a tensor is not an integer of at least 0"),
        (((4, 2.5),), "2.5 of a tensor is not an integer of at least 0"),
        (((4,), "float33"), "unknown data type 'float33'"),
    ],
)
def test_wrong_arguments_of_empty(arguments, text):
    @tilelang.jit
    def function(A):
        A: T.Tensor((4, 4), T.float32)
        B = T.empty(*arguments)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1
        return B

    fails(lambda: function(A4), errors.CompileError, text, at="T.empty(*arguments)")


@pytest.mark.parametrize("names", ["", "M, 2", "M-N"])
def test_wrong_names_of_constants(names):
    @tilelang.jit
    def function(A):
        M = T.const(names)
        A: T.Tensor((M, M), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    fails(
        lambda: function(A4),
        errors.SemanticsError,
        "needs names of dimensions",
        at="T.const(names)",
    )


def test_wrong_declarations():
    @tilelang.jit
    def undeclared(A, B):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = B[0, 0]

    fails(
        lambda: undeclared(A4, A4),
        errors.SemanticsError,
        "a tensor is passed for B, but undeclared does not declare it",
        "B: T.Tensor((M, N), dtype)",
        at="B",
    )

    @tilelang.jit
    def early(A):
        with T.Kernel(1, threads=32):
            A[0, 0] = 1
        A: T.Tensor((4, 4), T.float32)

    fails(
        lambda: early(A4),
        errors.SemanticsError,
        "parameter A is used before it is declared",
        at="A[0, 0]",
    )

    @tilelang.jit
    def again(A):
        A: T.Tensor((4, 4), T.float32)
        A: T.Tensor((4, 4), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    fails(lambda: again(A4), errors.SemanticsError, "declared here, but has a value already")

    @tilelang.jit
    def other(A):
        A: T.Tensor((4, 4), T.float32)
        C: T.Tensor((4, 4), T.float32)  # noqa: F842
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    fails(
        lambda: other(A4),
        errors.UnsupportedSyntaxError,
        "`C` is declared here, but is no parameter",
        "T.empty",
        at="C: T.Tensor",
    )

    @tilelang.jit
    def no_type(A):
        A: "a matrix"  # noqa: F722
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    fails(lambda: no_type(A4), errors.DTypeError, "neither a tensor nor a scalar type", at="A")


@pytest.mark.parametrize("factory", [T.Tensor, T.StridedTensor])
def test_a_declaration_without_a_shape(factory):
    @tilelang.jit
    def function(A):
        A: factory
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    text = f"parameter A is declared as {factory!r}, without a shape and a type"
    fails(
        lambda: function(A4),
        errors.ShapeError,
        text,
        f"write A: {factory!r}((M, N)",
        at="A: factory",
    )

    def in_prim_func():
        @T.prim_func
        def main(A: factory):
            with T.Kernel(1, threads=32):
                A[0, 0] = 1

    fails(in_prim_func, errors.ShapeError, text)


def test_a_declaration_that_depends_on_what_it_determines():
    @tilelang.jit
    def circular(A, B):
        N = T.const("N")
        A: T.Tensor((N, N), T.float32)
        if N > 4:
            B: T.Tensor((N,), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    fails(
        lambda: circular(A4, A4),
        errors.ScopeError,
        "parameter B is declared under control flow that is not known yet",
        "no T.const",
        at="B: T.Tensor((N,), T.float32)",
    )


def test_a_macro_that_declares():
    @T.macro
    def store(A):
        A: T.Tensor((4, 4), T.float32)
        A[0, 0] = 1

    @tilelang.jit
    def function(A):
        A: T.Tensor((4, 4), T.float32)
        with T.Kernel(1, threads=32):
            store(A)

    fails(
        lambda: function(A4),
        errors.UnsupportedSyntaxError,
        "parameter A of a macro is declared in its body",
        at="A: T.Tensor",
    )


def test_variable_parameters():
    @tilelang.jit
    def function(*tensors):
        with T.Kernel(1, threads=32):
            pass

    fails(
        lambda: function(A4),
        errors.UnsupportedSyntaxError,
        "a kernel has a fixed number of parameters",
    )


def test_a_function_without_source():
    text = "def function(A):\n    M = T.const('M')\n    with T.Kernel(M): pass\n"
    names = {"T": T}
    exec(text, names)
    fails(
        lambda: tilelang.jit(names["function"]),
        errors.UnsupportedSyntaxError,
        "the source of function 'function' cannot be read",
        "not through exec",
    )


def test_out_idx():
    def function(A):
        A: T.Tensor((4, 4), T.float32)
        with T.Kernel(1, threads=32):
            A[0, 0] = 1

    fails(
        lambda: tilelang.jit(function, out_idx=[-1]),
        errors.ConfigError,
        "out_idx=[-1] for function, whose body is the kernel",
        "T.empty",
    )
    assert issubclass(errors.ConfigError, ValueError)
