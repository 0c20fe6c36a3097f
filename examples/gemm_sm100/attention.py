"""Flash attention as written for Hopper, on Blackwell: Out = softmax(Q @ K^T / sqrt(dim)) @ V.

No tensor memory and no barrier is named: the accumulators and the weights are fragments, which the
compiler puts into tensor memory around the two gemms (SS, then TS). The softmax is the online
form: a running maximum and a running sum for each row of Q.

    python attention.py [--queries 256] [--keys 256] [--dim 64] [--dtype bfloat16]
                        [--device cpu]
"""

import functools
import math

import torch
from common import TARGETS, dtype_option, random_matrix

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: queries, keys, dimension
SHAPES = (
    (16384, 16384, 64),
    (8192, 8192, 64),
    (4096, 16384, 64),
    (16384, 4096, 128),
    (8192, 8192, 128),
)


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
        dim=Option("columns of Q, K and V", 64, multiple=16, most=256),
        block_m=Option("queries of a block", 128, choices=(64, 128)),
        block_n=Option("keys of a step", 64, multiple=16, most=128),
        dtype=dtype_option("bfloat16", "float16"),
    )
    args = example.args
    for rows, block in (("queries", "block_m"), ("keys", "block_n")):
        length, size = getattr(args, rows), getattr(args, block)
        example.require(length % size == 0, f"--{rows} is {length}: give a multiple of {size}")

    def case(queries, keys, dim):
        options = args.block_m, args.block_n, args.dtype, args.dtype
        kernel = example.compile(attention(queries, keys, dim, *options))
        q, k, v = (random_matrix(example, rows, dim) for rows in (queries, keys, keys))
        out = example.output(queries, dim, dtype=args.dtype)
        attend = torch.nn.functional.scaled_dot_product_attention
        heads = [x[None, None] for x in (q, k, v)]
        peers = {"torch": lambda: attend(heads[0], heads[1], heads[2])[0, 0]}
        run = functools.partial(kernel, q, k, v, out)
        return Case(run, peers, flops=4 * queries * keys * dim), (q, k, v), out

    line, inputs, out = case(args.queries, args.keys, args.dim)
    line.run()
    q, k, v = (x.double() for x in inputs)
    weights = torch.softmax(q @ k.T / math.sqrt(args.dim), dim=1)
    # The weights round to the element type, too, and their errors add up.
    example.check("Out", out, weights @ v, tolerance=2**-7)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
