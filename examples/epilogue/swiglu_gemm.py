"""D = silu(A @ G^T) * (A @ U^T): the gate of a SwiGLU layer, in the epilogue of both gemms.

A block computes the same columns of both products from one tile of A, in two accumulators, so that
the products never reach global memory. ``W`` holds G above U, as weights of such layers lie.

    python swiglu_gemm.py [--m 200] [--n 136] [--k 328] [--dtype bfloat16] [--target sm_90a]
                          [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, columns of D, columns of A
SHAPES = (
    (4096, 2048, 4096),
    (4096, 14336, 4096),
    (8192, 1536, 2048),
    (1000, 5504, 2048),
    (2048, 8192, 8192),
)


def swiglu_gemm(M, N, K, dtype, block_M=128, block_N=128, block_K=64, threads=256, num_stages=4):
    """Returns D (M, N) = silu(A (M, K) @ W[0]^T) * (A @ W[1]^T) as a prim_func.

    W is (2, N, K); all are of ``dtype``.
    """

    @T.prim_func
    def swiglu_gemm(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((2, N, K), dtype),
        D: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            G_shared = T.alloc_shared((block_N, block_K), dtype)
            U_shared = T.alloc_shared((block_N, block_K), dtype)
            gate = T.alloc_fragment((block_M, block_N), "float32")
            up = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[0, bx * block_N, k * block_K], G_shared)
                T.copy(W[1, bx * block_N, k * block_K], U_shared)
                T.gemm(A_shared, G_shared, gate, transpose_B=True)
                T.gemm(A_shared, U_shared, up, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                gate[i, j] = gate[i, j] * T.fast_rcp(1 + T.exp(-gate[i, j])) * up[i, j]
            T.copy(gate, D[by * block_M, bx * block_N])

    return swiglu_gemm


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and D", 200, 4096),
        n=Option("columns of D, half the rows of W", 136, 2048),
        k=Option("columns of A and W", 328, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    old = {"block_N": 64, "num_stages": 3} if args.target == "sm_80" else {}

    def reference(a, w):
        gate, up = (a @ w.flatten(0, 1).T).chunk(2, dim=1)
        return torch.nn.functional.silu(gate) * up

    compiled = example.compiled(reference)

    def case(m, n, k):
        kernel = example.compile(swiglu_gemm(m, n, k, args.dtype, **old))
        a = example.normal(m, k, dtype=args.dtype)
        w = example.normal(2, n, k, dtype=args.dtype, scale=k**-0.5)
        d = example.output(m, n, dtype=args.dtype)
        peers = {"torch": lambda: reference(a, w), "compiled": lambda: compiled(a, w)}
        return Case(lambda: kernel(a, w, d), peers, flops=4 * m * n * k), (a, w), d

    line, (a, w), d = case(args.m, args.n, args.k)
    line.run()
    example.check("D", d, reference(a.double(), w.double()))
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
