"""C = A @ B^T of an A of which two of each four elements along K are zero (2:4 sparsity).

The tensor core multiplies the others alone, in half the time; so tiles must arrive twice as fast as
those of dense gemms. On Hopper two blocks of a cluster compute tiles one above the other and share
the tile of B, which is loaded once for both. Each block computes one tile after another and loads
for the next one while it stores the last. Metadata come transposed, so that their rows are long.

On a GPU the peers are cuBLAS of the dense matrix, and cuSPARSELt where torch was built with it.

    python gemm_sparse.py [--m 304] [--n 200] [--k 320] [--dtype bfloat16] [--target sm_90a]
                          [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.sparse import compress, get_e_factor, randn_semi_sparse
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, rows of B, columns of both
SHAPES = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (16384, 4096, 4096),
    (4096, 14336, 4096),
    (2048, 8192, 8192),
)


def tiles(target, dtype):
    """Returns tiles that there is room for, as keywords of ``gemm_sparse``; K is 128 bytes of B."""
    block_K = 64 if dtype != "float8_e4m3fn" else 128
    if target == "sm_90a":
        return {"block_K": block_K, "block_N": 256, "num_stages": 4, "cluster": 2}
    return {"block_K": block_K, "num_stages": 3 if target == "sm_80" else 4}


def gemm_sparse(
    M, N, K, dtype, meta, out_dtype, blocks, block_M=128, block_N=128, block_K=64, threads=256,
    num_stages=4, cluster=1, columns=64,
):  # fmt: skip
    """Returns C (M, N) of A (M, K / 2), E (K / e, M) and B (N, K) as a prim_func.

    E are metadata of type ``meta``, each for e elements, transposed. A multiple of ``cluster``
    blocks computes tiles, ``cluster`` of them one above the other.
    """
    e = get_e_factor(dtype, meta)
    grid = T.ceildiv(M, block_M * cluster), T.ceildiv(N, block_N)
    everyone = (1 << cluster) - 1

    @T.prim_func
    def gemm_sparse(
        A: T.Tensor((M, K // 2), dtype),
        E: T.Tensor((K // e, M), meta),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(blocks, threads=threads, cluster_dims=cluster) as block:
            A_shared = T.alloc_shared((block_M, block_K // 2), dtype)
            E_shared = T.alloc_shared((block_K // e, block_M), meta)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            C_shared = T.alloc_shared((block_M, columns), out_dtype)
            for by, bx in T.Persistent(grid, blocks // cluster, block // cluster, group_size=8):
                row, column = (by * cluster + block % cluster) * block_M, bx * block_N
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[row, k * (block_K // 2)], A_shared)
                    T.copy(E[k * (block_K // e), row], E_shared)
                    if cluster > 1:
                        T.copy_cluster(B[column, k * block_K], B_shared, cluster_mask=everyone)
                    else:
                        T.copy(B[column, k * block_K], B_shared)
                    T.gemm_sp(
                        A_shared, E_shared, B_shared, C_local, transpose_E=True, transpose_B=True
                    )
                for part in T.unroll(block_N // columns):
                    T.copy(C_local[:, part * columns : (part + 1) * columns], C_shared)
                    T.copy(C_shared, C[row, column + part * columns])

    return gemm_sparse


def by_cusparselt(a, b, out_dtype):
    """Returns the same by cuSPARSELt, of the fastest of its algorithms; None where it is not."""
    if not torch.backends.cusparselt.is_available():
        return None
    packed = torch._cslt_compress(a)
    # torch takes a type of the result only where it is not that of A.
    result = None if out_dtype == a.dtype else out_dtype
    algorithm = torch._cslt_sparse_mm_search(packed, b.T, out_dtype=result)
    return lambda: torch._cslt_sparse_mm(packed, b.T, alg_id=algorithm, out_dtype=result)


def by_torch(a, b, out_dtype):
    """Returns the same by cuBLAS, zeros and all."""
    if a.dtype != torch.float8_e4m3fn:
        return a @ b.T
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.T, one, one, out_dtype=out_dtype, use_fast_accum=True)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    dtypes = ("float16", "bfloat16", "float8_e4m3fn")
    example = Example(
        __doc__,
        m=Option("rows of A and C", 304, 8192),
        n=Option("rows of B, columns of C", 200, 8192),
        k=Option("columns of A and B", 320, 8192, multiple=64),
        dtype=Option("element type", "bfloat16", choices=dtypes),
    )
    args = example.args
    narrow = args.dtype == "float8_e4m3fn"
    meta, out_dtype = ("int32", "bfloat16") if narrow else ("int16", args.dtype)
    chosen = tiles(args.target, args.dtype)
    blocks = CUDA(args.target).compute_max_core // 2 * 2

    def case(m, n, k):
        kernel = example.compile(
            gemm_sparse(m, n, k, args.dtype, meta, out_dtype, blocks, **chosen)
        )
        dense = randn_semi_sparse(m, k, torch.float32, "cpu").to(args.device)
        a = dense.to(getattr(torch, args.dtype))
        b = example.normal(n, k, dtype=args.dtype)
        stored, metadata = compress(a, meta)
        by_rows = metadata.T.contiguous()
        c = example.output(m, n, dtype=out_dtype)
        peers = {"torch, dense": lambda: by_torch(a, b, c.dtype)}
        if args.device == "cuda" and (sparse := by_cusparselt(a, b, c.dtype)):
            peers["cuSPARSELt"] = sparse
        run = functools.partial(kernel, stored, by_rows, b, c)
        return Case(run, peers, flops=2 * m * n * k), (a, b), c

    line, (a, b), c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a.double() @ b.double().T, tolerance=2**-8 if narrow else 1e-5)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
