"""C = A @ B^T of float8 whose scales stand for blocks, as checkpoints of DeepSeek-V3 have them.

A row of A has a scale for each 128 columns, B one for each block of 128 x 128. The products of 128
columns are summed by the tensor core, scaled, and added in float32: more exact than one sum along
K, and outliers spoil no more than their block.

    python gemm_fp8_block_scaled.py [--m 200] [--n 200] [--k 1100] [--dtype float8_e4m3fn]
                                    [--target sm_90a] [--device cpu]
"""

import functools

import torch
from gemm_fp8 import error_of_sums

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, rows of B, columns of both
SHAPES = (
    (4096, 4096, 7168),
    (4096, 24576, 1536),
    (4096, 7168, 2048),
    (8192, 4096, 7168),
    (128, 7168, 16384),
)

SCALED = 128  # columns, and rows of B, that share a scale


def gemm_fp8_block_scaled(
    M, N, K, dtype, out_dtype, blocks, block_M=128, block_N=128, threads=256, num_stages=4
):
    """Returns C (M, N) = A (M, K) @ B (N, K)^T of ``dtype`` as a prim_func.

    ScaleA (ceil(K / 128), M), so that neighbours in memory are rows, and ScaleB (ceil(N / 128),
    ceil(K / 128)) are float32. ``block_N`` divides 128, so that a block has one scale of B. Each of
    ``blocks`` computes one tile after another.
    """
    depth = T.ceildiv(K, SCALED)
    grid = T.ceildiv(M, block_M), T.ceildiv(N, block_N)

    @T.prim_func
    def gemm_fp8_block_scaled(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        ScaleA: T.Tensor((depth, M), "float32"),
        ScaleB: T.Tensor((T.ceildiv(N, SCALED), depth), "float32"),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, SCALED), dtype)
            B_shared = T.alloc_shared((block_N, SCALED), dtype)
            scales = T.alloc_shared((block_M,), "float32")
            products = T.alloc_fragment((block_M, block_N), "float32")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            scale = T.alloc_fragment((block_M,), "float32")

            for by, bx in T.Persistent(grid, blocks, block, group_size=8):
                T.clear(C_local)
                for k in T.Pipelined(depth, num_stages=num_stages):
                    T.copy(A[by * block_M, k * SCALED], A_shared)
                    T.copy(B[bx * block_N, k * SCALED], B_shared)
                    T.copy(ScaleA[k, by * block_M], scales)
                    scale_b = ScaleB[bx * block_N // SCALED, k]
                    for i in T.Parallel(block_M):
                        scale[i] = scales[i] * scale_b
                    T.gemm(A_shared, B_shared, products, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(block_M, block_N):
                        C_local[i, j] += products[i, j] * scale[i]
                T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_fp8_block_scaled


def in_blocks(scales, rows, columns, height):
    """Returns the scale of each element of (rows, columns) whose blocks are height x 128."""
    return scales.repeat_interleave(height, 0)[:rows].repeat_interleave(SCALED, 1)[:, :columns]


def quantized(x, dtype, height):
    """Returns ``x`` in blocks of height x 128 scaled to the range of a torch dtype, and the scales.

    The scales are float32, (ceil(rows / height), ceil(columns / 128)).
    """
    rows, columns = x.shape
    padding = (0, -columns % SCALED, 0, -rows % height)
    blocks = torch.nn.functional.pad(x, padding).unflatten(1, (-1, SCALED))
    largest = blocks.unflatten(0, (-1, height)).abs().amax((1, 3))
    scales = largest.clamp_min(torch.finfo(torch.float32).tiny) / torch.finfo(dtype).max
    return (x / in_blocks(scales, rows, columns, height)).to(dtype), scales


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        targets=("sm_90a", "sm_100a"),  # sm_80 has no float8
        m=Option("rows of A and C", 200, 4096),
        n=Option("rows of B, columns of C", 200, 4096),
        k=Option("columns of A and B", 1100, 7168),
        dtype=Option("element type", "float8_e4m3fn", choices=("float8_e4m3fn", "float8_e5m2")),
        out_dtype=Option("element type of C", "float32", "bfloat16", ("float32", "bfloat16")),
    )
    args = example.args
    # Registers of three warpgroups hold 192 rows twice; tcgen05 takes 128 rows at a time.
    tile = {"block_M": 192, "threads": 384} if args.target == "sm_90a" else {}
    blocks, kind = CUDA(args.target).compute_max_core, getattr(torch, args.dtype)

    def case(m, n, k):
        sizes = m, n, k, args.dtype, args.out_dtype
        kernel = example.compile(gemm_fp8_block_scaled(*sizes, blocks, **tile))
        # Blocks of very different size, which one scale a row would not hold.
        spread = torch.exp2(torch.arange(k, device=args.device) // SCALED % 7 * 3.0)
        a, scale_a = quantized(example.normal(m, k) * spread, kind, 1)
        b, scale_b = quantized(example.normal(n, k) / spread, kind, SCALED)
        c = example.output(m, n, dtype=args.out_dtype)
        by_columns = scale_a.T.contiguous()

        def by_torch():
            scales = by_columns.T, scale_b.T
            return torch._scaled_mm(a, b.T, *scales, out_dtype=torch.bfloat16)

        run = functools.partial(kernel, a, b, by_columns, scale_b, c)
        inputs = a, b, scale_a, scale_b
        return Case(run, {"torch._scaled_mm": by_torch}, flops=2 * m * n * k), inputs, c

    line, (a, b, scale_a, scale_b), c = case(args.m, args.n, args.k)
    line.run()
    want = (a.double() * in_blocks(scale_a, args.m, args.k, 1)) @ (
        b.double() * in_blocks(scale_b, args.n, args.k, SCALED)
    ).T
    example.check("C", c, want, error_of_sums(min(args.k, SCALED), args.target))
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
