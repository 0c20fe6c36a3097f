"""Q = rotary(A @ W^T): a projection whose pairs of adjacent columns turn by angles of the row.

Columns 2 j and 2 j + 1 of a head are the two coordinates of a point, which turns by the position
times a frequency of j. A thread has both columns of a pair, on every target.

    python rotary_gemm.py [--m 200] [--heads 3] [--dim 64] [--k 328] [--dtype bfloat16]
                          [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: of tables: positions, heads, columns of a head, columns of A
SHAPES = (
    (4096, 32, 128, 4096),
    (8192, 16, 64, 1024),
    (16384, 8, 128, 4096),
    (1000, 40, 128, 5120),
    (2048, 64, 128, 8192),
)


def rotary_gemm(
    M, heads, dim, K, dtype, block_M=128, block_N=256, block_K=64, threads=256, num_stages=4
):
    """Returns Q (M, heads * dim) of A (M, K) @ W (heads * dim, K)^T as a prim_func.

    ``cos`` and ``sin`` (M, dim / 2) are float32, the others of ``dtype``. A block computes whole
    heads: ``dim`` divides ``block_N``.
    """
    N = heads * dim

    @T.prim_func
    def rotary_gemm(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        cos: T.Tensor((M, dim // 2), "float32"),
        sin: T.Tensor((M, dim // 2), "float32"),
        Q: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            q = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                T.gemm(A_shared, W_shared, c, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N // 2):
                x, y = c[i, 2 * j], c[i, 2 * j + 1]
                along = cos[by * block_M + i, j % (dim // 2)]
                across = sin[by * block_M + i, j % (dim // 2)]
                q[i, 2 * j] = x * along - y * across
                q[i, 2 * j + 1] = y * along + x * across
            T.copy(q, Q[by * block_M, bx * block_N])

    return rotary_gemm


def angles(positions, dim, device):
    """Returns cos and sin (positions, dim / 2) in float32."""
    frequencies = 10000.0 ** (-2 * torch.arange(dim // 2, device=device).double() / dim)
    turned = torch.arange(positions, device=device).double()[:, None] * frequencies
    return turned.cos().float(), turned.sin().float()


def reference(a, w, cos, sin, dim):
    """Returns the same by torch."""
    pairs = (a @ w.T).unflatten(1, (-1, dim // 2, 2))
    x, y = pairs[..., 0], pairs[..., 1]
    along, across = cos[:, None, :], sin[:, None, :]
    turned = torch.stack([x * along - y * across, y * along + x * across], dim=-1)
    return turned.flatten(1).to(a.dtype)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        m=Option("rows of A and Q, positions", 200, 4096),
        heads=Option("heads", 3, 32),
        dim=Option("columns of a head", 64, 128, choices=(32, 64, 128)),
        k=Option("columns of A and W", 328, 4096),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    old = {"block_N": 128, "num_stages": 3} if args.target == "sm_80" else {}
    compiled = example.compiled(reference)

    def case(m, heads, dim, k):
        n = heads * dim
        kernel = example.compile(rotary_gemm(m, heads, dim, k, args.dtype, **old))
        a = example.normal(m, k, dtype=args.dtype)
        w = example.normal(n, k, dtype=args.dtype, scale=k**-0.5)
        cos, sin = angles(m, dim, a.device)
        q = example.output(m, n, dtype=args.dtype)
        peers = {
            "torch": lambda: reference(a, w, cos, sin, dim),
            "compiled": lambda: compiled(a, w, cos, sin, dim),
        }
        run = functools.partial(kernel, a, w, cos, sin, q)
        return Case(run, peers, flops=2 * m * n * k), (a, w, cos, sin), q

    line, inputs, q = case(args.m, args.heads, args.dim, args.k)
    line.run()
    a, w, cos, sin = (x.double() for x in inputs)
    example.check("Q", q, reference(a, w, cos, sin, args.dim))
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
