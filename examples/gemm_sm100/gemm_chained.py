"""Two GEMMs on Blackwell with the matrix between them in tensor memory: C = (A @ B1) @ B2.

The skeleton of flash attention: S = A @ B1 accumulates as float32 in tensor memory, is loaded
(tcgen05.ld), rounded to the element type in registers and stored packed (tcgen05.st); the second
gemm reads it from there as its A operand (TS).

    python gemm_chained.py [--m 256] [--k 128] [--s 128] [--n 64] [--dtype bfloat16]
"""

import functools

from common import TARGETS, TYPES, dtype_option, random_matrix

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, columns of A, of B1 and of B2
SHAPES = (
    (65536, 128, 128, 64),
    (65536, 64, 128, 64),
    (32768, 128, 128, 128),
    (131072, 128, 64, 64),
    (5000, 128, 128, 64),
)


def gemm_chained(M, K, S, N, block_M, in_dtype, out_dtype, accum_dtype, threads=128):
    """Returns C (M, N) = (A (M, K) @ B1 (K, S)) @ B2 (S, N) as a prim_func."""

    @T.prim_func
    def gemm_chained(
        A: T.Tensor((M, K), in_dtype),
        B1: T.Tensor((K, S), in_dtype),
        B2: T.Tensor((S, N), in_dtype),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
            A_shared = T.alloc_shared((block_M, K), in_dtype)
            B1_shared = T.alloc_shared((K, S), in_dtype)
            B2_shared = T.alloc_shared((S, N), in_dtype)
            S_tmem = T.alloc_tmem([block_M, S], accum_dtype)
            S_local = T.alloc_fragment((block_M, S), accum_dtype)
            P_local = T.alloc_fragment((block_M, S), in_dtype)
            P_tmem = T.alloc_tmem([block_M, S], in_dtype)
            C_tmem = T.alloc_tmem([block_M, N], accum_dtype)

            T.copy(A[by * block_M, 0], A_shared)
            T.copy(B1, B1_shared)
            T.copy(B2, B2_shared)
            T.gemm(A_shared, B1_shared, S_tmem, clear_accum=True)  # SS
            T.copy(S_tmem, S_local)  # tcgen05.ld
            for i, j in T.Parallel(block_M, S):
                P_local[i, j] = T.cast(S_local[i, j], in_dtype)
            T.copy(P_local, P_tmem)  # tcgen05.st
            T.gemm(P_tmem, B2_shared, C_tmem, clear_accum=True)  # TS
            T.copy(C_tmem, C[by * block_M, 0])

    return gemm_chained


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        TARGETS,
        m=Option("rows of A and C", 256, 65536),
        k=Option("columns of A, rows of B1", 128, multiple=32, most=256),
        s=Option("columns of B1, rows of B2", 128, multiple=32, most=128),
        n=Option("columns of B2 and C", 64, multiple=32, most=256),
        dtype=dtype_option("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"),
    )
    args = example.args
    accum_dtype, out_dtype, tolerance = TYPES[args.dtype]

    def case(m, k, s, n):
        function = gemm_chained(m, k, s, n, 128, args.dtype, out_dtype, accum_dtype)
        kernel = example.compile(function)
        a, b1, b2 = (random_matrix(example, *size) for size in ((m, k), (k, s), (s, n)))
        c = example.output(m, n, dtype=out_dtype)
        x, y, z = (w.bfloat16() if w.element_size() == 1 else w for w in (a, b1, b2))
        peers = {f"cuBLAS, {str(x.dtype)[6:]}": lambda: x @ y @ z}
        run = functools.partial(kernel, a, b1, b2, c)
        return Case(run, peers, flops=2 * m * s * (k + n)), (a, b1, b2), c

    line, (a, b1, b2), c = case(args.m, args.k, args.s, args.n)
    line.run()
    between = (a.double() @ b1.double()).to(a.dtype)
    example.check("C", c, between.double() @ b2.double(), tolerance)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
