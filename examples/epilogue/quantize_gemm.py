"""Q, scales = A @ W^T in float8, with a scale for each row of 128 columns.

A row of a tile is divided by its largest element, so that the next gemm can take it as it is
(examples/gemm/gemm_fp8_block_scaled.py). The maximum of a row is used beside the row: such an
epilogue stays whole, and a tile has no more columns than registers take.

    python quantize_gemm.py [--m 200] [--n 272] [--k 328] [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, rows of W, columns of both
SHAPES = (
    (4096, 4096, 4096),
    (8192, 7168, 2048),
    (4096, 2048, 7168),
    (1000, 4096, 4096),
    (2048, 14336, 4096),
)

COLUMNS = 128
MOST = 448.0  # of float8_e4m3fn


def quantize_gemm(M, N, K, dtype="bfloat16", block_M=128, block_K=64, threads=128, num_stages=3):
    """Returns Q (M, N) and S (M, ceil(N / 128)) of A (M, K) @ W (N, K)^T as a prim_func.

    S is float32; Q times the scale of its row and columns is the product.
    """
    block_N = COLUMNS

    @T.prim_func
    def quantize_gemm(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        Q: T.Tensor((M, N), "float8_e4m3fn"),
        S: T.Tensor((M, T.ceildiv(N, block_N)), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            Q_shared = T.alloc_shared((block_M, block_N), "float8_e4m3fn")
            c = T.alloc_fragment((block_M, block_N), "float32")
            most = T.alloc_fragment((block_M,), "float32")
            inverse = T.alloc_fragment((block_M,), "float32")

            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, c, transpose_B=True)
            T.reduce_absmax(c, most, dim=1)
            for i in T.Parallel(block_M):
                most[i] = T.max(most[i], 1e-12)
                S[by * block_M + i, bx] = most[i] / MOST
                inverse[i] = MOST / most[i]
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = c[i, j] * inverse[i]
            T.copy(c, Q_shared)
            T.copy(Q_shared, Q[by * block_M, bx * block_N])

    return quantize_gemm


def reference(a, w):
    """Returns the product in float8, and its scales."""
    c = (a @ w.T).float()
    groups = torch.nn.functional.pad(c, (0, -c.shape[1] % COLUMNS)).unflatten(1, (-1, COLUMNS))
    scales = groups.abs().amax(2).clamp(min=1e-12) / MOST
    scaled = (groups / scales[:, :, None]).flatten(1)[:, : c.shape[1]]
    return scaled.to(torch.float8_e4m3fn), scales


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and Q", 200, 4096),
        n=Option("rows of W, columns of Q", 272, 4096),
        k=Option("columns of A and W", 328, 4096),
    )
    args = example.args
    compiled = example.compiled(reference)

    def case(m, n, k):
        kernel = example.compile(quantize_gemm(m, n, k))
        a = example.normal(m, k, dtype="bfloat16")
        w = example.normal(n, k, dtype="bfloat16", scale=k**-0.5)
        q = example.output(m, n, dtype="float8_e4m3fn")
        s = example.output(m, -(-n // COLUMNS))
        peers = {"torch": lambda: reference(a, w), "compiled": lambda: compiled(a, w)}
        return Case(lambda: kernel(a, w, q, s), peers, flops=2 * m * n * k), (a, w), (q, s)

    line, (a, w), (q, s) = case(args.m, args.n, args.k)
    line.run()
    want = a.double() @ w.double().T
    groups = torch.nn.functional.pad(want, (0, -args.n % COLUMNS)).unflatten(1, (-1, COLUMNS))
    example.check("S", s, groups.abs().amax(2) / MOST)
    wide = s.double().repeat_interleave(COLUMNS, 1)[:, : args.n]
    example.check("Q", q.double() * wide, want, tolerance=2**-4)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
