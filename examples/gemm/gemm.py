"""C = A @ B: the tile operators of every gemm, and what the compiler makes of them.

A block computes a tile of C. The loop over K is pipelined: tiles of A and B arrive while the tensor
core multiplies those before. Which instructions do so (cp.async and mma.sync, TMA and wgmma or
tcgen05.mma) follows from the target; ``--schedule`` shows it. The order of blocks and the way of
the result through shared memory are the compiler's, too. Tiles at the edges need no care. How large
tiles are follows from the sizes: few rows get small ones, so that all of the GPU works. On a Hopper
GPU, the compiler makes others of tiles of 128 x 128 by itself: of more than 64 rows, and of so few
columns that blocks had better share K.

    python gemm.py [--m 200] [--n 136] [--k 328] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

import tilelang.language as T
from tilelang.carver import MatmulTemplate
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, columns of B, columns of A
SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (5000, 3000, 2000),
    (128, 4096, 4096),
    (16, 14336, 4096),
)


def tiles(M, N, K, dtype, target):
    """Returns the best tiles for these sizes, as keywords of ``gemm``."""
    gpu = CUDA(target)
    template = MatmulTemplate(M, N, K, False, False, in_dtype=dtype, out_dtype=dtype)
    (hint,) = template.with_arch(gpu).recommend_hints(topk=1)
    (m, n), (k,) = hint.block, hint.rstep
    few = 2 * -(-M // m) * -(-N // n) <= gpu.compute_max_core and K >= 2048  # blocks, long loops
    if target == "sm_90a" and (M > 64 or few):
        return {"threads": 128}  # the compiler's estimate chooses
    sizes = {"block_M": m, "block_N": n, "block_K": k}
    return {**sizes, "num_stages": hint.pipeline_stage, "threads": hint.threads}


def gemm(M, N, K, dtype, block_M=128, block_N=128, block_K=64, threads=256, num_stages=3):
    """Returns C (M, N) = A (M, K) @ B (K, N), all of ``dtype``, as a prim_func."""

    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and C", 200, 4096),
        n=Option("columns of B and C", 136, 4096),
        k=Option("columns of A, rows of B", 328, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(m, n, k):
        sizes = m, n, k, args.dtype
        kernel = example.compile(gemm(*sizes, **tiles(*sizes, args.target)))
        a, b = example.normal(m, k, dtype=args.dtype), example.normal(k, n, dtype=args.dtype)
        c = example.output(m, n, dtype=args.dtype)
        return (
            Case(lambda: kernel(a, b, c), {"cuBLAS": lambda: a @ b}, flops=2 * m * n * k),
            a,
            b,
            c,
        )

    line, a, b, c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a.double() @ b.double())
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
