"""Programs that misuse views, narrow types, vectors, forms of TIR, reducers and copies by hand."""

from wrong_kernels import cases, check

import tilelang.language as T

N = 64


def case_reshape_to_another_size():
    """ShapeError: T.reshape of S (float32[64, 64] in shared memory) as float32[64, 32]: the
    view needs 65536 bits, but the buffer has 131072
    """

    @T.prim_func
    def main(A: T.Tensor((N, N), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((N, N), "float32")
            T.copy(A, T.reshape(S, (N, 32)))  # WRONG


def case_view_of_strided_memory():
    """UnsupportedError: T.view of A (float32[64, 64] in global memory): a view needs a whole
    contiguous buffer
    """

    @T.prim_func
    def main(A: T.StridedTensor((N, N), (128, 1), "float32")):
        with T.Kernel(1):
            V = T.view(A, (N * N,))  # WRONG
            V[0] = 0


def case_index_outside_of_a_view():
    """BoundsError: index 32 is out of bounds: dimension 0 of S (float32[32, 128] ... has extent
    32
    """

    @T.prim_func
    def main(A: T.Tensor((N, N), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((N, N), "float32")
            V = T.reshape(S, (32, 128))
            A[0, 0] = V[32, 0]  # WRONG


def case_odd_rows_of_four_bit_elements():
    """ShapeError: the last extent of A: int4[4, 63] must be a multiple of 2: 2 elements of 4 bits
    ...
    share a byte
    """

    @T.prim_func
    def main(A: T.Tensor((4, 63), "int4")):  # WRONG
        with T.Kernel(1):
            T.clear(A)


def case_odd_tile_of_four_bit_elements():
    """UnsupportedError: T.copy to `B[0:4, 1:33]`: 2 elements share one of memory; the tile starts
    and ends between them ... multiples of 2
    """

    @T.prim_func
    def main(B: T.Tensor((4, N), "uint4")):
        with T.Kernel(1):
            x = T.alloc_shared((4, 32), "uint4")
            T.copy(x, B[0:4, 1:33])  # WRONG


def case_vectors_of_different_lengths():
    """SemanticsError: vectors of 2 and 4 lanes"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            A[T.Ramp(0, 1, 4)] = A[T.Ramp(0, 1, 4)] + A[T.Ramp(8, 1, 2)]  # WRONG


def case_vector_of_another_size():
    """ShapeError: cannot assign 4 lanes to the 8 elements of `A[0:8]`"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            A[0:8] = A[T.Ramp(16, 1, 4)]  # WRONG


def case_wide_read_of_too_few_elements():
    """ShapeError: src of T.ldg128: `A[0:2]` is not 4 elements of float32 side by side"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            A[0:4] = T.ldg128(A[0:2])  # WRONG


def case_wide_read_of_parts_of_rows():
    """ShapeError: src of T.ldg128: `A[0:2, 0:2]` is not 4 elements of float32 side by side"""

    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32")):
        with T.Kernel(1):
            A[7, 0:4] = T.ldg128(A[0:2, 0:2])  # WRONG


def case_wide_write_of_a_column():
    """ShapeError: dst of T.stg128: `A[0:4, 1]` is not 4 elements of float32 side by side"""

    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32")):
        with T.Kernel(1):
            T.stg128(A[0:4, 1], T.ldg128(A[7, 0:4]))  # WRONG


def case_atomic_of_scattered_elements():
    """ShapeError: dst of T.atomic_addx2 must be adjacent elements of memory, but `<A[0], A[2]>` is
    not
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.atomic_addx2(A[T.Ramp(0, 2, 2)], A[8:10])  # WRONG


def case_wide_write_of_too_many_bits():
    """DTypeError: T.stg64 writes 64 bits, got 4 lanes of uint32"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.stg64(A[8], T.ldg128(A[0]))  # WRONG


def case_dot_product_of_floats():
    """DTypeError: T.dp4a requires int8 or uint8 to multiply and int32 or uint32 to add to"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float16"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            T.dp4a(A[0], A[4], C[0])  # WRONG


def case_launch_thread_in_a_kernel():
    """SemanticsError: T.launch_thread of 64 along threadIdx.x, where T.Kernel has 128"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            tx = T.launch_thread("threadIdx.x", N)  # WRONG
            A[tx] = 0


def case_dimension_that_does_not_exist():
    """SemanticsError: T.launch_thread binds one of blockIdx.x ... not 'vthread'"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        tx = T.launch_thread("vthread", N)  # WRONG
        A[tx] = 0


def case_dimension_bound_twice():
    """SemanticsError: threadIdx.x has the extent 64, and 32 here"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        tx = T.launch_thread("threadIdx.x", N)
        ty = T.launch_thread("threadIdx.x", 32)  # WRONG
        A[tx] = ty


def case_init_without_a_block():
    """ScopeError: T.init is outside of `with T.sblock(...)`"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1), T.init():  # WRONG
            A[0] = 0


def case_else_without_if():
    """ScopeError: T.Else is outside of `with T.If(...)`"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1), T.Else():  # WRONG
            A[0] = 0


def case_thread_reduction_without_an_operation():
    """SemanticsError: T.tvm_thread_allreduce without an operation ... T.attr(T.comm_reducer"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            r = T.alloc_local((1,), "float32")
            T.tvm_thread_allreduce(T.uint32(1), A[tx], True, r[0], tx)  # WRONG
            A[tx] = r[0]


def case_thread_reduction_over_no_thread():
    """SemanticsError: `i` of T.tvm_thread_allreduce is not the index of a thread"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            r = T.alloc_local((1,), "float32")
            T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", 0)
            for i in T.serial(4):
                T.tvm_thread_allreduce(T.uint32(1), A[i], True, r[0], i)  # WRONG


def case_match_buffer_of_a_scalar():
    """SemanticsError: `n` is no parameter of type T.handle"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), n: T.int32):
        B = T.match_buffer(n, (N,), "float32")  # WRONG
        with T.Kernel(1):
            A[0] = B[0]


def case_access_ptr_of_another_type():
    """DTypeError: T.tvm_access_ptr of float16 elements in A (float32[64] in global memory)"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.call_extern("void", "f", T.tvm_access_ptr("float16", A.data, 0, 1, 1))  # WRONG


def case_reducer_is_overwritten():
    """SemanticsError: `r[0]` of a reducer (sum) is assigned `A[0] * float32(2)`, which is no
    contribution to it ... write r[i] += x
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            r = T.alloc_reducer((N,), "float32")
            r[0] = A[0] * 2.0  # WRONG


def case_unknown_reducer():
    """SemanticsError: unknown operation 'mean' of T.alloc_reducer ... known: sum, max"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            r = T.alloc_reducer((N,), "float32", "mean")  # WRONG
            T.copy(r, A)


def case_tile_finalized_as_a_reducer():
    """SemanticsError: T.finalize_reducer of `x (float32[64] in shared memory)`, which
    T.alloc_reducer did not make
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((N,), "float32")
            T.finalize_reducer(x)  # WRONG
            T.copy(x, A)


def case_scheduler_of_one_number():
    """SemanticsError: T.PersistentTileScheduler takes the numbers of tiles along M and N"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(4):
            sched = T.PersistentTileScheduler(8)  # WRONG
            A[0] = sched.m_idx


def case_other_random_generator():
    """UnsupportedError: T.rng_init does not support generator='curandStateMtgp32_t' ... use one of
    'curandStatePhilox4_32_1_t'
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "uint32")):
        with T.Kernel(1):
            T.rng_init(0, generator="curandStateMtgp32_t")  # WRONG
            A[0] = T.rng_rand()


def case_tensor_at_a_short_address():
    """DTypeError: T.make_tensor: the address must have 64 bits, but `n` has type int32"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), n: T.int32):
        with T.Kernel(1):
            B = T.make_tensor(n, (N,), "float32")  # WRONG
            A[0] = B[0]


def case_asynchronous_copy_between_other_memories():
    """ScopeError: T.async_copy copies from global to shared memory, got S (float32[64] in shared
    memory) and A
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((N,), "float32")
            T.async_copy(S, A)  # WRONG


def case_asynchronous_copy_of_two_bytes():
    """SemanticsError: T.ptx_cp_async copies 4, 8, 16 bytes, got 2"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float16")):
        with T.Kernel(1):
            S = T.alloc_shared((N,), "float16")
            T.ptx_cp_async(T.access_ptr(S[0]), T.access_ptr(A[0]), 1)  # WRONG


def case_wait_for_groups_known_at_run_time():
    """SemanticsError: T.ptx_wait_group: the number of groups must be a constant of at least 0, got
    `n`
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), n: T.int32):
        with T.Kernel(1):
            T.ptx_wait_group(n)  # WRONG
            A[0] = 0


def case_copy_of_extents_that_may_differ():
    """ShapeError: T.copy of `A[0:n]` to `B[0:m]`: the extents n and m are not known to be the
    same
    """

    @T.prim_func
    def main(A: T.Tensor((N,)), B: T.Tensor((N,)), n: T.int32, m: T.int32):
        with T.Kernel(1):
            T.copy(A[0:n], B[0:m])  # WRONG


def case_barrier_number_below_0():
    """ResourceError: T.named_barrier_arrive: barrier_id must be from 0 to 15, got -1"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            T.named_barrier_arrive(-1, N)  # WRONG
            A[0] = 0


def case_safe_value_of_a_tile():
    """ScopeError: T.annotate_safe_value takes tensors in global memory, but `S (float32[64] in
    shared memory)`
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((N,), "float32")
            T.annotate_safe_value({S: 1})  # WRONG
            T.copy(A, S)


def case_image_of_two_dimensions():
    """ShapeError: T.im2col takes a tensor (N, H, W, C) and a matrix, got shapes (64, 64) and (64,
    32)
    """

    @T.prim_func
    def main(A: T.Tensor((N, N), "float16")):
        with T.Kernel(1):
            x = T.alloc_shared((N, 32), "float16")
            T.im2col(A, x, 0, 0, 3, 1, 1, 1)  # WRONG


def case_instruction_chosen_by_hand():
    """UnsupportedError: T.ptx_mma is not supported by this version ... chosen by the compiler ...
    use T.gemm
    """

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            T.ptx_mma("float32", A)  # WRONG


def case_early_return_in_a_macro():
    """UnsupportedSyntaxError: return under control flow known only at run time"""

    @T.macro
    def half(A, i):
        if i > 3:
            return  # (left under a condition)
        A[i] = 0

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(N) as bx:
            half(A, bx)


def case_return_in_a_block_of_tir():
    """UnsupportedSyntaxError: return under a condition known only at run time, in T.sblock"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(N) as bx:
            with T.sblock("A"):
                if bx > 3:
                    return  # WRONG
                A[bx] = 0
            A[bx] = 1


def case_unknown_pass_option_of_a_function():
    """ConfigError: unknown pass option 'tl.disable_tma_lowering' ... 'tl.disable_tma_lower'?"""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        T.annotate_pass_configs({"tl.disable_tma_lowering": True})  # WRONG
        with T.Kernel(1):
            A[0] = 0


@cases(globals())
def test_wrong_kernel(case):
    check(case)
