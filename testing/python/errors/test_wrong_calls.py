"""Calls with arguments that a name does not have, and names of Python and torch in kernels."""

import math

import pytest
import torch
from wrong_kernels import cases, check

import tilelang
import tilelang.language as T
from tilelang import errors

N = 64


def case_unknown_argument_of_kernel():
    """SemanticsError: Kernel() got an unexpected keyword argument 'thread' ... its arguments are
    *blocks, threads=, prelude=, cluster_dims=
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, thread=64):  # WRONG
            A[0] = 0


def case_unknown_argument_of_copy():
    """SemanticsError: copy() got an unexpected keyword argument 'num_stages' ... its arguments are
    src, dst
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((N,), "float32")
            T.copy(A, tile, num_stages=2)  # WRONG


def case_unknown_argument_of_gemm():
    """SemanticsError: T.gemm has no argument 'trans_B' ... its arguments are A, B, C, transpose"""

    @T.prim_func
    def main(A: T.Tensor((N, N), "float16")):
        with T.Kernel(1):
            a = T.alloc_shared((N, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            T.gemm(a, a, c, trans_B=True)  # WRONG


def case_unknown_argument_of_pipelined():
    """SemanticsError: T.Pipelined has no argument 'stages' ... num_stages"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            for k in T.Pipelined(3, stages=2):  # WRONG
                A[k] = 0


def case_missing_argument():
    """SemanticsError: alloc_shared() missing 1 required positional argument: 'dtype' ... its
    arguments are shape, dtype, scope
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.copy(A, T.alloc_shared((N,)))  # WRONG


def case_missing_argument_of_a_macro():
    """SemanticsError: macro fill_with: missing a required argument: 'value' ... A, value"""

    @T.macro
    def fill_with(A, value):
        A[0] = value

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            fill_with(A)  # WRONG


def case_more_indices_than_the_grid_has():
    """SemanticsError: not enough values to unpack (expected 3, got 2)"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, 2) as (bx, by, bz):  # WRONG
            A[bx + by + bz] = 0


def case_function_of_torch():
    """SemanticsError: must be Tensor, not Load ... functions of torch take tensors ... use T.exp"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            A[0] = torch.exp(A[1])  # WRONG


def case_function_of_math():
    """UnsupportedSyntaxError: cannot become a Python float ... functions of math are T.sqrt"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            A[0] = math.sqrt(A[1])  # WRONG


def case_gemm_of_a_shape_known_at_run_time():
    """ShapeError: A of T.gemm has shape (n, 32); the shape of a matrix must be constant ... T.copy
    a tile
    """
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 32), "float16")):
        with T.Kernel(1):
            b = T.alloc_shared((32, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            T.gemm(A, b, c)  # WRONG


def case_name_of_another_language():
    """DTypeError: unknown data type 'fp16' ... did you mean float16?"""

    @T.prim_func
    def main(A: T.Tensor((N,), "fp16")):  # WRONG
        with T.Kernel(1):
            A[0] = 0


def case_type_of_another_language():
    """UnknownNameError: T.bf16 does not exist ... did you mean T.bfloat16?"""

    @T.prim_func
    def main(A: T.Tensor((N,), T.bf16)):  # WRONG
        with T.Kernel(1):
            A[0] = 0


def case_extent_of_a_float():
    """DTypeError: T.float32() without a value is a variable for extents ... T.alloc_var"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            x = T.float32()  # WRONG
            A[0] = x


def case_index_too_far_from_the_end():
    """BoundsError: index -65 is out of bounds ... negative indices count from the end: -1 to -64"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            A[-N - 1] = 0  # WRONG


def case_slice_of_a_tile_beyond_it():
    """BoundsError: slice 32:96 is out of bounds: dimension 0 of tile"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((N,), "float32")
            T.copy(A, tile[32:96])  # WRONG


@cases(globals())
def test_wrong_call(case):
    check(case)


@T.prim_func
def first_is_one(A: T.Tensor((N,), "float32")):
    with T.Kernel(1):
        A[0] = 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tilelang.jit(num_stages=3), "its arguments are func, out_idx=, target="),
        (lambda: tilelang.compile(first_is_one, targets="sm_80"), "out_idx, execution_backend"),
        (lambda: tilelang.compile(lambda: 0), "not function; call the function that returns"),
        (lambda: tilelang.lower(3), "expected a function decorated with @T.prim_func, not int"),
        (
            lambda: tilelang.lower(tilelang.tvm.IRModule({"a": first_is_one, "b": first_is_one})),
            r"the module holds 2 functions \(a, b\)",
        ),
    ],
)
def test_wrong_arguments_outside_of_kernels(call, message):
    with pytest.raises(errors.ArgumentError, match=message):
        call()


def test_two_dimensions_of_one_name():
    @T.prim_func
    def main(
        A: T.Tensor((T.dynamic("n") * T.dynamic("k"),), "float32"),
        B: T.Tensor((T.dynamic("n"), T.dynamic("k")), "float32"),
    ):
        with T.Kernel(B.shape[0], threads=32) as row:
            for i in T.Parallel(B.shape[1]):
                B[row, i] = A[row * B.shape[1] + i]

    with pytest.raises(errors.ArgumentError, match=r'two T.dynamic\("n"\) are two dimensions'):
        tilelang.compile(main, target="sm_90a")


def test_a_prim_func_says_how_to_call_its_kernel():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[T.get_thread_binding()] = 0

    with pytest.raises(
        errors.SemanticsError, match=r"(?s)main is a T\.prim_func.*tilelang\.compile"
    ):
        main(torch.zeros(N))
