"""C = A @ W^T with weights of 4 bits, a quarter of the bytes: for gemms that wait for them.

Two weights lie in a byte, and ``group`` consecutive ones of a row share a scale. A tile of weights
is loaded as it is; threads convert and scale it into a tile of A's type, which the tensor core
reads.

* ``int4``: whole numbers of -8 to 7, a scale of A's type for 64 of them (as GPTQ and AWQ store
  them).
* ``fp4``: float4_e2m1fn, a power of two for 32 of them (MXFP4 of the OCP Microscaling Formats).

    python gemm_dequantize.py [--weights int4] [--m 40] [--n 200] [--k 512] [--dtype float16]
                              [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option

#: weights: their type, that of a scale (None for that of A), and how many share a scale
FORMATS = {"int4": (T.int4, None, 64), "fp4": (T.float4_e2m1fn, T.float8_e8m0fnu, 32)}
#: the values of float4_e2m1fn by their codes
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def gemm_dequantize(M, N, K, weights, dtype, block_M=64, block_N=128, block_K=64, threads=128):
    """Returns C (M, N) = A (M, K) @ W (N, K)^T as a prim_func; A and C are of ``dtype``.

    ``Scales`` is (N, K / group). ``weights`` names the format, see ``FORMATS``.
    """
    stored, scale_dtype, group = FORMATS[weights]

    @T.prim_func
    def gemm_dequantize(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), stored),
        Scales: T.Tensor((N, K // group), scale_dtype or dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            W_shared = T.alloc_shared((block_N, block_K), stored)
            W_scaled = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K], W_shared)
                for i, j in T.Parallel(block_N, block_K):
                    scale = Scales[bx * block_N + i, (k * block_K + j) // group]
                    W_scaled[i, j] = T.cast(W_shared[i, j], dtype) * T.cast(scale, dtype)
                T.gemm(A_shared, W_scaled, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_dequantize


def random_weights(example, weights):
    """Returns W as the kernel takes it, its scales, and what both mean, in float64."""
    args = example.args
    codes = example.integers(0, 16, args.n, args.k, dtype="uint8")
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    group = FORMATS[weights][2]
    if weights == "int4":
        values = (codes.to(torch.int8) << 4 >> 4).double()
        scales = example.normal(args.n, args.k // group, dtype=args.dtype)
        means = scales.double()
    else:
        values = E2M1.double().to(args.device)[codes.long()]
        scales = example.integers(123, 131, args.n, args.k // group, dtype="uint8")
        means = torch.exp2(scales.double() - 127)
    return packed, scales, values * means.repeat_interleave(group, 1)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        weights=Option("format of the weights", "int4", choices=tuple(FORMATS)),
        m=Option("rows of A and C", 40, 64),
        n=Option("rows of W, columns of C", 200, 8192),
        k=Option("columns of A and W, a multiple of the group", 512, 8192),
        dtype=Option("element type of A and C", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    kernel = example.compile(gemm_dequantize(args.m, args.n, args.k, args.weights, args.dtype))
    a = example.normal(args.m, args.k, dtype=args.dtype)
    w, scales, exact = random_weights(example, args.weights)
    c = example.output(args.m, args.n, dtype=args.dtype)
    kernel(a, w, scales, c)
    # Products of weights and scales round to the element type.
    rounded = exact.to(a.dtype)
    example.check("C", c, a.double() @ rounded.double().T)
    flops = 2 * args.m * args.n * args.k
    peer = {"torch, whole": lambda: a @ rounded.T}
    example.speed(lambda: kernel(a, w, scales, c), peer, flops=flops)


if __name__ == "__main__":
    main()
