"""Valid programs that no target, or not this one, can compile."""

from wrong_kernels import cases, check

import tilelang
import tilelang.language as T


def case_shared_memory():
    """ResourceError: the kernel needs 262144 bytes of shared memory; sm_90a has 232448 ...
    S: 262144 bytes
    """

    @T.prim_func
    def main(A: T.Tensor((1024, 1024), "float32")):
        with T.Kernel(1):  # WRONG
            S = T.alloc_shared((256, 256), "float32")
            T.copy(A[0, 0], S)
            T.copy(S, A[0, 0])

    tilelang.compile(main, target="sm_90a")


def case_tensor_memory():
    """ResourceError: the kernel needs 768 columns of tensor memory, but a CTA has 512 ...
    X (128, 512) float32: 512 columns ... Y (128, 256) float32: 256 columns
    """

    @T.prim_func
    def main(A: T.Tensor((128, 512), "float32")):
        with T.Kernel(1):  # WRONG
            F = T.alloc_fragment((128, 512), "float32")
            X = T.alloc_tmem((128, 512), "float32")
            Y = T.alloc_tmem((128, 256), "float32")
            T.copy(A, F)
            T.copy(F, X)
            T.copy(F[:, 0:256], Y)
            T.copy(X, F)
            T.copy(Y, F[:, 0:256])
            T.copy(F, A)

    tilelang.compile(main, target="sm_100a")


def case_threads_of_a_tensor_memory_copy():
    """ResourceError: whole warpgroups (128 threads ... threads 0 to 63 execute this copy ...
    threads=128
    """

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=64):
            F = T.alloc_fragment((128, 64), "float32")
            X = T.alloc_tmem((128, 64), "float32")
            T.copy(A, F)
            T.copy(F, X)  # WRONG
            T.copy(X, F)
            T.copy(F, A)

    tilelang.compile(main, target="sm_100a")


def gemm(m, n, k, a_type="float16", b_type="float16"):
    """A gemm of shared tiles into a fragment."""

    @T.prim_func
    def main(A: T.Tensor((m, k), a_type), B: T.Tensor((k, n), b_type), C: T.Tensor((m, n))):
        with T.Kernel(1):
            X = T.alloc_shared((m, k), a_type)
            Y = T.alloc_shared((k, n), b_type)
            Z = T.alloc_fragment((m, n), "float32")
            T.copy(A, X)
            T.copy(B, Y)
            T.clear(Z)
            T.gemm(X, Y, Z)
            T.copy(Z, C)

    return main


def case_gemm_of_other_types():
    """DTypeError: T.gemm: A is float16 and B is bfloat16"""
    tilelang.compile(gemm(128, 64, 64, "float16", "bfloat16"), target="sm_100a")


def case_gemm_rows():
    """ShapeError: T.gemm by tcgen05: M must be 32, 64 or a multiple of 128 (M = 96, N = 64"""

    @T.prim_func
    def main():
        with T.Kernel(1):
            a = T.alloc_shared((96, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((96, 64), "float32")
            T.gemm(a, b, c)  # WRONG

    tilelang.compile(main, target="sm_100a")


def case_element_of_a_fragment():
    """SemanticsError: an element of fragment F is written outside of T.Parallel"""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32"), n: T.int32):
        with T.Kernel(1):
            F = T.alloc_fragment((128, 64), "float32")
            T.copy(A, F)
            F[n, 3] = A[0, 0]  # WRONG

    tilelang.compile(main, target="sm_90a")


def case_index_beyond_a_loop():
    """BoundsError: index 129 = i in dimension 0 of S (float32[128] in shared memory) is out of"""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1):
            S = T.alloc_shared((128,), "float32")
            for i in T.Parallel(130):
                S[i] = 0  # WRONG
            T.copy(S, A)

    tilelang.compile(main, target="sm_90a")


def case_unknown_target():
    """TargetError: unknown target 'sm_42' ... "sm_80", "sm_90a", "sm_100a\""""
    tilelang.compile(gemm(128, 64, 64), target="sm_42")


def case_cluster():
    """ResourceError: cluster_dims: sm_80 has no clusters"""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(4, cluster_dims=2) as bx:  # WRONG
            A[bx] = 1

    tilelang.compile(main, target="sm_80")


def case_fragment_of_fewer_elements_than_iterations():
    """ShapeError: index 64 of dimension 0 is outside fragment F of shape (64)"""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            F = T.alloc_fragment((64,), "float32")
            for i in T.Parallel(n):
                F[i] = A[i]  # WRONG
            T.copy(F, A[0:64])

    tilelang.compile(main, target="sm_90a")


@cases(globals())
def test_refused_kernel(case):
    check(case)
