"""C = A @ W^T with weights of 4 bits, a quarter of the bytes: for gemms that wait for them.

Eight weights lie in a word of 32 bits, the first in its lowest bits, and ``group`` consecutive ones
of a row share a scale. Tiles of words and of scales arrive ahead of the work on them. Threads make
weights of A's type in the registers from which the tensor core reads them: its product is C^T, so
that few rows of A are few columns, which it has from eight on. Blocks share K where there are few
of them; their sums are added up afterwards.

* ``int4``: whole numbers of -8 to 7, a scale of A's type for 64 of them (as of GPTQ and AWQ).
* ``fp4``: float4_e2m1fn, a power of two for 32 of them (MXFP4 of the OCP Microscaling Formats).

    python gemm_dequantize.py [--weights int4] [--m 40] [--n 200] [--k 512] [--dtype float16]
                              [--target sm_90a] [--device cpu]
"""

import torch

import tilelang
import tilelang.language as T
from tilelang.tools.example import Example, Option

#: weights: how many share a scale
GROUPS = {"int4": 64, "fp4": 32}
#: the values of float4_e2m1fn by their codes
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
#: type: bits of the fraction, and of the exponent of 2 to that many, of which one is the last bit
FORMATS = {"float16": (10, 0x6400), "bfloat16": (7, 0x4300)}


def decode(pair, high, weights, dtype):
    """Returns the value of the lower or the ``high`` code of a byte (int32), as ``dtype``.

    The bits of a code become those of a number without a conversion, which few units do.
    """
    fraction, one = FORMATS[dtype]
    if high and fraction < 8:  # which has no room for the higher code as it stands
        pair, high = pair >> 4, False
    shift = 4 * high
    if weights == "int4":
        # With the sign flipped, code + 8 is the end of the fraction of 2**fraction; the higher code
        # is that of a power of two less by 4.
        bits = pair & (15 << shift) ^ (one - (shift << fraction) | 8 << shift)
        return number(bits, dtype) - T.cast(2.0 ** (fraction - shift) + 8, dtype)
    # Sign, two bits of exponent and one of the fraction, as those of the smallest numbers.
    bits = (pair & (8 << shift)) << (12 - shift) | (pair & (7 << shift)) << (fraction - 1 - shift)
    bias = 15 if dtype == "float16" else 127
    return number(bits, dtype) * T.cast(2.0 ** (bias - 1), dtype)


def power_of_two(exponent, dtype):
    """Returns 2 ** (exponent - 127) of a uint8; zero or infinity beyond the numbers of the type."""
    exponent = T.cast(exponent, "int32")
    if dtype == "float16":
        exponent = T.max(T.min(exponent - 112, 31), 0)
    return number(exponent << FORMATS[dtype][0], dtype)


def number(bits, dtype):
    """Returns the number with the lower 16 of these bits."""
    return T.reinterpret(T.cast(bits, "uint16"), dtype)


def tiles(M, N, K):
    """Returns the sizes of tiles, and how many blocks share K, as keywords."""
    if -(-M // 128) % 2 == 0:  # each weight is made once for 256 rows of A
        blocks = -(-M // 256) * -(-N // 128)
        parts = 2 if 2 * blocks <= 132 and K % 128 == 0 else 1
        sizes = {"block_M": 256, "block_N": 128, "block_K": 64}
        return {**sizes, "parts": parts, "threads": 256}
    rows = next((m for m in (16, 32, 64) if m >= M), 128)
    blocks = -(-M // rows) * -(-N // 64)
    most = 640 if rows < 64 else 320  # four and two a multiprocessor
    parts = next((p for p in (8, 4, 2) if blocks * p <= most and K % (128 * p) == 0), 1)
    return {"block_M": rows, "block_K": 128 if rows <= 64 else 64, "parts": parts}


def gemm_dequantize(
    M, N, K, weights, dtype, block_M=64, block_N=64, block_K=128, parts=1, threads=128
):
    """Returns C (M, N) = A (M, K) @ W (N, K)^T as a prim_func; A and C are of ``dtype``.

    W is (N, K / 8) int32, Scales (K / group, N): of ``dtype`` for int4, for fp4 uint8, the exponent
    of 2 plus 127. K is a multiple of 64. Sums (parts, M, N) float32 is for those of blocks.
    """
    group = GROUPS[weights]
    scale_dtype = dtype if weights == "int4" else "uint8"
    steps = T.ceildiv(T.ceildiv(K, block_K), parts)

    @T.prim_func
    def gemm_dequantize(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 8), "int32"),
        Scales: T.Tensor((K // group, N), scale_dtype),
        Sums: T.Tensor((parts, M, N), "float32"),
        C: T.Tensor((M, N), dtype),
    ):
        grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts
        with T.Kernel(*grid, threads=threads) as (bx, by, part):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            words = T.alloc_shared((block_N, block_K // 8), "int32")
            scales = T.alloc_shared((block_K // group, block_N), scale_dtype)
            W_local = T.alloc_fragment((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_N, block_M), "float32")
            # Threads read single words: without a swizzle their addresses are constants apart.
            T.annotate_layout({words: tilelang.layout.make_linear_layout(words)})

            T.clear(C_local)
            for step in T.Pipelined(steps, num_stages=4):
                k = part * steps + step
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * (block_K // 8)], words)
                T.copy(Scales[k * (block_K // group), bx * block_N], scales)
                for i, j in T.Parallel(block_N, block_K // 2):
                    pair, scale = words[i, j // 4] >> (j % 4 * 8), scales[j * 2 // group, i]
                    if weights == "fp4":
                        scale = power_of_two(scale, dtype)
                    W_local[i, 2 * j] = decode(pair, False, weights, dtype) * scale
                    W_local[i, 2 * j + 1] = decode(pair, True, weights, dtype) * scale
                T.gemm(W_local, A_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(block_N, block_M):
                if (bx * block_N + i < N) & (by * block_M + j < M):
                    if parts == 1:
                        C[by * block_M + j, bx * block_N + i] = C_local[i, j]
                    else:
                        Sums[part, by * block_M + j, bx * block_N + i] = C_local[i, j]
        if parts > 1:
            with T.Kernel(T.ceildiv(N, 256), M, threads=128) as (bx, row):
                total = T.alloc_fragment((256,), "float32")
                T.clear(total)
                for part in T.serial(parts):
                    for j in T.Parallel(256):
                        if bx * 256 + j < N:
                            total[j] += Sums[part, row, bx * 256 + j]
                T.copy(total, C[row, bx * 256])

    return gemm_dequantize


def words_of(codes):
    """Returns codes of 4 bits (N, K) uint8 as the kernel takes them: (N, K / 8) int32."""
    return (codes[:, 0::2] | codes[:, 1::2] << 4).view(torch.int32)


def values_of(codes, scales, weights):
    """Returns what codes (N, K) uint8 and scales (K / group, N) mean: (N, K) float64."""
    if weights == "int4":
        values, means = (codes.to(torch.int8) << 4 >> 4).double(), scales.double()
    else:
        values = E2M1.double().to(codes.device)[codes.long()]
        means = torch.exp2(scales.double() - 127)
    return values * means.T.repeat_interleave(GROUPS[weights], 1)


def random_weights(example):
    """Returns W and its scales as the kernel takes them, and what both mean, in float64."""
    args = example.args
    codes = example.integers(0, 16, args.n, args.k, dtype="uint8")
    size = args.k // GROUPS[args.weights], args.n
    if args.weights == "int4":
        scales = example.normal(*size, dtype=args.dtype)
    else:
        scales = example.integers(123, 131, *size, dtype="uint8")
    return words_of(codes), scales, values_of(codes, scales, args.weights)


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
    sizes = args.m, args.n, args.k
    blocks = tiles(*sizes)
    kernel = example.compile(gemm_dequantize(*sizes, args.weights, args.dtype, **blocks))
    a = example.normal(args.m, args.k, dtype=args.dtype)
    w, scales, exact = random_weights(example)
    c = example.output(args.m, args.n, dtype=args.dtype)
    sums = example.output(blocks["parts"], args.m, args.n)
    kernel(a, w, scales, sums, c)
    # Products of weights and scales round to the element type.
    rounded = exact.to(a.dtype)
    example.check("C", c, a.double() @ rounded.double().T)
    flops = 2 * args.m * args.n * args.k
    peer = {"torch, whole": lambda: a @ rounded.T}
    example.speed(lambda: kernel(a, w, scales, sums, c), peer, flops=flops)


if __name__ == "__main__":
    main()
