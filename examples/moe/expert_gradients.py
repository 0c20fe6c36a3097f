"""Gradients of the weights of experts: gemms whose depths are the tokens that each expert got.

    dW_e = X_e^T dY_e, where X_e and dY_e are the rows of the tokens of expert e

The rows of an expert stand together, from ``Offsets[e]`` on, padded with zeros to whole blocks of
the depth. Tiles of popular experts take many times as long as others, so blocks that work off a
fixed share of the tiles finish at different times: here they take the next tile from a scheduler,
the most expensive ones first (``Order``).

On a GPU the peers are torch: one expert after another, and its ``grouped_mm`` of all.

    python expert_gradients.py [--tokens 500] [--experts 5] [--hidden 128] [--width 192]
                               [--scheduler counter] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import functools

import torch

import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: tokens of a step along the depth
BLOCK_K = 64

#: of tables: tokens of all experts, experts, columns of X and of dY
SHAPES = (
    (65536, 64, 1024, 768),
    (32768, 8, 2048, 4096),
    (65536, 128, 2048, 768),
    (16384, 32, 2048, 1408),
    (131072, 64, 1024, 1024),
)


def tiles(hidden, width, block_N=0):
    """Returns arguments of ``expert_gradients``: wide tiles, which read least, if filled."""
    block_N = block_N or (256 if -width % 256 < 128 else 128)
    return {"block_M": 128, "block_N": block_N, "num_stages": 4 if block_N == 128 else 3}


def expert_gradients(
    rows, experts, hidden, width, dtype, blocks, scheduler, block_M=128, block_N=128, num_stages=4
):
    """Returns a prim_func of X, dY, Offsets, Order and dW.

    X is (rows, hidden), dY (rows, width); Offsets (experts + 1,) and Order are int32. Order lists
    the tiles of dW (experts, hidden, width) that are computed; ``scheduler`` is that of
    T.Persistent, "counter" or "table".
    """
    tiles = experts, (hidden + block_M - 1) // block_M, (width + block_N - 1) // block_N

    @T.prim_func
    def expert_gradients(
        X: T.Tensor((rows, hidden), dtype),
        dY: T.Tensor((rows, width), dtype),
        Offsets: T.Tensor((experts + 1,), "int32"),
        Order: T.Tensor((tiles[0] * tiles[1] * tiles[2],), "int32"),
        dW: T.Tensor((experts, hidden, width), dtype),
    ):
        with T.Kernel(blocks, threads=256) as block:
            x = T.alloc_shared((BLOCK_K, block_M), dtype)
            dy = T.alloc_shared((BLOCK_K, block_N), dtype)
            dw = T.alloc_fragment((block_M, block_N), "float32")
            for e, m, n in T.Persistent(tiles, blocks, block, scheduler=scheduler, table=Order):
                first = Offsets[e]
                T.clear(dw)
                for k in T.Pipelined((Offsets[e + 1] - first) // BLOCK_K, num_stages=num_stages):
                    T.copy(X[first + k * BLOCK_K, m * block_M], x)
                    T.copy(dY[first + k * BLOCK_K, n * block_N], dy)
                    T.gemm(x, dy, dw, transpose_A=True)
                T.copy(dw, dW[e, m * block_M, n * block_N])

    return expert_gradients


def offsets_of(counts):
    """Where the rows of each expert begin (int32), and after them their number."""
    padded = (counts + BLOCK_K - 1) // BLOCK_K * BLOCK_K
    return torch.nn.functional.pad(padded.cumsum(0), (1, 0)).int()


def deepest_first(counts, tiles):
    """The numbers of all tiles, ``tiles`` for each expert, those of most tokens first (int32)."""
    of_expert = counts.argsort(descending=True, stable=True)
    each = torch.arange(tiles, device=counts.device)
    return (of_expert[:, None] * tiles + each).flatten().int()


def one_by_one(x, dy, offsets):
    """Returns dW, of the type of the arguments."""
    parts = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return torch.stack([x[first:last].T @ dy[first:last] for first, last in parts])


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        tokens=Option("tokens of all experts", 500, 65536),
        experts=Option("experts", 5, 64),
        hidden=Option("columns of X", 128, 1024),
        width=Option("columns of dY", 192, 768),
        blocks=Option("blocks of the grid; 0: one for each multiprocessor", 4, 0, least=0),
        scheduler=Option("who gives out tiles", "counter", choices=("counter", "table")),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16")),
    )
    args = example.args

    def case(tokens, experts, hidden, width):
        counts = (torch.randn(experts).softmax(0) * tokens).long().to(args.device)
        counts[0] = 0
        offsets = offsets_of(counts)
        rows = max(BLOCK_K, int(offsets[-1]))
        used = torch.zeros(rows, 1, dtype=torch.bool, device=args.device)
        for first, count in zip(offsets.tolist(), counts.tolist(), strict=False):
            used[first : first + count] = True
        x, dy = (example.normal(rows, n, dtype=args.dtype) * used for n in (hidden, width))
        blocks = args.blocks or CUDA(args.target).compute_max_core
        sizes, own = (rows, experts, hidden, width), tiles(hidden, width)
        function = expert_gradients(*sizes, args.dtype, blocks, args.scheduler, **own)
        kernel = example.compile(function)
        order = deepest_first(counts, -(-hidden // own["block_M"]) * -(-width // own["block_N"]))
        dw = example.output(experts, hidden, width, dtype=args.dtype)
        run = functools.partial(kernel, x, dy, offsets, order, dw)
        product, ends = torch.nn.functional.grouped_mm, offsets[1:]
        peers = {
            "one by one": functools.partial(one_by_one, x, dy, offsets),
            "grouped_mm": functools.partial(product, x.T, dy, offs=ends),
        }
        return Case(run, peers, flops=2 * int(ends[-1]) * hidden * width), (x, dy, offsets), dw

    line, (x, dy, offsets), dw = case(args.tokens, args.experts, args.hidden, args.width)
    line.run()
    example.check("dW", dw, one_by_one(x.double(), dy.double(), offsets), tolerance=2**-8)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
