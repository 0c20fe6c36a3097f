"""A layer of experts as fused_moe.py, of nvfp4: weights, tokens, and what is between the gemms.

    y = sum over the k experts e of token x:  weight_e  (silu(x Gate_e) * (x Up_e)) Down_e

Each 16 elements share a float8 factor, by which the tensor core multiplies them; factors lie in
atoms of 128 rows. A first launch gathers tokens as rows of experts, padded to whole tiles, and
quantises them. The second multiplies by Gate and Up, and quantises the gated rows in its epilogue;
the third multiplies by Down and scatters weighed rows, the fourth adds those of a token up.

On a GPU the peers are torch's with the same weights in bfloat16: one expert after another, and its
``grouped_mm`` of all. No library of torch has this layer in nvfp4.

    python fused_moe_nvfp4.py [--tokens 70] [--experts 3] [--k 2] [--hidden 256] [--width 192]
                              [--target sm_100a] [--device cpu]
"""

from __future__ import annotations

import functools

import torch
from fused_moe import SHAPES, grouped, reference, sort_by_expert

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option
from tilelang.tools.scaled import ATOM, FORMATS, in_atoms, quantised, values
from tilelang.tools.scaled_rows import shape_of_factors, store_quantised

FORM = "nvfp4"
ELEMENTS, FACTORS = FORMATS[FORM].elements, FORMATS[FORM].factors
#: rows of a tile, those of an atom; columns of a tile along K, and atoms in it
BLOCK, DEPTH = ATOM, 256
GROUPS = DEPTH // FORMATS[FORM].depth


@T.macro
def gather(X, Pairs, Q, S, k, width, threads):
    """Q, S (rows, hidden) become the tokens of ``Pairs``, zeros where there is none."""
    rows, hidden = Q.shape
    block = 16
    with T.Kernel(T.ceildiv(hidden, width), rows // block, threads=threads) as (bx, by):
        x = T.alloc_fragment((block, width), "float32")
        for i, j in T.Parallel(block, width):
            pair, column = Pairs[by * block + i], bx * width + j
            there = (pair >= 0) & (column < hidden)
            x[i, j] = T.if_then_else(there, X[T.max(pair, 0) // k, T.min(column, hidden - 1)], 0.0)
        store_quantised(x, Q, S, FORM, by * block, bx * width)


@T.macro
def load_weights(W, factors, expert, column, n, tile, tile_factors):
    """Loads columns from ``column`` on of step ``n`` along K, and their factors."""
    T.copy(W[expert, column, n * DEPTH], tile)
    T.copy(factors[expert, column // ATOM, n * GROUPS, 0, 0], tile_factors)


@T.macro
def gate_and_up(Q, S, Gate, SGate, Up, SUp, Experts, H, SH, threads):
    """H, SH (rows, width) = silu(rows @ Gate[expert]^T) * (rows @ Up[expert]^T)."""
    hidden, width = Q.shape[1], H.shape[1]
    with T.Kernel(T.ceildiv(width, BLOCK), Experts.shape[0], threads=threads) as (bx, tile):
        x, gate, up = (
            T.alloc_shared((BLOCK, DEPTH), ELEMENTS, packed=True) for _ in range(3)
        )  # fmt: skip
        sx, s_gate, s_up = (T.alloc_shared((1, GROUPS, 2, 256), FACTORS) for _ in range(3))
        gate_sum, up_sum = (T.alloc_fragment((BLOCK, BLOCK), "float32") for _ in range(2))
        expert = Experts[tile]
        T.clear(gate_sum)
        T.clear(up_sum)
        for n in T.Pipelined(T.ceildiv(hidden, DEPTH), num_stages=3):
            T.copy(Q[tile * BLOCK, n * DEPTH], x)
            T.copy(S[tile, n * GROUPS, 0, 0], sx)
            load_weights(Gate, SGate, expert, bx * BLOCK, n, gate, s_gate)
            load_weights(Up, SUp, expert, bx * BLOCK, n, up, s_up)
            T.gemm(x, gate, gate_sum, transpose_B=True, scale_A=sx, scale_B=s_gate)
            T.gemm(x, up, up_sum, transpose_B=True, scale_A=sx, scale_B=s_up)
        for i, j in T.Parallel(BLOCK, BLOCK):
            up_sum[i, j] *= gate_sum[i, j] / (1 + T.exp(-gate_sum[i, j]))
        store_quantised(up_sum, H, SH, FORM, tile * BLOCK, bx * BLOCK)


@T.macro
def down(H, SH, Down, SDown, Weights, Pairs, Experts, Parts, threads):
    """Parts (pairs, hidden) = weight * (rows of H @ Down[expert]^T)."""
    width, hidden = H.shape[1], Parts.shape[1]
    with T.Kernel(T.ceildiv(hidden, BLOCK), Experts.shape[0], threads=threads) as (bx, tile):
        h, w = (T.alloc_shared((BLOCK, DEPTH), ELEMENTS, packed=True) for _ in range(2))
        sh, sw = (T.alloc_shared((1, GROUPS, 2, 256), FACTORS) for _ in range(2))
        sums = T.alloc_fragment((BLOCK, BLOCK), "float32")
        expert = Experts[tile]
        T.clear(sums)
        for n in T.Pipelined(T.ceildiv(width, DEPTH), num_stages=4):
            T.copy(H[tile * BLOCK, n * DEPTH], h)
            T.copy(SH[tile, n * GROUPS, 0, 0], sh)
            load_weights(Down, SDown, expert, bx * BLOCK, n, w, sw)
            T.gemm(h, w, sums, transpose_B=True, scale_A=sh, scale_B=sw)
        for i, j in T.Parallel(BLOCK, BLOCK):
            pair = Pairs[tile * BLOCK + i]
            if pair >= 0:
                Parts[pair, bx * BLOCK + j] = sums[i, j] * Weights[pair]


def weights_shape(experts, rows, columns):
    """Returns the shape of the factors of (experts, rows, columns)."""
    return experts, *shape_of_factors(rows, columns, FORM)


def fused_moe_nvfp4(tokens, tiles, experts, k, hidden, width, dtype="bfloat16", threads=256):
    """Returns a prim_func of X, weights and their factors, Weights, Pairs, Experts, room and Y.

    X and Y are (tokens, hidden); Gate and Up (experts, width, hidden), Down (experts, hidden,
    width), of float4; Weights (tokens * k,) float32; Pairs (tiles * 128,) and Experts (tiles,)
    int32. Q (tiles * 128, hidden) and H (tiles * 128, width), float4, and their factors are room
    for rows between the launches. hidden and width are multiples of 64.
    """
    rows, block_Y = tiles * BLOCK, 256
    of_rows = weights_shape(experts, width, hidden)

    @T.prim_func
    def fused_moe_nvfp4(
        X: T.Tensor((tokens, hidden), dtype),
        Gate: T.Tensor((experts, width, hidden), ELEMENTS),
        SGate: T.Tensor(of_rows, FACTORS),
        Up: T.Tensor((experts, width, hidden), ELEMENTS),
        SUp: T.Tensor(of_rows, FACTORS),
        Down: T.Tensor((experts, hidden, width), ELEMENTS),
        SDown: T.Tensor(weights_shape(experts, hidden, width), FACTORS),
        Weights: T.Tensor((tokens * k,), "float32"),
        Pairs: T.Tensor((rows,), "int32"),
        Experts: T.Tensor((tiles,), "int32"),
        Q: T.Tensor((rows, hidden), ELEMENTS),
        S: T.Tensor(shape_of_factors(rows, hidden, FORM), FACTORS),
        H: T.Tensor((rows, width), ELEMENTS),
        SH: T.Tensor(shape_of_factors(rows, width, FORM), FACTORS),
        Y: T.Tensor((tokens, hidden), dtype),
    ):
        Parts = T.alloc_global((tokens * k, hidden), "float32")
        gather(X, Pairs, Q, S, k, 256, threads)
        gate_and_up(Q, S, Gate, SGate, Up, SUp, Experts, H, SH, threads)
        down(H, SH, Down, SDown, Weights, Pairs, Experts, Parts, threads)
        with T.Kernel(T.ceildiv(hidden, block_Y), tokens, threads=128) as (bx, token):
            y = T.alloc_fragment((block_Y,), "float32")
            T.clear(y)
            for n in T.serial(k):
                for j in T.Parallel(block_Y):
                    y[j] += Parts[token * k + n, bx * block_Y + j]
            T.copy(y, Y[token, bx * block_Y])

    return fused_moe_nvfp4


def through_experts(x, gate, up, down, weights, chosen):
    """Returns Y in float64 of float64 weights, quantising tokens and gated rows as the kernel."""
    y = torch.zeros_like(x, dtype=torch.float64)
    rounded = values(*quantised(x, FORM), FORM)
    for e in range(len(gate)):
        token, slot = (chosen == e).nonzero(as_tuple=True)
        h = torch.nn.functional.silu(rounded[token] @ gate[e].T) * (rounded[token] @ up[e].T)
        h = values(*quantised(h.float(), FORM), FORM)
        y.index_add_(0, token, (h @ down[e].T) * weights[token, slot, None])
    return y


def room(pairs, columns):
    """Returns tensors for rows of pairs, quantised, and for their factors."""
    shape = shape_of_factors(len(pairs), columns, FORM)
    codes = torch.empty(len(pairs), columns // 2, dtype=torch.uint8, device=pairs.device)
    return codes, torch.empty(shape, dtype=FACTORS, device=pairs.device)


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        targets=("sm_100a",),
        tokens=Option("tokens", 70, 4096),
        experts=Option("experts", 3, 32),
        k=Option("experts of a token", 2, 4),
        hidden=Option("elements of a token", 256, 2048, multiple=64),
        width=Option("columns of Gate and Up", 192, 1024, multiple=64),
    )
    args = example.args
    example.require(args.k <= args.experts, f"--k is {args.k}: give at most --experts")

    def case(tokens, experts, k, hidden, width):
        x = example.normal(tokens, hidden, dtype="bfloat16")
        shapes = [(width, hidden)] * 2 + [(hidden, width)]
        drawn = (example.normal(experts, *shape, scale=hidden**-0.5) for shape in shapes)
        stored = [quantised(matrix, FORM) for matrix in drawn]
        weights, chosen = example.normal(tokens, experts).softmax(1).topk(k)
        pairs, of_tiles = sort_by_expert(chosen, experts, BLOCK)
        sizes = tokens, len(of_tiles), experts, k, hidden, width
        kernel = example.compile(fused_moe_nvfp4(*sizes))
        y = example.output(*x.shape, dtype="bfloat16")
        operands = [part for codes, factors in stored for part in (codes, in_atoms(factors))]
        rooms = [part for columns in (hidden, width) for part in room(pairs, columns)]
        run = functools.partial(kernel, x, *operands, weights.flatten(), pairs, of_tiles, *rooms, y)
        gate, up, back = (
            values(codes, factors, FORM).transpose(1, 2).bfloat16().contiguous()
            for codes, factors in stored
        )
        operands_of_torch = x, gate, up, back, weights, chosen
        peers = {
            "one by one, bfloat16": functools.partial(reference, *operands_of_torch),
            "grouped_mm, bfloat16": functools.partial(grouped, *operands_of_torch),
        }
        line = Case(run, peers, flops=6 * tokens * k * hidden * width)
        return line, (x, stored, weights, chosen), y

    line, (x, stored, weights, chosen), y = case(
        args.tokens, args.experts, args.k, args.hidden, args.width
    )
    line.run()
    gate, up, back = (values(codes, factors, FORM) for codes, factors in stored)
    want = through_experts(x, gate, up, back, weights.double(), chosen)
    example.check("Y", y, want, tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
