"""Programs that break the rules of the language: names, statements, control flow, launches."""

from wrong_kernels import cases, check

import tilelang.language as T
from tilelang import errors
from tilelang.transform import run_pass

M, N, K = 128, 96, 64


def case_unknown_language_name():
    """UnknownNameError: T.alloc_shard does not exist ... did you mean T.alloc_shared"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            S = T.alloc_shard((64,), "float16")  # WRONG
            T.copy(A, S)


def case_unsupported_language_name():
    """UnsupportedError: T.wgmma_gemm_sp is not supported by this version ... use T.gemm_sp"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            T.wgmma_gemm_sp(A, A, A, A)  # WRONG


def case_unknown_python_name():
    """UnknownNameError: name 'block_size' is not defined"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(block_size) as bx:  # WRONG  # noqa: F821
            A[bx] = 0


def case_use_before_assignment():
    """SemanticsError: `x` is used before it is assigned"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            A[bx] = x  # WRONG  # noqa: F821
            x = 1
            x = 2
            A[bx] = x


def case_too_many_threads():
    """ResourceError: threads=(64, 32) asks for 2048 threads; a block has at most 1024"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1, threads=(64, 32)) as bx:  # WRONG
            A[bx] = 0


def case_symbolic_threads():
    """ResourceError: threads=n of T.Kernel: the number of threads is a constant positive"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16"), n: T.int32):
        with T.Kernel(1, threads=n) as bx:  # WRONG
            A[bx] = 0


def case_negative_grid_extent():
    """ShapeError: grid extent -1 is negative"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1, 2, 3, -1):  # WRONG
            A[0] = 0


def case_one_thread_too_many():
    """ResourceError: threads=(5, 205) asks for 1025 threads; a block has at most 1024"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1, threads=(5, 205)):  # WRONG
            A[0] = 0


def case_nested_kernels():
    """ScopeError: T.Kernel inside another T.Kernel"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1), T.Kernel(1):  # WRONG
            A[0] = 0


def case_outside_of_a_kernel():
    """ScopeError: T.copy is outside of `with T.Kernel(...)`"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16"), B: T.Tensor((M,), "float16")):
        T.copy(A, B)  # WRONG


def case_try():
    """UnsupportedSyntaxError: try/except cannot be used in a kernel"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            try:  # WRONG
                A[0] = 0
            except ValueError:
                A[1] = 0


def case_walrus_under_a_condition():
    """UnsupportedSyntaxError: the walrus operator `:=` cannot be used in a kernel ... evaluated
    under a condition ... assign in a statement of its own
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            if bx > 2 and (y := bx + 1) < 4:  # WRONG
                A[bx] = y


def case_pattern_that_takes_a_value_apart():
    """UnsupportedSyntaxError: match cannot be used in a kernel ... values, `|`, a name and `_`"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            match (bx, 1):  # WRONG
                case (x, 1):
                    A[x] = 0


def case_loop_else():
    """UnsupportedSyntaxError: `else` of a loop cannot be used in a kernel ... left = T.alloc_var"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            for i in range(4):
                A[i] = 0
            else:
                A[5] = 1  # WRONG


def case_return_in_a_loop():
    """UnsupportedSyntaxError: return under a condition known only at run time, in T.serial ...
    leave a loop by `break`
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            for i in range(4):
                if bx > i:
                    return  # WRONG
                A[bx] = 0


def case_returned_value():
    """SemanticsError: A is an argument of main: the caller has it already"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            A[bx] = 0
        return A  # WRONG


def case_break_in_parallel():
    """ScopeError: break cannot be used in a T.Parallel loop"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            for i in T.Parallel(M):
                if A[i] > 0:
                    break  # WRONG


def case_nested_parallel():
    """ScopeError: T.Parallel cannot stand inside T.Parallel"""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1):
            for i in T.Parallel(M):
                A[i, 0] = 1
                for j in T.Parallel(N):  # WRONG
                    A[i, j] = 0


def case_scalar_carried_by_parallel():
    """SemanticsError: scalar `s` is carried from one iteration of T.Parallel to another ...
    T.reduce_sum
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            s = 0.0
            for i in T.Parallel(M):  # WRONG
                s = s + A[i]
            A[0] = s


def case_value_out_of_its_loop():
    """SemanticsError: `x` got its value inside a T.serial loop and has none after it ... x =
    T.alloc_var
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            for i in range(4):
                x = A[i]
            A[0] = x  # WRONG


def case_a_tile_of_another_kernel():
    """SemanticsError: the tile `s` was allocated inside a T.Kernel block and is gone after it ...
    s = T.alloc_global(shape, dtype)
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((M,), "float32")
            T.copy(A, s)
        with T.Kernel(1):
            T.copy(s, A)  # WRONG


def case_value_of_one_branch():
    """SemanticsError: `x` got its value inside a branch ... x = T.alloc_var"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(4) as bx:
            if bx > 1:
                x = A[bx]
            A[0] = x  # WRONG


def case_buffers_swapped_in_a_loop():
    """SemanticsError: `cur` is assigned something else in a T.serial loop and used again"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            cur = T.alloc_shared((M,), "float32")
            other = T.alloc_shared((M,), "float32")
            for _ in range(4):  # WRONG
                T.copy(A, cur)
                cur, other = other, cur


def case_type_of_a_carried_scalar():
    """DTypeError: `s` starts as int32 and is then assigned a float32 value ... s =
    T.alloc_var("float32
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            s = 0
            for i in range(4):
                s = s + A[i]  # WRONG
            A[0] = s


def case_python_decision_on_a_kernel_value():
    """UnsupportedSyntaxError: `bx == 1` is known only when the kernel runs; it cannot decide
    Python's
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(8) as bx:
            A[[1, 2].index(bx)] = 0  # WRONG


def case_kernel_value_as_python_integer():
    """UnsupportedSyntaxError: `bx` is known only when the kernel runs; it cannot be used as a
    Python
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(8) as bx:
            A[[1, 2][bx]] = 0  # WRONG


def case_effect_in_a_conditional_expression():
    """SemanticsError: an operation with an effect cannot stand in an operand"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(8) as bx:
            A[0] = T.atomic_add(A[1], 1, return_prev=True) if bx > 3 else 0  # WRONG


def case_parameter_without_annotation():
    """UnsupportedSyntaxError: parameter B of main has no annotation ... B: T.Tensor"""

    @T.prim_func
    def main(
        A: T.Tensor((M,), "float32"),
        B,  # WRONG
    ):
        with T.Kernel(8) as bx:
            A[bx] = B[bx]


def case_parameter_with_a_wrong_annotation():
    """DTypeError: parameter B has annotation `[1, 2]`, which is neither a tensor nor"""

    @T.prim_func
    def main(
        A: T.Tensor((M,), "float32"),
        B: [1, 2],  # WRONG
    ):
        with T.Kernel(8) as bx:
            A[bx] = B


def case_sync_in_parallel():
    """ScopeError: T.sync_threads under a condition or in a loop inside T.Parallel ... before or
    after the loop
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "uint64")):
        with T.Kernel(1):
            for i in T.Parallel(M):
                if A[i] > 0:
                    T.sync_threads()  # WRONG


def case_language_loop_in_ordinary_python():
    """UnsupportedSyntaxError: T.serial cannot be iterated over here ... decorate ... with
    @T.macro
    """

    def helper(A):
        for i in T.serial(4):
            A[i] = 0

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            helper(A)  # WRONG


def case_statement_outside_of_tracing():
    """ScopeError: T.sync_threads is only meaningful inside a function decorated with
    @T.prim_func
    """
    T.sync_threads()


def case_error_in_a_macro():
    """ShapeError: T.copy: the source has shape (64), but the destination has shape (32) ... in
    macro move, called here
    """

    @T.macro
    def move(X, Y):
        T.copy(X, Y)  # WRONG

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            X = T.alloc_shared((64,), "float32")
            Y = T.alloc_shared((32,), "float32")
            move(X, Y)


def case_failed_assertion():
    """SemanticsError: assertion failed: M must be odd"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            assert M % 2 == 1, "M must be odd"  # WRONG
            A[0] = 0


def case_value_smuggled_out_of_a_loop():
    """ScopeError: variable x has no value here: the loop or block that defines it has ended"""

    @T.prim_func
    def main(A: T.Tensor((M,), "int32")):
        with T.Kernel(1):
            values = []
            for i in range(4):
                x = A[i] + 1
                values.append(x)
            A[0] = values[0]  # WRONG

    errors.boundary(run_pass)("check_program", main, "sm_100a")


def case_buffer_smuggled_out_of_a_branch():
    """ScopeError: S (int32[4] in shared memory) is used after the block that allocates it"""

    @T.prim_func
    def main(A: T.Tensor((M,), "int32")):
        with T.Kernel(1) as bx:
            tiles = {}
            if A[bx] > 3:
                S = T.alloc_shared((4,), "int32")
                tiles["S"] = S
            A[0] = tiles["S"][0]  # WRONG

    errors.boundary(run_pass)("check_program", main, "sm_100a")


@cases(globals())
def test_wrong_kernel(case):
    check(case)
