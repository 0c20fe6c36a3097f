"""D = gelu(A @ W^T + bias): the first linear layer of an MLP.

The epilogue is written on the whole tile; the compiler divides it into slices of columns, loads the
bias before it waits for the tensor core, and stores slices by TMA (docs/epilogues.md).

    python bias_gelu.py [--m 200] [--n 136] [--k 328] [--dtype bfloat16] [--fast]
                        [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, rows of W, columns of both
SHAPES = (
    (4096, 4096, 4096),
    (8192, 3072, 768),
    (2048, 16384, 4096),
    (1000, 5120, 1280),
    (256, 11008, 4096),
)


def gelu(x):
    """Returns GELU of a float32 in its form by tanh."""
    return 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def bias_gelu(M, N, K, dtype, block_M=128, block_N=256, block_K=64, threads=256, num_stages=4):
    """Returns D (M, N) = gelu(A (M, K) @ W (N, K)^T + bias (N,)) as a prim_func.

    A, W and D are of ``dtype``, the bias is float32.
    """

    @T.prim_func
    def bias_gelu(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        bias: T.Tensor((N,), "float32"),
        D: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, c, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = gelu(c[i, j] + bias[bx * block_N + j])
            T.copy(c, D[by * block_M, bx * block_N])

    return bias_gelu


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and D", 200, 4096),
        n=Option("rows of W, columns of D", 136, 4096),
        k=Option("columns of A and W", 328, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
        fast=Option("tanh by one approximate instruction", False),
    )
    args = example.args
    old = {"block_N": 128, "num_stages": 3} if args.target == "sm_80" else {}
    activation = torch.nn.functional.gelu
    compiled = example.compiled(lambda a, w, b: activation((a @ w.T) + b, approximate="tanh"))

    def case(m, n, k):
        function = bias_gelu(m, n, k, args.dtype, **old)
        kernel = example.compile(function, pass_configs={"tl.enable_fast_math": args.fast})
        a = example.normal(m, k, dtype=args.dtype)
        w = example.normal(n, k, dtype=args.dtype, scale=k**-0.5)
        bias, d = example.normal(n), example.output(m, n, dtype=args.dtype)
        narrow = bias.to(a.dtype)
        linear = torch.nn.functional.linear
        peers = {
            "cublasLt": lambda: torch._addmm_activation(narrow, a, w.T, use_gelu=True),
            "torch": lambda: activation(linear(a, w, narrow), approximate="tanh"),
            "compiled": lambda: compiled(a, w, narrow),
        }
        run = functools.partial(kernel, a, w, bias, d)
        return Case(run, peers, flops=2 * m * n * k), (a, w, bias), d

    line, inputs, d = case(args.m, args.n, args.k)
    line.run()
    a, w, bias = (x.double() for x in inputs)
    want = activation(a @ w.T + bias, approximate="tanh")
    example.check("D", d, want, tolerance=2**-11 if args.fast else 1e-5)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
