"""The first kernels anybody writes, traced and printed."""

import tilelang.language as T


def add(M, N, block_M, block_N, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.copy(A[by * block_M, bx * block_N], A_shared)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = A_shared[i, j] + B[by * block_M + i, bx * block_N + j] * 2.0
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def test_elementwise(golden):
    golden("elementwise", str(add(1000, 256, 64, 128)))


def test_symbolic_dimension(golden):
    golden("elementwise_dynamic", str(add(T.dynamic("m"), 256, 64, 128)))
