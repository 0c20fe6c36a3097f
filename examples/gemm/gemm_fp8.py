"""C = (A * scales) @ (B * scales)^T of float8, its sums kept in float32.

Rows of A and of B come with a scale each, which makes the most of the few values of float8. The
scales are multiplied into the sums. The tensor core of Hopper keeps 13 bits of a sum of float8:
with promote_every= it sums so many products along K, and the threads add these sums in float32.

    python gemm_fp8.py [--m 200] [--n 136] [--k 2048] [--dtype float8_e4m3fn]
                       [--promote_every 128] [--target sm_90a] [--device cpu]
"""

import functools
import math

import torch

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, rows of B, columns of both
SHAPES = (
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 14336, 4096),
    (2048, 7168, 2048),
    (1000, 4096, 8192),
    (128, 8192, 8192),
)


def tiles(promote_every, target):
    """Returns tiles and stages that registers and shared memory have room for.

    The sums of the tensor core and those of the threads are registers of their own; where results
    are staged, shared memory holds them, too.
    """
    wide = not promote_every and target == "sm_90a"
    return {"block_N": 256, "num_stages": 3, "group": 12} if wide else {}


def gemm_fp8(
    M, N, K, promote_every, dtype, out_dtype, block_M=128, block_N=128, block_K=128, threads=256,
    num_stages=4, blocks=132, group=8,
):  # fmt: skip
    """Returns C (M, N) = A (M, K) @ B (N, K)^T of ``dtype``, scaled, as a prim_func.

    ``promote_every`` divides ``block_K``; 0 leaves the sums to the tensor core. ScaleA (M,) and
    ScaleB (N,) are float32. Each of ``blocks`` computes one tile after another, and loads for the
    next one while it stores the last.
    """
    promotion = {"promote_every": promote_every} if promote_every else {}

    @T.prim_func
    def gemm_fp8(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        ScaleA: T.Tensor((M,), "float32"),
        ScaleB: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), out_dtype),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_shared = T.alloc_shared((block_M, block_N), "bfloat16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            scale_a = T.alloc_fragment((block_M,), "float32")
            scale_b = T.alloc_fragment((block_N,), "float32")

            sizes = [T.ceildiv(M, block_M), T.ceildiv(N, block_N)]
            for by, bx in T.Persistent(sizes, blocks, block, group_size=group):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * block_K], A_shared)
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_B=True, **promotion)
                T.copy(ScaleA[by * block_M], scale_a)
                T.copy(ScaleB[bx * block_N], scale_b)
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] *= scale_a[i] * scale_b[j]
                if out_dtype == "float32":  # too many bytes to stage
                    T.copy(C_local, C[by * block_M, bx * block_N])
                else:
                    T.copy(C_local, C_shared)
                    T.copy(C_shared, C[by * block_M, bx * block_N])

    return gemm_fp8


def quantized(x, dtype):
    """Returns the rows of ``x`` scaled to the range of a torch dtype, and float32 scales."""
    scales = x.abs().amax(1) / torch.finfo(dtype).max
    return (x / scales[:, None]).to(dtype), scales


def error_of_sums(products, target):
    """Returns how large errors of such sums of the tensor core may be beside the largest result.

    An instruction adds 32 products to a sum, all cut off at ``bits`` binary places below the
    largest of them. What is cut off is spread evenly, with the signs of 33 numbers: together
    sqrt(33 / 3) units of the last place. On its way to n products a sum is about sqrt(n / 2) of
    them large, and n / 32 instructions make errors whose squares add up:
    2 ** -bits * sqrt(11 * n / 32 * n / 2) of a product, where the sum is sqrt(n). That is
    2 ** -bits * sqrt(n / 6) of the sum, of which twice is allowed; as much of sums of such sums.
    """
    bits = 13 if target == "sm_90a" else 23
    return 2.0 ** (1 - bits) * math.sqrt(max(products, 32) / 6)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        targets=("sm_90a", "sm_100a"),  # sm_80 has no float8
        m=Option("rows of A and C", 200, 4096),
        n=Option("rows of B, columns of C", 136, 4096),
        k=Option("columns of A and B", 2048, 4096),
        dtype=Option("element type", "float8_e4m3fn", choices=("float8_e4m3fn", "float8_e5m2")),
        out_dtype=Option("element type of C", "float32", "bfloat16", ("float32", "bfloat16")),
        promote_every=Option(
            "products summed by the tensor core; 0 for all", 128, choices=(0, 32, 64, 128), least=0
        ),
    )
    args = example.args
    blocks, kind = CUDA(args.target).compute_max_core, getattr(torch, args.dtype)

    def case(m, n, k):
        chosen = tiles(args.promote_every, args.target)
        options = args.promote_every, args.dtype, args.out_dtype
        kernel = example.compile(gemm_fp8(m, n, k, *options, **chosen, blocks=blocks))
        a, scale_a = quantized(example.normal(m, k), kind)
        b, scale_b = quantized(example.normal(n, k), kind)
        c = example.output(m, n, dtype=args.out_dtype)

        def by_torch():
            scales = scale_a[:, None], scale_b[None, :]
            fast = not args.promote_every  # sums of the same accuracy
            return torch._scaled_mm(a, b.T, *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)

        run = functools.partial(kernel, a, b, scale_a, scale_b, c)
        inputs = a, b, scale_a, scale_b
        return Case(run, {"torch._scaled_mm": by_torch}, flops=2 * m * n * k), inputs, c

    line, (a, b, scale_a, scale_b), c = case(args.m, args.n, args.k)
    line.run()
    want = (a.double() * scale_a[:, None]) @ (b.double() * scale_b[:, None]).T
    products = min(args.k, args.promote_every or args.k)
    example.check("C", c, want, error_of_sums(products, args.target))
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
