"""C = A @ B where K is long and C is small: several blocks share each tile of C.

With a block for each tile most of the GPU would be idle. Here K is divided into parts, a block sums
one part of one tile, and they add their sums up in C by atomic operations, tile by tile from shared
memory. The order of these is not fixed: results may differ in the last bits from run to run.

A launch before it sets C to zero. The second one need not wait for that before it adds something:
it starts as soon as the first has.

    python gemm_split_k.py [--m 72] [--n 136] [--k 2056] [--parts 4] [--dtype float16]
                           [--target sm_90a] [--device cpu]
"""

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, columns of B, columns of A
SHAPES = (
    (128, 512, 65536),
    (64, 512, 32768),
    (256, 256, 16384),
    (16, 1024, 16384),
    (128, 1024, 8192),
)


def tiles(M, N, target, block_N=64, block_K=128):
    """Returns parts, a tile's rows and the stages, as keywords: a block for each multiprocessor."""
    gpu, block_M = CUDA(target), 64 if M <= 64 else 128
    parts = gpu.compute_max_core // (T.ceildiv(M, block_M) * T.ceildiv(N, block_N))
    room = gpu.smem_cap - 4 * block_M * block_N
    stages = min(room // (2 * block_K * (block_M + block_N)), 5)
    return {"parts": max(parts, 1), "block_M": block_M, "num_stages": stages}


def gemm_split_k(M, N, K, parts, dtype, block_M=64, block_N=64, block_K=128, num_stages=3):
    """Returns C (M, N) float32 = A (M, K) @ B (K, N) of ``dtype`` as a prim_func."""
    threads = 2 * block_M
    steps = T.ceildiv(T.ceildiv(K, parts), block_K)  # of a block
    grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M)

    @T.prim_func
    def gemm_split_k(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(*grid, threads=threads) as (bx, by):
            T.pdl_trigger()
            for i, j in T.Parallel(block_M, block_N):
                if by * block_M + i < M and bx * block_N + j < N:
                    C[by * block_M + i, bx * block_N + j] = 0

        with T.Kernel(*grid, parts, threads=threads) as (bx, by, part):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            C_shared = T.alloc_shared((block_M, block_N), "float32")
            # Few wide boxes: the memory system adds whole lines of 128 bytes.
            T.annotate_layout({C_shared: tilelang.layout.make_swizzled_layout(C_shared)})

            T.clear(C_local)
            for step in T.Pipelined(steps, num_stages=num_stages):
                k = (part * steps + step) * block_K  # beyond K there are zeros
                T.copy(A[by * block_M, k], A_shared)
                T.copy(B[k, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            T.pdl_sync()
            T.atomic_add(C[by * block_M, bx * block_N], C_shared)

    return gemm_split_k


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and C", 72, 128),
        n=Option("columns of B and C", 136, 512),
        k=Option("columns of A, rows of B", 2056, 65536),
        parts=Option(
            "blocks that share a tile of C; 0: as many as there is room for", 4, 0, least=0
        ),
        dtype=Option("element type of A and B", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(m, n, k):
        chosen = tiles(m, n, args.target)
        chosen["parts"] = args.parts or chosen["parts"]
        kernel = example.compile(gemm_split_k(m, n, k, dtype=args.dtype, **chosen))
        a, b = example.normal(m, k, dtype=args.dtype), example.normal(k, n, dtype=args.dtype)
        c = example.output(m, n)
        peers = {"cuBLAS": lambda: a @ b}  # whose result has the type of A
        return Case(lambda: kernel(a, b, c), peers, flops=2 * m * n * k), a, b, c

    line, a, b, c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a.double() @ b.double())
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
