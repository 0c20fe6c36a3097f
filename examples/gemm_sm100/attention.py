"""Flash attention as written for Hopper, on Blackwell: Out = softmax(Q @ K^T / sqrt(dim)) @ V.

No tensor memory and no barrier is named: the accumulators and the weights are fragments, which the
compiler puts into tensor memory around the two gemms (SS, then TS). The softmax is the online
form: a running maximum and a running sum for each row of Q.

    python attention.py [--queries 256] [--keys 256] [--dim 64] [--dtype bfloat16]
                        [--device cpu]
"""

import math

import torch
from common import TARGETS, dtype_option, random_matrix

import tilelang.language as T
from tilelang.tools.example import Example, Option


def attention(queries, keys, dim, block_M, block_N, in_dtype, out_dtype, threads=128):
    """Returns Out (queries, dim) of Q (queries, dim) and K, V (keys, dim) as a prim_func.

    ``block_M`` divides the queries and ``block_N`` the keys.
    """
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e

    @T.prim_func
    def attention(
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

    return attention


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        TARGETS,
        queries=Option("rows of Q, a multiple of block_m", 256, 16384),
        keys=Option("rows of K and V, a multiple of block_n", 256, 16384),
        dim=Option("columns of Q, K and V", 64),
        block_m=Option("queries of a block", 128),
        block_n=Option("keys of a step", 64),
        dtype=dtype_option("bfloat16", "float16"),
    )
    args = example.args
    blocks = (args.block_m, args.block_n)
    function = attention(args.queries, args.keys, args.dim, *blocks, args.dtype, args.dtype)
    kernel = example.compile(function)
    q = random_matrix(example, args.queries, args.dim)
    k, v = (random_matrix(example, args.keys, args.dim) for _ in range(2))
    out = example.output(args.queries, args.dim, dtype=args.dtype)
    kernel(q, k, v, out)
    scores = q.double() @ k.double().T / math.sqrt(args.dim)
    # The weights round to the element type, too, and their errors add up.
    example.check("Out", out, torch.softmax(scores, dim=1) @ v.double(), tolerance=2**-7)
    attend = torch.nn.functional.scaled_dot_product_attention
    flops = 4 * args.queries * args.keys * args.dim
    heads = [x[None, None] for x in (q, k, v)]

    def by_torch():
        return attend(heads[0], heads[1], heads[2])

    example.speed(lambda: kernel(q, k, v, out), by_torch, flops=flops)


if __name__ == "__main__":
    main()
