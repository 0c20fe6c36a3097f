"""What works in Python, NumPy or torch, and not in a kernel; sums that threads would lose."""

import numpy as np
import pytest
import torch
from wrong_kernels import cases, check

import tilelang
import tilelang.language as T
from tilelang import errors

N = 64


def compiled(func):
    return tilelang.compile(func, target="sm_90a")


def case_no_kernel():
    """ScopeError: main launches no kernel, because it has no T.Kernel block ... T.Kernel(...)"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        pass

    compiled(main)


def case_a_store_before_the_kernel():
    """ScopeError: A (float32[64] in global memory) is written outside of `with T.Kernel(...)`"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        A[0] = 1  # WRONG
        with T.Kernel(1, threads=N):
            A[1] = 2

    compiled(main)


def case_an_element_of_a_tensor_of_torch():
    """SemanticsError: valid indices (got Var) ... is passed to the kernel: A: T.Tensor(shape"""
    weights = torch.randn(N)

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                A[i] = weights[i]  # WRONG


def case_a_copy_of_a_tensor_of_torch():
    """SemanticsError: src of T.copy is Tensor of shape (64,); expected a buffer ... is passed to"""
    weights = torch.randn(N)

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            T.copy(weights, A)  # WRONG


def case_a_list_by_a_value_of_the_run():
    """UnsupportedSyntaxError: `i` is known only when the kernel runs ... for n, value in"""
    values = [1.0, 2.0, 3.0]

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            for i in T.serial(3):
                A[i] = values[i]  # WRONG


def case_function_of_numpy():
    """SemanticsError: does not support ufuncs ... of elements, use the functions of T"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[0] = np.exp(A[1])  # WRONG


def case_sum_of_tiles():
    """SemanticsError: for +: 'Buffer' and 'Buffer' ... for i, j in T.Parallel(M, N): C[i, j]"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            a = T.alloc_fragment((N,), "float32")
            T.copy(a + a, A)  # WRONG


def case_method_of_a_tensor():
    """UnknownNameError: 'Buffer' object has no attribute 'reshape' ... write T.reshape(buffer"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A.reshape(8, 8)[0, 0] = 1  # WRONG


def case_product_of_tiles():
    """SemanticsError: for @: 'Buffer' and 'Buffer' ... T.gemm(A, B, C)"""

    @T.prim_func
    def main(A: T.Tensor((N, N), "float32")):
        with T.Kernel(1, threads=N):
            T.copy(A @ A, A)  # WRONG


def case_function_of_a_tile():
    """DTypeError: got Buffer `A (float32[64] in global memory)` ... element by element in
    T.Parallel
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[0] = T.sqrt(A)  # WRONG


def case_another_method_of_a_tensor():
    """UnknownNameError: no attribute 'numel' ... .shape, .dtype, .scope and .ndim"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[0] = A.numel()  # WRONG


def case_name_of_another_language():
    """UnknownNameError: T.program_id does not exist ... with T.Kernel(n) as bx"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[T.program_id(0)] = 0  # WRONG


def case_name_of_a_file():
    """SemanticsError: 'module' object is not callable ... as T.gemm"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            T.dot(A, A)  # WRONG


def case_text_in_an_element():
    """DTypeError: element `A[0]` of float32 cannot hold text, 'A[1]' ... T.print"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[0] = f"{A[1]}"  # WRONG


def case_text_as_an_initial_value():
    """DTypeError: text, `"inf"`, is no value of type float32 ... T.infinity("float32")"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            most = T.alloc_var("float32", init="inf")  # WRONG
            A[0] = most


def case_text_to_fill_with():
    """DTypeError: text, `"0"`, is no value of type float32"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            T.fill(A, "0")  # WRONG


def case_a_number_that_bytes_do_not_hold():
    """DTypeError: 300 is no value of type int8, which goes from -128 to 127 ... wraps it to 44"""

    @T.prim_func
    def main(A: T.Tensor((N,), "int8")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                A[i] = 300  # WRONG


def case_a_tile_of_a_number_that_bytes_do_not_hold():
    """DTypeError: 256 is no value of type uint8, which goes from 0 to 255"""

    @T.prim_func
    def main(A: T.Tensor((N,), "uint8")):
        with T.Kernel(1, threads=N):
            T.fill(A, 256)  # WRONG


def case_text_on_one_side_of_a_choice():
    """DTypeError: text, `"none"`, is no value of type float32"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[0] = T.if_then_else(A[1] > 0, "none", A[2])  # WRONG


def case_initial_value_of_more_bits():
    """DTypeError: 1099511627776 is no value of type int32 ... take a wider type"""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            big = T.alloc_var("int32", init=2**40)  # WRONG
            A[0] = big


def case_key_of_a_dict():
    """UnsupportedSyntaxError: `A[1]` is known only when the kernel runs; it is no key of a dict"""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            A[0] = {1: 2}[A[1]]  # WRONG


def case_rounding():
    """SemanticsError: __round__ ... T.round"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            A[0] = round(A[1])  # WRONG


def case_exceptions():
    """UnsupportedSyntaxError: try/except cannot be used ... `if`, or T.device_assert"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            try:  # WRONG
                A[0] = 1
            except IndexError:
                A[0] = 2


def case_a_sum_over_iterations():
    """SemanticsError: that differ in i update one element of total ... T.reduce_sum ...
    T.alloc_reducer, or T.atomic_add ... T.serial run over i
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32):
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for i in T.Parallel(N):
                total[0] += A[i]  # WRONG
            T.copy(total, B)

    compiled(main)


def case_a_maximum_of_rows_in_shared_memory():
    """SemanticsError: that differ in j update one element of top"""

    @T.prim_func
    def main(A: T.Tensor((16, N), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            top = T.alloc_shared((16,), "float32")
            T.fill(top, -T.infinity("float32"))
            for i, j in T.Parallel(16, N):
                row = i
                top[row] = T.max(A[i, j], top[i])  # WRONG
            T.copy(top, B)

    compiled(main)


def case_a_count_in_a_tensor():
    """SemanticsError: that differ in _i update one element of B"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as block:
            for _i in T.Parallel(N):
                if A[block] > 0:
                    B[block] = B[block] + 1  # WRONG

    compiled(main)


def case_a_sum_over_as_many_rows_as_there_are():
    """SemanticsError: that differ in i update one element of B"""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 4), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, 4):
                B[j] = B[j] + A[i, j]  # WRONG

    compiled(main)


def case_a_sum_over_even_rows():
    """SemanticsError: that differ in i update one element of B"""

    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(N, 4):
                if i % 2 == 0:
                    B[j] += A[i, j]  # WRONG

    compiled(main)


def case_values_of_all_iterations_but_one():
    """SemanticsError: that differ in i write different values to one element of B"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((4,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                if i != n:
                    B[i // N] = A[i]  # WRONG

    compiled(main)


def case_values_of_many_iterations_in_one_register():
    """SemanticsError: that differ in j write different values to one element of last ...
    under a condition on j ... T.serial run over j
    """

    @T.prim_func
    def main(A: T.Tensor((16, N), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            last = T.alloc_fragment((16,), "float32")
            for i, j in T.Parallel(16, N):
                last[i] = A[i, j]  # WRONG
            T.copy(last, B)

    compiled(main)


def case_values_of_many_iterations_in_one_place():
    """SemanticsError: that differ in i write different values to one element of B"""

    @T.prim_func
    def main(B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as block:
            for i in T.Parallel(N):
                value = i * 2
                B[block] = value  # WRONG

    compiled(main)


def case_a_shift_by_all_bits():
    """SemanticsError: A[1] << 32: int32 is shifted by 0 to 31 ... to a wider type"""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = A[1] << 32  # WRONG


def case_a_shift_by_less_than_nothing():
    """SemanticsError: A[1] >> -1: int8 is shifted by 0 to 7"""

    @T.prim_func
    def main(A: T.Tensor((N,), "int8")):
        with T.Kernel(1, threads=32):
            A[0] = A[1] >> -1  # WRONG


def case_block_indices_in_one_name():
    """DTypeError: is not an integer ... name each of several: `as (bx, by)`"""

    @T.prim_func
    def main(A: T.Tensor((N,), "uint8")):
        with T.Kernel(2, 2, threads=32) as block:
            A[block] = 1  # WRONG


def case_a_tensor_reversed_in_place():
    """SemanticsError: reads element (63) of A, which another iteration writes"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                A[i] = A[N - 1 - i]  # WRONG

    compiled(main)


@cases(globals())
def test_wrong_habit(case):
    check(case)


def test_one_iteration_may_update_an_element():
    @T.prim_func
    def main(A: T.Tensor((16, N), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            first = T.alloc_shared((16,), "float32")
            T.fill(first, 1)
            for i, j in T.Parallel(16, N):
                if j == 3:
                    first[i] += A[i, j]
            T.copy(first, B)

    a, b = torch.randn(16, N), torch.zeros(16)
    compiled(main)(a, b)
    torch.testing.assert_close(b, a[:, 3] + 1)


def test_sizes_are_no_tensors():
    @tilelang.jit(target="sm_90a")
    def build(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=N):
                A[0] = 0

        return main

    with pytest.raises(errors.ShapeError) as caught:
        build(torch.randn(N))
    text = str(caught.value)
    assert "extent Tensor of shape (64,)" in text
    assert "the kernel that it gives is called with tensors" in text
