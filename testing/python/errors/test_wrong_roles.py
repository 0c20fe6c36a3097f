"""Tile operators under conditions that choose no group of threads which could run them."""

from wrong_kernels import cases, check

import tilelang
import tilelang.language as T

F32 = T.Tensor((128, 64), "float32")


def case_every_other_thread():
    """SemanticsError: T.copy is under the condition `tx % 2 == 0`, so only threads 0, 2, 4, 6, ...
    of 256 ... consecutive whole warps ... T.ws(0)
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((128, 64), "float32")
            if T.get_thread_binding() % 2 == 0:
                T.copy(A, s)  # WRONG
            T.copy(s, B)

    tilelang.compile(main, target="sm_90a")


def case_part_of_a_warp():
    """SemanticsError: T.Parallel is under the condition `tx < 48`, so only threads 0 to 47 of 128
    ... consecutive whole warps
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=128):
            if T.get_thread_binding() < 48:
                for i, j in T.Parallel(128, 64):  # WRONG
                    B[i, j] = A[i, j]

    tilelang.compile(main, target="sm_80")


def case_two_warpgroups_apart():
    """SemanticsError: T.copy is under ... threads 0 to 127 and 256 to 383 of 384"""

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=384), T.ws(0, 2):
            T.copy(A, B)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_the_threads_around_a_role():
    """SemanticsError: T.clear ... threads 0 to 127 and 256 to 383 of 384"""

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=384):
            f = T.alloc_fragment((128, 64), "float32")
            if T.get_warp_group_idx() == 1:
                T.copy(A, B)
            else:
                T.clear(f)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_one_thread_copies():
    """SemanticsError: T.copy is under the condition `tx == 0`, so only thread 0 of 128 reach it.
    One thread alone can copy between global and shared memory, and issue T.gemm or T.tcgen05_gemm
    with mbar= ... whole warps
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((128, 64), "float32")
            if T.get_thread_binding() == 0:
                T.copy(A, f)  # WRONG
            T.copy(f, B)

    tilelang.compile(main, target="sm_90a")


def case_one_thread_of_each_warpgroup():
    """SemanticsError: T.gemm is under the condition `tx % 128 == 0`, so only threads 0 and 128 of
    256
    """

    @T.prim_func
    def main(A: T.Tensor((128, 64), "bfloat16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_tmem((128, 128), "float32")
            done = T.alloc_barrier(1)
            T.copy(A, a)
            if T.shuffle_elect(128):
                T.gemm(a, a, c, transpose_B=True, clear_accum=True, mbar=done)  # WRONG
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C)

    tilelang.compile(main, target="sm_100a")


def case_one_thread_waits_for_its_gemm():
    """SemanticsError: T.gemm is under ... thread 0 of 128 ... with mbar="""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "bfloat16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_tmem((128, 128), "float32")
            T.copy(A, a)
            if T.get_thread_binding() == 0:
                T.gemm(a, a, c, transpose_B=True, clear_accum=True)  # WRONG
            T.copy(c, C)

    tilelang.compile(main, target="sm_100a")


def case_a_warpgroup_chosen_by_a_step():
    """SemanticsError: T.copy is under `tx // 128 == k % 2`, which is decided at run time and
    may differ between threads ... Write one `if` for the threads ... If the
    whole block reaches the operator, make the value equal first: `if T.syncthreads_or(<value>):`
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=256):
            for k in T.serial(4):
                if T.get_thread_binding() // 128 == k % 2:
                    T.copy(A, B)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_a_value_in_memory():
    """SemanticsError: T.Parallel is under ... decided at run time and may differ"""

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=128):
            if A[T.get_thread_binding(), 0] > 0.0:
                for i, j in T.Parallel(128, 64):  # WRONG
                    B[i, j] = A[i, j]

    tilelang.compile(main, target="sm_80")


def case_the_other_side_of_threads_and_a_value():
    """SemanticsError: T.copy is under ... on the side that some threads take by their index,
    the others by a value known at run time
    """

    @T.prim_func
    def main(A: F32, B: F32, n: T.int32):
        with T.Kernel(1, threads=256):
            if T.get_thread_binding() < 128 and n > 3:
                T.copy(A, B)
            else:
                T.copy(B, A)  # WRONG

    tilelang.compile(main, target="sm_90a")


def case_a_loop_of_different_lengths():
    """SemanticsError: T.copy is in a loop, which its threads may run a different number of
    times
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=256):
            for _k in T.serial(T.get_warp_idx()):
                T.copy(A, B)  # WRONG

    tilelang.compile(main, target="sm_90a")


def case_a_loop_that_a_role_leaves():
    """SemanticsError: T.copy is in a loop, which its threads ... leave"""

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=256):
            for k in T.serial(4):
                if T.get_thread_binding() < 128 and k == 2:
                    break
                T.copy(A, B)  # WRONG

    tilelang.compile(main, target="sm_90a")


def case_a_fragment_of_all_and_of_some():
    """SemanticsError: f (float32[128, 64] in a fragment) ... is used by threads 0 to 255 (line ...
    and by threads 0 to 127 (line ... a fragment for each group
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((128, 64), "float32")
            T.copy(A, f)
            if T.get_thread_binding() < 128:
                T.copy(f, B)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_registers_of_another_role():
    """SemanticsError: f (float32[128, 64] in a fragment) ... is read by threads 128 to 255 (line
    ... but these threads never write it ... threads 0 to 127 (line ... shared memory
    """

    @T.prim_func
    def main(A: F32, B: F32):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((128, 64), "float32")
            if T.get_thread_binding() < 128:
                T.copy(A, f)
            else:
                T.copy(f, B)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_an_arrival_by_another_warpgroup():
    """SemanticsError: T.tcgen05_mma_arrive ... the elected thread of warp 0, which executes it for
    threads 0 to 127, issues no gemm: those of threads 128 to 255 are issued by the elected
    thread of warp 4 ... after the gemms
    """

    @T.prim_func
    def main(C: F32):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((128, 64), "float32")
            done = T.alloc_barrier(1)
            if T.get_thread_binding() >= 128:
                T.tcgen05_gemm(a, b, c, clear_accum=True, mbar=None)
            else:
                T.tcgen05_mma_arrive(done)  # WRONG
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C)

    tilelang.compile(main, target="sm_100a")


def case_an_arrival_by_one_of_the_threads():
    """SemanticsError: T.tcgen05_mma_arrive ... thread 0, ... issues no gemm: those of threads 0
    to 127 are issued by the elected thread of warp 0
    """

    @T.prim_func
    def main(C: F32):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((128, 64), "float32")
            done = T.alloc_barrier(1)
            T.tcgen05_gemm(a, b, c, clear_accum=True, mbar=None)
            if T.get_thread_binding() == 0:
                T.tcgen05_mma_arrive(done)  # WRONG
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C)

    tilelang.compile(main, target="sm_100a")


def case_an_arrival_for_two_roles():
    """SemanticsError: T.tcgen05_mma_arrive ... the elected thread of warp 0 ... issues no gemm:
    several groups among these threads do
    """

    @T.prim_func
    def main(C: F32):
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((2, 128, 64), "float32")
            done = T.alloc_barrier(1)
            if T.get_thread_binding() // 128 == 1:
                T.tcgen05_gemm(a, b, c[0, :, :], clear_accum=True, mbar=None)
            if T.get_thread_binding() // 128 == 2:
                T.tcgen05_gemm(a, b, c[1, :, :], clear_accum=True, mbar=None)
            T.tcgen05_mma_arrive(done)  # WRONG
            T.mbarrier_wait_parity(done, 0)
            T.copy(c[1, :, :], C)

    tilelang.compile(main, target="sm_100a")


def case_a_gemm_that_no_arrival_covers():
    """SemanticsError: no T.tcgen05_mma_arrive is for this gemm: the elected thread of warp 4
    issues it for threads 128 to 255, but the arrivals ... the elected thread of warp 0
    """

    @T.prim_func
    def main(C: F32):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((2, 128, 64), "float32")
            done = T.alloc_barrier(1)
            T.tcgen05_gemm(a, b, c[0, :, :], clear_accum=True, mbar=None)
            if T.get_thread_binding() >= 128:
                T.tcgen05_gemm(a, b, c[1, :, :], clear_accum=True, mbar=None)  # WRONG
            T.tcgen05_mma_arrive(done)
            T.mbarrier_wait_parity(done, 0)
            T.copy(c[1, :, :], C)

    tilelang.compile(main, target="sm_100a")


@cases(globals())
def test_wrong_roles(case):
    check(case)
