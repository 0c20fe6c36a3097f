"""C = A @ W^T with weights of 4 bits, a quarter of the bytes: for gemms that wait for them.

Eight weights lie in a word of 32 bits, the first in its lowest bits, and ``group`` consecutive ones
of a row share a scale. Tiles of words and of scales arrive ahead of the work on them; threads make
a tile of A's type of them, which the tensor core reads.

* ``int4``: whole numbers of -8 to 7, a scale of A's type for 64 of them (as of GPTQ and AWQ).
* ``fp4``: float4_e2m1fn, a power of two for 32 of them (MXFP4 of the OCP Microscaling Formats).

    python gemm_dequantize.py [--weights int4] [--m 40] [--n 200] [--k 512] [--dtype float16]
                              [--target sm_90a] [--device cpu]
"""

import torch

import tilelang.language as T
from tilelang.tools.example import Example, Option

#: weights: how many share a scale
GROUPS = {"int4": 64, "fp4": 32}
#: the values of float4_e2m1fn by their codes
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def decode(code, weights):
    """Returns the value of a code of 4 bits (int32), as float32."""
    if weights == "int4":
        return T.cast((code ^ 8) - 8, "float32")
    # Sign, two bits of exponent and one of the fraction, as those of a float32 of 2**-126.
    tiny = T.reinterpret((code & 8) << 28 | (code & 7) << 22, "float32")
    return tiny * 2.0**126


def gemm_dequantize(M, N, K, weights, dtype, block_M=64, block_N=64, block_K=128, threads=128):
    """Returns C (M, N) = A (M, K) @ W (N, K)^T as a prim_func; A and C are of ``dtype``.

    W is (N, K / 8) int32, Scales (K / group, N): of ``dtype`` for int4, for fp4 uint8, the exponent
    of 2 plus 127. K is a multiple of 64.
    """
    group = GROUPS[weights]
    scale_dtype = dtype if weights == "int4" else "uint8"

    @T.prim_func
    def gemm_dequantize(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 8), "int32"),
        Scales: T.Tensor((K // group, N), scale_dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            words = T.alloc_shared((block_N, block_K // 8), "int32")
            scales = T.alloc_shared((block_K // group, block_N), scale_dtype)
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * (block_K // 8)], words)
                T.copy(Scales[k * (block_K // group), bx * block_N], scales)
                for i, j in T.Parallel(block_N, block_K // 8):
                    word, scale = words[i, j], scales[j * 8 // group, i]
                    if weights == "fp4":
                        scale = T.reinterpret(T.cast(scale, "int32") << 23, "float32")
                    for n in T.vectorized(8):
                        W_shared[i, j * 8 + n] = decode(word >> (4 * n) & 15, weights) * scale
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm_dequantize


def random_weights(example):
    """Returns W and its scales as the kernel takes them, and what both mean, in float64."""
    args = example.args
    group = GROUPS[args.weights]
    codes = example.integers(0, 16, args.n, args.k, dtype="uint8")
    words = (codes[:, 0::2] | codes[:, 1::2] << 4).view(torch.int32)
    if args.weights == "int4":
        values = (codes.to(torch.int8) << 4 >> 4).double()
        scales = example.normal(args.k // group, args.n, dtype=args.dtype)
        means = scales.double()
    else:
        values = E2M1.double().to(args.device)[codes.long()]
        scales = example.integers(123, 131, args.k // group, args.n, dtype="uint8")
        means = torch.exp2(scales.double() - 127)
    return words, scales, values * means.T.repeat_interleave(group, 1)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        weights=Option("format of the weights", "int4", choices=tuple(GROUPS)),
        m=Option("rows of A and C", 40, 64),
        n=Option("rows of W, columns of C", 200, 8192),
        k=Option("columns of A and W, a multiple of 64", 512, 8192),
        dtype=Option("element type of A and C", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args
    kernel = example.compile(gemm_dequantize(args.m, args.n, args.k, args.weights, args.dtype))
    a = example.normal(args.m, args.k, dtype=args.dtype)
    w, scales, exact = random_weights(example)
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
