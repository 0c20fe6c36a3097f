"""C = A @ B where K is long and C is small: several blocks share each tile of C.

With a block for each tile most of the GPU would be idle. Here K is divided into parts, a block sums
one part of one tile, and they add their sums up in C, which begins as zeros, by atomic operations.
The order of these is not fixed: results may differ in the last bits from run to run.

    python gemm_split_k.py [--m 72] [--n 136] [--k 2056] [--parts 4] [--dtype float16]
                           [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option


def gemm_split_k(M, N, K, parts, dtype, block_M=64, block_N=128, block_K=128, threads=128):
    """Returns C (M, N) float32 += A (M, K) @ B (K, N) of ``dtype`` as a prim_func."""
    steps = T.ceildiv(T.ceildiv(K, parts), block_K)  # of a block

    @T.prim_func
    def gemm_split_k(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts
        with T.Kernel(*grid, threads=threads) as (bx, by, part):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for step in T.Pipelined(steps, num_stages=3):
                k = (part * steps + step) * block_K  # beyond K there are zeros
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.atomic_add(C[by * block_M, bx * block_N], C_local)

    return gemm_split_k


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and C", 72, 128),
        n=Option("columns of B and C", 136, 512),
        k=Option("columns of A, rows of B", 2056, 65536),
        parts=Option("blocks that share a tile of C", 4, 16),
        dtype=Option("element type of A and B", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    kernel = example.compile(gemm_split_k(args.m, args.n, args.k, args.parts, args.dtype))
    a = example.normal(args.m, args.k, dtype=args.dtype)
    b = example.normal(args.k, args.n, dtype=args.dtype)
    c = torch.zeros(args.m, args.n, device=args.device)
    kernel(a, b, c)
    example.check("C", c, a.double() @ b.double())

    def run():
        c.zero_()
        kernel(a, b, c)

    example.speed(run, lambda: a @ b, flops=2 * args.m * args.n * args.k)


if __name__ == "__main__":
    main()
