"""C = A @ W^T with weights of 4 bits, a quarter of the bytes: for gemms that wait for them.

The tensor core reads the weights from registers, as its product is C^T: few rows of A are few
columns, which it has from eight on. They lie in memory in the order of its fragments: a word of 32
bits is what a thread holds of 16 x 16 weights, and two that share a register are 16 bits apart, so
that one operation makes both. ``group`` consecutive ones of a row share a scale. Tiles of words and
of scales arrive ahead of the work on them, and leave the L2 cache first. Blocks share K where there
are few of them; their sums are added up afterwards, by blocks that are launched before.

* ``int4``: whole numbers of -8 to 7, a scale of A's type for 64 of them (as of GPTQ and AWQ).
* ``fp4``: float4_e2m1fn, a power of two for 32 of them (MXFP4 of the OCP Microscaling Formats).

    python gemm_dequantize.py [--weights int4] [--m 40] [--n 200] [--k 512] [--dtype float16]
                              [--target sm_90a] [--device cpu]
"""

import functools

import torch

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of tables: rows of A, rows of W, columns of both
SHAPES = (
    (64, 8192, 8192),
    (16, 8192, 8192),
    (1, 11008, 4096),
    (128, 4096, 14336),
    (256, 8192, 8192),
)

#: weights: how many share a scale
GROUPS = {"int4": 64, "fp4": 32}
#: where the codes of fp4 lie in a half of a word: the bit of the sign, the first of the others
FP4_BITS = ((15, 9), (12, 6), (14, 3), (13, 0))
#: the values of float4_e2m1fn by their codes
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def decode(word, place, weights, dtype):
    """Returns the weights whose codes begin at bits 4 * ``place`` and 16 + 4 * ``place`` of a word.

    The bits of a code become those of a number without a conversion, which few units do.
    """
    pair = {"float16": T.float16x2, "bfloat16": T.bfloat16x2}[dtype]
    word = T.cast(word, "uint32")
    if weights == "int4":
        # With the sign flipped, code + 8 is the end of the fraction of 2**10, in bfloat16 2**7; a
        # code that lies higher by 4 bits, for which bfloat16 has no room, is that of 2**6.
        if dtype == "bfloat16":
            bits = word >> (4 * place) & 0x000F000F ^ 0x43084308
            return T.reinterpret(bits, pair) - T.cast(136.0, dtype)
        low, word = place % 2 == 0, word >> (place // 2 * 8)
        bits = T.if_then_else(low, word & 0x000F000F ^ 0x64086408, word & 0x00F000F0 ^ 0x54805480)
        return T.reinterpret(bits, pair) - T.if_then_else(low, T.float16(1032), T.float16(72))
    # Sign, two bits of exponent and one of the fraction, as those of the smallest numbers.
    size, least = (0x0E000E00, 2.0**14) if dtype == "float16" else (0x01C001C0, 2.0**126)
    bits = T.Select(place == 0, of_fp4(word, 0, size), of_fp4(word, 1, size))
    for last in range(2, 4):
        bits = T.Select(place == last, of_fp4(word, last, size), bits)
    return T.reinterpret(bits, pair) * T.cast(least, dtype)


def of_fp4(word, place, size):
    """Returns the bits of two codes of :data:`FP4_BITS`: signs at the top, the rest at ``size``."""
    sign, rest = FP4_BITS[place]
    up = (size & -size).bit_length() - 1 - rest
    moved = word << up if up >= 0 else word >> -up
    if up == 15 - sign:
        return moved & (0x80008000 | size)
    return word << (15 - sign) & 0x80008000 | moved & size


def power_of_two(exponent, dtype):
    """Returns 2 ** (exponent - 127) of a uint8; zero or infinity beyond the numbers of the type."""
    exponent, fraction = T.cast(exponent, "int32"), 7
    if dtype == "float16":
        exponent, fraction = T.max(T.min(exponent - 112, 31), 0), 10
    return T.reinterpret(T.cast(exponent << fraction, "uint16"), dtype)


def tiles(M, N, K, target):
    """Returns the sizes of tiles, and how many blocks share K, as keywords."""
    sms = CUDA(target).compute_max_core
    if M > 64:  # one block a multiprocessor
        even = -(-M // 128) % 2 == 0  # each weight is made once for 256 rows of A
        first = {"block_M": 256 if even else 128, "block_N": 128, "stages": 3 if even else 4}
        sizes, work = shared({**first, "block_K": 128, "threads": 256}, M, N, K, sms, 1)
        other = {"block_M": 128, "block_N": 192, "block_K": 128, "stages": 4, "threads": 384}
        others, less = shared(other, M, N, K, sms, 1)
    else:  # two; four where that divides the work more evenly
        rows = next(m for m in (8, 16, 32, 64) if m >= M)
        first = {"block_M": rows, "block_N": 64, "block_K": 128 if rows == 64 else 256}
        sizes, work = shared(first, M, N, K, sms, 2)
        if rows > 16:
            return sizes
        others, less = shared({**first, "block_K": 128}, M, N, K, sms, 4)
    return others if less < 0.9 * work else sizes


def shared(sizes, M, N, K, sms, at_once):
    """Returns them with how many blocks share K, and the products of one multiprocessor."""
    blocks = -(-M // sizes["block_M"]) * -(-N // sizes["block_N"])
    parts = max(1, min(8, -(-K // sizes["block_K"]), at_once * sms // blocks))
    columns = -(-K // (parts * sizes["block_K"])) * sizes["block_K"]
    products = -(-blocks * parts // sms) * columns * sizes["block_M"] * sizes["block_N"]
    return {**sizes, "parts": parts}, products


def gemm_dequantize(
    M, N, K, weights, dtype, block_M=64, block_N=64, block_K=128, parts=1, stages=4, threads=128
):
    """Returns C (M, N) = A (M, K) @ W (N, K)^T as a prim_func; A and C are of ``dtype``.

    W is what :func:`words_of` makes, Scales (K / group, N): of ``dtype`` for int4, for fp4 uint8,
    the exponent of 2 plus 127. K is a multiple of 64. Sums (parts, M, N) float32 is for those of
    blocks.
    """
    group = GROUPS[weights]
    scale_dtype = dtype if weights == "int4" else "uint8"
    steps = T.ceildiv(T.ceildiv(K, block_K), parts)
    policy = "evict_first" if block_M >= M else None  # words that nobody reads again

    @T.prim_func
    def gemm_dequantize(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((T.ceildiv(N, 16), K // 64, 128), "int32"),
        Scales: T.Tensor((K // group, N), scale_dtype),
        Sums: T.Tensor((parts, M, N), "float32"),
        C: T.Tensor((M, N), dtype),
    ):
        grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M), parts
        with T.Kernel(*grid, threads=threads) as (bx, by, part):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            words = T.alloc_shared((block_N // 16, block_K // 64, 128), "int32")
            scales = T.alloc_shared((block_K // group, block_N), scale_dtype)
            W_local = T.alloc_fragment((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_N, block_M), "float32")
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            T.annotate_layout({words: tilelang.layout.make_linear_layout(words)})

            T.clear(C_local)
            for step in T.Pipelined(steps, num_stages=stages):
                k = part * steps + step
                T.copy(A[by * block_M, k * block_K], A_shared)
                corner = bx * (block_N // 16), k * (block_K // 64), 0
                T.copy(W[corner], words, eviction_policy=policy)
                T.copy(Scales[k * (block_K // group), bx * block_N], scales)
                for i, j in T.Parallel(block_N, block_K // 2):
                    word = words[i // 16, j // 32, i % 8 * 16 + j % 4 * 4 + j // 8 % 4]
                    pair = decode(word, j // 4 % 2 * 2 + i // 8 % 2, weights, dtype)
                    scale = scales[j * 2 // group, i]
                    if weights == "fp4":
                        scale = power_of_two(scale, dtype)
                    W_local[i, 2 * j : 2 * j + 2] = pair * scale
                T.gemm(W_local, A_shared, C_local, transpose_B=True)
            for i, j in T.Parallel(block_N, block_M):
                if parts == 1:
                    C_shared[j, i] = C_local[i, j]
                elif (bx * block_N + i < N) & (by * block_M + j < M):
                    Sums[part, by * block_M + j, bx * block_N + i] = C_local[i, j]
            if parts == 1:
                T.copy(C_shared, C[by * block_M, bx * block_N])
        if parts > 1:
            add_up(Sums, C)

    return gemm_dequantize


@T.macro
def add_up(Sums, C):
    """C (M, N) is the sum of Sums (parts, M, N) over the first dimension, of the grid before."""
    parts, M, N = Sums.shape
    with T.Kernel(T.ceildiv(N, 256), M, threads=128) as (bx, row):
        total = T.alloc_fragment((256,), "float32")
        T.clear(total)
        T.pdl_sync()
        for part in T.serial(parts):
            for j in T.Parallel(256):
                if bx * 256 + j < N:
                    total[j] += Sums[part, row, bx * 256 + j]
        T.copy(total, C[row, bx * 256])


def words_of(codes, weights):
    """Returns codes of 4 bits (N, K) uint8 as the kernel takes them: (N / 16, K / 64, 128) int32.

    Word 4 t + s of 16 x 64 codes is what thread t of a warp holds for columns 16 s to 16 s + 15: of
    rows t / 4 and 8 more, and of columns 2 (t mod 4) and 8 more. The lower half of the word is of
    these columns, rows first, the upper half of the columns beside them.
    """
    n, k = codes.shape
    whole = torch.nn.functional.pad(codes, (0, 0, 0, -n % 16)).int()
    # tile, row / 8, row; tile, s, column / 8, column / 2, column
    split = whole.view(-1, 2, 8, k // 64, 4, 2, 4, 2).permute(0, 3, 2, 6, 4, 7, 5, 1)
    places = split.reshape(-1, k // 64, 128, 2, 4).unbind(-1)
    if weights == "fp4":
        bits = zip(places, FP4_BITS, strict=True)
        placed = [(code >> 3) << sign | (code & 7) << rest for code, (sign, rest) in bits]
    else:
        placed = [code << 4 * place for place, code in enumerate(places)]
    low, high = torch.stack(placed).sum(0, dtype=torch.int32).unbind(-1)
    return low | high << 16


def values_of(codes, scales, weights):
    """Returns what codes (N, K) uint8 and scales (K / group, N) mean: (N, K) float64."""
    if weights == "int4":
        values, means = (codes.to(torch.int8) << 4 >> 4).double(), scales.double()
    else:
        values = E2M1.double().to(codes.device)[codes.long()]
        means = torch.exp2(scales.double() - 127)
    return values * means.T.repeat_interleave(GROUPS[weights], 1)


def random_weights(example, n, k):
    """Returns W and its scales as the kernel takes them, and what both mean, in float64."""
    args = example.args
    codes = example.integers(0, 16, n, k, dtype="uint8")
    size = k // GROUPS[args.weights], n
    if args.weights == "int4":
        scales = example.normal(*size, dtype=args.dtype)
    else:
        scales = example.integers(123, 131, *size, dtype="uint8")
    return words_of(codes, args.weights), scales, values_of(codes, scales, args.weights)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        weights=Option("format of the weights", "int4", choices=tuple(GROUPS)),
        m=Option("rows of A and C", 40, 64),
        n=Option("rows of W, columns of C", 200, 8192),
        k=Option("columns of A and W", 512, 8192, multiple=64),
        dtype=Option("element type of A and C", "float16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(m, n, k):
        blocks = tiles(m, n, k, args.target)
        kernel = example.compile(gemm_dequantize(m, n, k, args.weights, args.dtype, **blocks))
        a = example.normal(m, k, dtype=args.dtype)
        w, scales, exact = random_weights(example, n, k)
        rounded = exact.to(a.dtype)  # as products of weights and scales round
        c = example.output(m, n, dtype=args.dtype)
        sums = example.output(blocks["parts"], m, n)
        run = functools.partial(kernel, a, w, scales, sums, c)
        peers = {"cuBLAS, whole": lambda: a @ rounded.T}
        return Case(run, peers, flops=2 * m * n * k), (a, rounded), c

    line, (a, rounded), c = case(args.m, args.n, args.k)
    line.run()
    example.check("C", c, a.double() @ rounded.double().T)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
