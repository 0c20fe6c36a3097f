"""Flash attention as written for Hopper, on Blackwell: Out = softmax(Q @ K^T / sqrt(dim)) @ V.

No tensor memory and no barrier is named: the accumulators and the weights are fragments, which the
compiler puts into tensor memory around the two gemms (SS, then TS). The softmax is the online
form: a running maximum and a running sum for each row of Q.

    python attention.py [--queries 256] [--keys 256] [--dim 64] [--dtype bfloat16]
"""

import math

import torch
from common import parse_arguments, random_matrix, run_and_check

import tilelang
import tilelang.language as T


def attention(queries, keys, dim, block_M, block_N, in_dtype, out_dtype, threads=128):
    """Returns Out (queries, dim) of Q (queries, dim) and K, V (keys, dim) as a prim_func.

    ``block_M`` divides the queries and ``block_N`` the keys.
    """
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def main(
        Q: T.Tensor((queries, dim), in_dtype),
        K: T.Tensor((keys, dim), in_dtype),
        V: T.Tensor((keys, dim), in_dtype),
        Out: T.Tensor((queries, dim), out_dtype),
    ):
        with T.Kernel(queries // block_M, threads=threads) as bx:
            Q_shared = T.alloc_shared((block_M, dim), in_dtype)
            K_shared = T.alloc_shared((block_N, dim), in_dtype)
            V_shared = T.alloc_shared((block_N, dim), in_dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), in_dtype)
            result = T.alloc_fragment((block_M, dim), "float32")
            highest = T.alloc_fragment((block_M,), "float32")
            previous = T.alloc_fragment((block_M,), "float32")
            correction = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bx * block_M, 0], Q_shared)
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(highest, -T.infinity("float32"))
            for k in T.Pipelined(keys // block_N, num_stages=1):
                T.copy(K[k * block_N, 0], K_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                T.copy(highest, previous)
                T.reduce_max(scores, highest, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    correction[i] = T.exp2((previous[i] - highest[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - highest[i]) * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * correction[i] + row_sum[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    result[i, j] *= correction[i]
                T.copy(V[k * block_N, 0], V_shared)
                T.gemm(weights, V_shared, result)
            for i, j in T.Parallel(block_M, dim):
                result[i, j] /= total[i]
            T.copy(result, Out[bx * block_M, 0])

    return main


def main():
    """Compiles, runs and checks the kernel."""
    args = parse_arguments(
        __doc__, ("bfloat16", "float16"), queries=256, keys=256, dim=64, block_m=128, block_n=64
    )
    blocks = (args.block_m, args.block_n)
    function = attention(args.queries, args.keys, args.dim, *blocks, args.dtype, args.out_dtype)
    kernel = tilelang.compile(function, target=args.target)
    q = random_matrix(args.queries, args.dim, args)
    k, v = (random_matrix(args.keys, args.dim, args) for _ in range(2))
    scores = q.cpu().double() @ k.cpu().double().T / math.sqrt(args.dim)
    reference = torch.softmax(scores, dim=1) @ v.cpu().double()
    # The weights round to the element type too, and their errors add up.
    args.tolerance *= 4
    run_and_check(kernel, (q, k, v), reference, args)


if __name__ == "__main__":
    main()
