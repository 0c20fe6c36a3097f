"""The whole kernels whose time on the emulator is measured; written in the language itself."""

import math

import tilelang.language as T


def matmul(M: int, N: int, K: int, block: int = 128, block_K: int = 64):
    """Returns C (M, N) = A (M, K) @ B (N, K)^T in bf16; it accumulates in tensor memory."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block, block_K), "bfloat16")
            B_shared = T.alloc_shared((block, block_K), "bfloat16")
            C_tmem = T.alloc_tmem([block, block], "float32")
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block, k * block_K], A_shared)
                T.copy(B[bx * block, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_tmem, transpose_B=True, clear_accum=(k == 0))
            T.copy(C_tmem, C[by * block, bx * block])

    return main


def attention(sequence: int, dim: int, block: int = 128):
    """Returns Out = softmax(Q @ K^T / sqrt(dim)) @ V, all (sequence, dim) in bf16.

    The softmax is the online form: a running maximum and sum for each row of Q.
    """
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def main(
        Q: T.Tensor((sequence, dim), "bfloat16"),
        K: T.Tensor((sequence, dim), "bfloat16"),
        V: T.Tensor((sequence, dim), "bfloat16"),
        Out: T.Tensor((sequence, dim), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(sequence, block), threads=128) as bx:
            Q_shared = T.alloc_shared((block, dim), "bfloat16")
            K_shared = T.alloc_shared((block, dim), "bfloat16")
            V_shared = T.alloc_shared((block, dim), "bfloat16")
            scores = T.alloc_fragment((block, block), "float32")
            weights = T.alloc_fragment((block, block), "bfloat16")
            result = T.alloc_fragment((block, dim), "float32")
            highest = T.alloc_fragment((block,), "float32")
            previous = T.alloc_fragment((block,), "float32")
            correction = T.alloc_fragment((block,), "float32")
            row_sum = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Q[bx * block, 0], Q_shared)
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(highest, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(sequence, block), num_stages=1):
                T.copy(K[k * block, 0], K_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                T.copy(highest, previous)
                T.reduce_max(scores, highest, dim=1, clear=False)
                for i in T.Parallel(block):
                    correction[i] = T.exp2((previous[i] - highest[i]) * scale)
                for i, j in T.Parallel(block, block):
                    scores[i, j] = T.exp2((scores[i, j] - highest[i]) * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * correction[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block, dim):
                    result[i, j] *= correction[i]
                T.copy(V[k * block, 0], V_shared)
                T.gemm(weights, V_shared, result)
            for i, j in T.Parallel(block, dim):
                result[i, j] /= total[i]
            T.copy(result, Out[bx * block, 0])

    return main
