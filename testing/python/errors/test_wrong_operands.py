"""Operands of the wrong rank, shape, type, memory or bounds."""

from wrong_kernels import cases, check

import tilelang.language as T

M, N, K = 128, 96, 64
LAYOUT = T.Layout((64, 32), lambda i, j: i * 32 + j)


def case_rank_of_an_index():
    """ShapeError: 3 indices for A (float16[128, 96] in global memory), which has 2 dimensions"""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1) as bx:
            A[bx, 0, 0] = 1  # WRONG


def case_too_few_indices():
    """ShapeError: `A[0, 0:96]` is a region of shape (1, 96), not an element"""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1):
            A[0, 0] = A[0] + 1  # WRONG


def case_constant_index_outside():
    """BoundsError: index 128 is out of bounds: dimension 0 of S (float32[128] ... has extent 128"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((128,), "float32")
            A[0] = S[128]  # WRONG


def case_atomic_on_a_narrow_type():
    """DTypeError: T.atomic_max does not support int16: no GPU has atomic operations on this type"""

    @T.prim_func
    def main(A: T.Tensor((M,), "int16")):
        with T.Kernel(1):
            T.atomic_max(A[0], 1)  # WRONG


def case_atomic_on_a_tile_of_a_narrow_type():
    """DTypeError: T.atomic_add does not support uint8 ... int32, uint32 or float32"""

    @T.prim_func
    def main(A: T.Tensor((M,), "uint8")):
        with T.Kernel(1):
            S = T.alloc_shared((M,), "uint8")
            T.fill(S, 1)
            T.atomic_add(A, S)  # WRONG


def case_atomic_on_pairs_of_a_narrow_type():
    """DTypeError: T.atomic_addx2 does not support int16"""

    @T.prim_func
    def main(A: T.Tensor((M,), "int16")):
        with T.Kernel(1):
            T.atomic_addx2(A[0], A[2])  # WRONG


def case_bits_of_a_type_without_arithmetic():
    """DTypeError: T.atomic_or does not support float8_e8m0fnu"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float8_e8m0fnu")):
        with T.Kernel(1):
            T.atomic_or(A, 1)  # WRONG


def case_negative_index():
    """BoundsError: index -129 is out of bounds ... negative indices count from the end:
    -1 to -128
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            A[0] = A[-M - 1]  # WRONG


def case_slice_outside():
    """BoundsError: slice 128:224 is out of bounds: dimension 0 of A ... has extent 128"""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1):
            S = T.alloc_shared((96, 96), "float16")
            T.copy(A[M : M + 96, :], S)  # WRONG


def case_slice_with_a_step():
    """UnsupportedSyntaxError: slice with step 2 of A"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            S = T.alloc_shared((64,), "float16")
            T.copy(A[0:128:2], S)  # WRONG


def case_empty_slice():
    """BoundsError: slice 8:8 of dimension 0 of A ... is empty"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            T.clear(A[8:8])  # WRONG


def case_float_index():
    """DTypeError: index `float32(bx) / float32(2)` of A ... has type float32 ... divide integers"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            A[bx / 2] = 0  # WRONG


def case_copy_of_different_shapes():
    """ShapeError: T.copy: the source has shape (64, 32), but the destination has shape (64, 64) ...
    A_shared (float16[64, 32] in shared memory)
    """

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((64, 64), "float16")
            T.copy(A_shared, B_shared)  # WRONG


def case_copy_of_a_number():
    """SemanticsError: src of T.copy is int `3`; expected a buffer, a slice of one"""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1):
            T.copy(3, A)  # WRONG


def case_corner_of_too_low_rank():
    """ShapeError: a tile of shape (64, 32) at `A[0]`: A (float16[128] in global memory) has
    only 1
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            S = T.alloc_shared((64, 32), "float16")
            T.copy(A[0], S)  # WRONG


def case_gemm_shapes():
    """ShapeError: A has K = 64, but B has K = 32 ... C (M, N) += A (M, K) @ B (K, N)"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            X = T.alloc_shared((128, 64), "float16")
            Y = T.alloc_shared((32, 128), "float16")
            Z = T.alloc_fragment((128, 128), "float32")
            T.gemm(X, Y, Z)  # WRONG


def case_gemm_without_result():
    """SemanticsError: gemm() missing 1 required positional argument: 'C'"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            X = T.alloc_shared((128, 64), "float16")
            T.gemm(X, X)  # WRONG


def case_unknown_argument():
    """SemanticsError: copy() got an unexpected keyword argument 'stages'"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16"), B: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            T.copy(A, B, stages=2)  # WRONG


def case_reduce_output_shape():
    """ShapeError: T.reduce_sum of (64, 32) along dimension 1 gives (64), but s has shape (32)"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            x = T.alloc_fragment((64, 32), "float32")
            s = T.alloc_fragment((32,), "float32")
            T.reduce_sum(x, s, dim=1)  # WRONG


def case_partial_results_that_do_not_divide():
    """ShapeError: T.reduce_sum of (64, 32) along dimension 1 gives (64), but s has shape (64, 5)"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            x = T.alloc_fragment((64, 32), "float32")
            s = T.alloc_fragment((64, 5), "float32")
            T.reduce_sum(x, s, dim=1)  # WRONG


def case_reduce_dimension():
    """ShapeError: dim=2 of a reduction of x, which has 2 dimensions ... dim must be from -2 to 1"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            x = T.alloc_fragment((64, 32), "float32")
            s = T.alloc_fragment((64,), "float32")
            T.reduce_max(x, s, dim=2)  # WRONG


def case_bit_reduction_of_floats():
    """DTypeError: T.reduce_bitor of float32 into float32: bit operations take integers"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            x = T.alloc_fragment((64, 32), "float32")
            s = T.alloc_fragment((64,), "float32")
            T.reduce_bitor(x, s)  # WRONG


def case_bits_of_integers_into_floats():
    """DTypeError: T.reduce_bitor of int32 into float32: bit operations take integers"""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16")):
        with T.Kernel(1):
            x = T.alloc_fragment((64, 32), "int32")
            s = T.alloc_fragment((64,), "float32")
            T.reduce_bitor(x, s)  # WRONG


def case_unknown_dtype():
    """DTypeError: unknown data type 'flaot16' ... did you mean float16"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            T.alloc_shared((64,), "flaot16")  # WRONG


def case_unsupported_dtype():
    """UnsupportedError: data type float8_e3m4 is not supported"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            T.alloc_shared((64,), "float8_e3m4")  # WRONG


def case_bit_operation_on_floats():
    """DTypeError: operator & takes integers, got float16 and float16"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            A[0] = A[1] & A[2]  # WRONG


def case_reinterpret_size():
    """DTypeError: T.reinterpret cannot read float16 (16 bits) as uint32 (32 bits)"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16"), B: T.Tensor((M,), "uint32")):
        with T.Kernel(1):
            B[0] = T.reinterpret(A[0], "uint32")  # WRONG


def case_reinterpret_as_a_vector_of_another_size():
    """DTypeError: float64 (64 bits) as float16x2"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float64"), B: T.Tensor((M,), "float16")):
        with T.Kernel(1):
            B[0:2] = T.reinterpret(T.float16x2, A[0])  # WRONG


def case_division_by_zero():
    """SemanticsError: division by the constant zero in bx // 0"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16")):
        with T.Kernel(4) as bx:
            A[bx // 0] = 0  # WRONG


def case_symbolic_tile():
    """ShapeError: extent `n` of T.alloc_fragment((n)) is not a constant integer"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float16"), n: T.int32):
        with T.Kernel(1):
            S = T.alloc_fragment((n,), "float16")  # WRONG
            T.copy(A, S)


def case_strides_of_another_rank():
    """ShapeError: 1 strides for a tensor of rank 2"""
    T.StridedTensor((M, N), (N,), "float32")


def case_negative_extent():
    """ShapeError: extent -4 of a tensor is not an integer of at least 0"""
    T.Tensor((M, -4), "float32")


def case_barrier_operand():
    """ScopeError: T.mbarrier_arrive must be a barrier, got `A[0]` ... T.alloc_barrier"""

    @T.prim_func
    def main(A: T.Tensor((M,), "uint64")):
        with T.Kernel(1):
            T.mbarrier_arrive(A[0])  # WRONG


def case_barrier_array_as_one():
    """ShapeError: T.mbarrier_wait_parity must be one barrier, but bars is an array of 2 ...
    bars[i]
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "uint64")):
        with T.Kernel(1):
            bars = T.alloc_barrier([1, 1])
            T.mbarrier_wait_parity(bars, 0)  # WRONG


def case_layout_of_another_shape():
    """LayoutError: T.annotate_layout of S (float16[64, 64] ... has shape (64, 32)"""

    @T.prim_func
    def main(A: T.Tensor((M,), "uint64")):
        with T.Kernel(1):
            S = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({S: LAYOUT})  # WRONG


def case_two_elements_in_one_place():
    """LayoutError: the layout of S (float16[128] in shared memory) puts two elements in one place:
    both [0] and [64] map to 0
    """

    @T.prim_func
    def main(A: T.Tensor((M,), "uint64")):
        with T.Kernel(1):
            S = T.alloc_shared((128,), "float16")
            T.annotate_layout({S: T.Layout((128,), lambda i: i % 64)})  # WRONG


def case_place_far_away():
    """LayoutError: the layout of S (float16[128] in shared memory) reaches place 127000000000"""

    @T.prim_func
    def main(A: T.Tensor((M,), "uint64")):
        with T.Kernel(1):
            S = T.alloc_shared((128,), "float16")
            T.annotate_layout({S: T.Layout((128,), lambda i: i * 10**9)})  # WRONG


def case_element_of_a_tile_value():
    """ShapeError: `A[0]` is one element, but S on the right has several"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((64,), "float32")
            A[0] = S  # WRONG


def case_index_of_an_index():
    """ShapeError: `A[0, 0:96]` is already a part of A (float16[128, 96] in global memory)
    ... give all indices at once: A[i, j]
    """

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(1):
            A[0, 0] = A[0][1]  # WRONG


def case_shared_parameter():
    """ScopeError: parameter S must be in global memory, got scope 'shared'"""

    @T.prim_func
    def main(
        A: T.Tensor((M,), "float16"),
        S: T.SharedBuffer((M,), "float16"),  # WRONG
    ):
        with T.Kernel(1):
            T.copy(A, S)


def case_tile_operator_in_parallel():
    """ScopeError: T.transpose inside T.Parallel or T.vectorized ... before or after the loop"""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((N, M), "float16")):
        with T.Kernel(1):
            for _ in T.Parallel(M):
                T.transpose(A, B)  # WRONG


def case_atomic_on_a_fragment():
    """ScopeError: T.atomic_add on x (float32[128] in a fragment): atomic operations need global"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1):
            x = T.alloc_fragment((M,), "float32")
            T.atomic_add(x[0], A[0])  # WRONG


def case_warpgroup_that_is_not_there():
    """SemanticsError: T.ws(2,): the block has 2 warpgroups of 128 threads"""

    @T.prim_func
    def main(A: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=256), T.ws(2):  # WRONG
            A[0] = 0


@cases(globals())
def test_wrong_kernel(case):
    check(case)
