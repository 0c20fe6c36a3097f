"""A layer of experts: each token goes through ``k`` of them, and their results are weighed.

    y = sum over the k experts e of token x:  weight_e  (silu(x Gate_e) * (x Up_e)) Down_e

Pairs of a token and an expert are sorted by expert, each expert's padded to whole tiles of rows;
``Pairs`` names the pair of each row, -1 in the padding, and ``Experts`` the expert of each tile.
The first launch gathers tokens as rows of its tiles and fuses both gemms with the gate; the second
multiplies by Down and scatters weighed rows; the third adds the k rows of each token up, in the
same order every time.

On a GPU the peers are torch: one expert after another, and its ``grouped_mm`` of all.

    python fused_moe.py [--tokens 70] [--experts 4] [--k 2] [--hidden 128] [--width 96]
                        [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

#: rows of a tile
BLOCK = 64

#: of tables: tokens, experts, those of a token, elements of a token, columns of Gate and Up
SHAPES = (
    (4096, 32, 4, 2048, 1024),
    (4096, 64, 8, 2048, 1408),
    (8192, 8, 2, 4096, 14336),
    (512, 64, 6, 2048, 1408),
    (64, 128, 8, 2048, 768),
)


@T.macro
def gate_and_up(X, Gate, Up, Pairs, Experts, H, k, block_N, block_K, threads, dtype):
    """H (rows, width) = silu(tokens @ Gate[expert]) * (tokens @ Up[expert])."""
    hidden, width = X.shape[1], H.shape[1]
    grid = T.ceildiv(width, block_N), Experts.shape[0]
    with T.Kernel(*grid, threads=threads) as (bx, tile):
        x = T.alloc_shared((BLOCK, block_K), dtype)
        gate, up = (T.alloc_shared((block_K, block_N), dtype) for _ in range(2))
        gate_sum, up_sum = (T.alloc_fragment((BLOCK, block_N), "float32") for _ in range(2))
        pairs = T.alloc_shared((BLOCK,), "int32")
        expert = Experts[tile]

        T.copy(Pairs[tile * BLOCK : (tile + 1) * BLOCK], pairs)
        T.clear(gate_sum)
        T.clear(up_sum)
        for n in T.Pipelined(T.ceildiv(hidden, block_K), num_stages=2):
            for i, j in T.Parallel(BLOCK, block_K):  # rows of padding are zeros
                x[i, j] = T.if_then_else(
                    pairs[i] >= 0, X[T.max(pairs[i], 0) // k, n * block_K + j], 0
                )
            T.copy(Gate[expert, n * block_K, bx * block_N], gate)
            T.copy(Up[expert, n * block_K, bx * block_N], up)
            T.gemm(x, gate, gate_sum)
            T.gemm(x, up, up_sum)
        for i, j in T.Parallel(BLOCK, block_N):
            up_sum[i, j] *= gate_sum[i, j] / (1 + T.exp(-gate_sum[i, j]))
        T.copy(up_sum, H[tile * BLOCK, bx * block_N])


@T.macro
def down(H, Down, Weights, Pairs, Experts, Parts, block_N, block_K, threads, dtype):
    """Parts (pairs, hidden) = weight * (rows of H @ Down[expert])."""
    width, hidden = H.shape[1], Parts.shape[1]
    with T.Kernel(T.ceildiv(hidden, block_N), Experts.shape[0], threads=threads) as (bx, tile):
        h = T.alloc_shared((BLOCK, block_K), dtype)
        w = T.alloc_shared((block_K, block_N), dtype)
        sums = T.alloc_fragment((BLOCK, block_N), "float32")
        pairs = T.alloc_shared((BLOCK,), "int32")
        expert = Experts[tile]

        T.copy(Pairs[tile * BLOCK : (tile + 1) * BLOCK], pairs)
        T.clear(sums)
        for n in T.Pipelined(T.ceildiv(width, block_K), num_stages=3):
            T.copy(H[tile * BLOCK, n * block_K], h)
            T.copy(Down[expert, n * block_K, bx * block_N], w)
            T.gemm(h, w, sums)
        for i, j in T.Parallel(BLOCK, block_N):
            if pairs[i] >= 0:
                Parts[pairs[i], bx * block_N + j] = sums[i, j] * Weights[pairs[i]]


def fused_moe(
    tokens, tiles, experts, k, hidden, width, dtype, block_N=128, block_K=64, threads=128
):
    """Returns a prim_func of X, Gate, Up, Down, Weights, Pairs, Experts and Y.

    X and Y are (tokens, hidden); Gate and Up (experts, hidden, width), Down (experts, width,
    hidden); Weights (tokens * k,) float32; Pairs (tiles * BLOCK,) and Experts (tiles,) int32.
    """
    rows, block_Y = tiles * BLOCK, 256

    @T.prim_func
    def fused_moe(
        X: T.Tensor((tokens, hidden), dtype),
        Gate: T.Tensor((experts, hidden, width), dtype),
        Up: T.Tensor((experts, hidden, width), dtype),
        Down: T.Tensor((experts, width, hidden), dtype),
        Weights: T.Tensor((tokens * k,), "float32"),
        Pairs: T.Tensor((rows,), "int32"),
        Experts: T.Tensor((tiles,), "int32"),
        Y: T.Tensor((tokens, hidden), dtype),
    ):
        H = T.alloc_global((rows, width), dtype)
        Parts = T.alloc_global((tokens * k, hidden), "float32")
        gate_and_up(X, Gate, Up, Pairs, Experts, H, k, block_N, block_K, threads, dtype)
        down(H, Down, Weights, Pairs, Experts, Parts, block_N, block_K, threads, dtype)
        with T.Kernel(T.ceildiv(hidden, block_Y), tokens, threads=threads) as (bx, token):
            y = T.alloc_fragment((block_Y,), "float32")
            T.clear(y)
            for n in T.serial(k):
                for j in T.Parallel(block_Y):
                    y[j] += Parts[token * k + n, bx * block_Y + j]
            T.copy(y, Y[token, bx * block_Y])

    return fused_moe


def sort_by_expert(chosen, experts, block=BLOCK):
    """Returns Pairs and Experts (int32) of the choices (tokens, k), in tiles of ``block`` rows."""
    expert = chosen.flatten()
    pairs, of_tiles = [], []
    for e in range(experts):
        own = (expert == e).nonzero().flatten()
        tiles = -(-len(own) // block)
        pairs.append(torch.nn.functional.pad(own, (0, tiles * block - len(own)), value=-1))
        of_tiles += [e] * tiles
    return torch.cat(pairs).int(), torch.tensor(of_tiles, dtype=torch.int32, device=chosen.device)


def reference(x, gate, up, down, weights, chosen):
    """Returns Y, of the type of the arguments."""
    y = torch.zeros_like(x)
    for e in range(len(gate)):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        h = torch.nn.functional.silu(x[token] @ gate[e]) * (x[token] @ up[e])
        y.index_add_(0, token, (h @ down[e]) * weights[token, slot, None].to(x.dtype))
    return y


def grouped(x, gate, up, down, weights, chosen):
    """Returns Y by ``grouped_mm`` of torch: tokens sorted by expert, each gemm of all experts."""
    product = torch.nn.functional.grouped_mm
    order = chosen.flatten().argsort(stable=True)
    ends = chosen.flatten().bincount(minlength=len(gate)).cumsum(0).int()
    token = order // chosen.shape[1]
    rows = x[token]
    h = torch.nn.functional.silu(product(rows, gate, offs=ends)) * product(rows, up, offs=ends)
    parts = product(h, down, offs=ends) * weights.flatten()[order, None]
    return torch.zeros_like(x, dtype=torch.float32).index_add_(0, token, parts.float()).to(x.dtype)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        tokens=Option("tokens", 70, 4096),
        experts=Option("experts", 4, 32),
        k=Option("experts of a token", 2, 4),
        hidden=Option("elements of a token", 128, 2048),
        width=Option("columns of Gate and Up", 96, 1024),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args
    example.require(args.k <= args.experts, f"--k is {args.k}: give at most --experts")

    def case(tokens, experts, k, hidden, width):
        x = example.normal(tokens, hidden, dtype=args.dtype)
        of_weights = {"dtype": args.dtype, "scale": hidden**-0.5}
        gate, up = (example.normal(experts, hidden, width, **of_weights) for _ in range(2))
        back = example.normal(experts, width, hidden, **of_weights)
        weights, chosen = example.normal(tokens, experts).softmax(1).topk(k)
        pairs, of_tiles = sort_by_expert(chosen, experts)
        sizes = tokens, len(of_tiles), experts, k, hidden, width
        kernel = example.compile(fused_moe(*sizes, args.dtype))
        y = example.output(*x.shape, dtype=args.dtype)
        operands = x, gate, up, back
        run = functools.partial(kernel, *operands, weights.flatten(), pairs, of_tiles, y)
        choice = weights, chosen
        peers = {
            "one by one": functools.partial(reference, *operands, *choice),
            "grouped_mm": functools.partial(grouped, *operands, *choice),
        }
        return Case(run, peers, flops=6 * tokens * k * hidden * width), operands, choice, y

    line, operands, choice, y = case(args.tokens, args.experts, args.k, args.hidden, args.width)
    line.run()
    x, gate, up, back = (z.double() for z in operands)
    example.check("Y", y, reference(x, gate, up, back, *choice), tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
