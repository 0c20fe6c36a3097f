"""Attention as attention_forward.py computes it, by as many blocks as the GPU has multiprocessors.

Each block has one tile of queries after another. The tile of Q is loaded in a pipelined loop, too:
those of the next tile, and its first keys and values, are under way while this one is finished, and
a warpgroup that is done with its rows begins with them. The result has a tile of its own in shared
memory, from which it is stored meanwhile.

Which tiles a block has is in a table, which ``share_out`` makes: each goes to the block that is
through with its own first. Of causal attention those with many keys come first, of ``group`` heads
at a time, whose keys and values the L2 cache holds.

    python attention_persistent.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1]
                        [--dim 128] [--causal] [--dtype bfloat16] [--target sm_90a]
                        [--device cpu]
"""

from __future__ import annotations

import heapq
import math

import attention_forward
import torch
from attention_forward import attend_rows, state_of

import tilelang.language as T
from tilelang.carver.arch import CUDA

#: work of a tile beside its blocks of keys, in such blocks
OVERHEAD = 3


def default_tiles(target, dim, dim_v=None, lengths=None):
    """Returns arguments of ``attention``: tiles that registers and shared memory have room for.

    The tiles of large heads have fewer keys, and if even the fewest do not fit, half the queries.
    """
    dim_v, row = dim_v or dim, CUDA(target).target
    least = 32 if row.has_wgmma or row.has_tcgen05 else 16  # keys
    if target == "sm_80":
        tiles = {"block_M": 64, "block_N": 64, "threads": 128, "num_stages": 2, "parts": 4}
    elif dim > 128 or target != "sm_90a":
        tiles = {"block_M": 128, "block_N": 64, "threads": 256, "num_stages": 2}
    else:
        keys = 80 if dim > 64 else 128
        tiles = {"block_M": 192, "block_N": keys, "threads": 384, "num_stages": 2}
    while (keys := _keys_that_fit(target, dim, dim_v, tiles)) < least:
        tiles |= {"block_M": tiles["block_M"] // 2, "threads": tiles["threads"] // 2}
    return tiles | {"block_N": min(tiles["block_N"], keys)}


def _keys_that_fit(target, dim, dim_v, tiles):
    """Returns the most keys of a tile beside the tiles of Q and of the result, a multiple of 16.

    Q has a second slot where the queries are loaded ahead, which tensor memory does not do.
    """
    tensor_memory = attention_forward.has_tensor_memory(target)
    slots, other = (1, 128 * tiles["block_M"]) if tensor_memory else (2, 1024)  # exchange, barriers
    left = CUDA(target).smem_cap - other - 2 * tiles["block_M"] * (slots * dim + dim_v)
    return left // (2 * tiles["num_stages"] * (dim + dim_v)) // 16 * 16


def place(tile, rows, group):
    """Returns the block of rows and the head (of all sequences) of a tile, by its number."""
    return rows - 1 - tile % (rows * group) // group, tile // (rows * group) * group + tile % group


def share_out(shape, causal, block_M=192, block_N=80, group=1, blocks=132, device="cpu"):
    """Returns which tiles the blocks have, as two int32 tensors.

    ``starts`` (blocks + 1) says where the numbers of a block begin in ``tiles``, which has all.
    """
    rows = -(-shape.queries // block_M)
    through = [(0, block) for block in range(blocks)]
    own: list[list[int]] = [[] for _ in range(blocks)]
    for tile in range(rows * shape.heads * shape.batch):
        seen = shape.keys
        if causal:
            last = (place(tile, rows, group)[0] + 1) * block_M + shape.keys - shape.queries
            seen = max(min(last, shape.keys), 0)
        until, block = through[0]
        own[block].append(tile)
        heapq.heapreplace(through, (until - (-seen // block_N) + OVERHEAD, block))
    starts = [0]
    for tiles in own:
        starts.append(starts[-1] + len(tiles))
    tiles = [tile for tiles in own for tile in tiles]
    return [torch.tensor(x, dtype=torch.int32, device=device) for x in (starts, tiles)]


def attention(
    shape, causal=False, dtype="bfloat16", block_M=192, block_N=80, threads=384, num_stages=2,
    lazy=False, group=1, parts=8, blocks=132,
):  # fmt: skip
    """As ``attention`` of attention_forward; ``blocks`` is the number of multiprocessors.

    Starts and Tiles are what ``share_out`` returns for the same arguments.
    """
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e
    slack = 8 / scale if lazy else 0
    rows = T.ceildiv(queries, block_M)

    @T.prim_func
    def attention_persistent(
        Q: T.Tensor((batch, queries, heads, dim), dtype),
        K: T.Tensor((batch, keys, kv_heads, dim), dtype),
        V: T.Tensor((batch, keys, kv_heads, dim_v), dtype),
        Starts: T.Tensor((blocks + 1,), "int32"),
        Tiles: T.Tensor((rows * heads * batch,), "int32"),
        Out: T.Tensor((batch, queries, heads, dim_v), dtype),
        Lse: T.Tensor((batch, heads, queries), "float32"),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            Out_shared = T.alloc_shared((block_M, dim_v), dtype)
            state = state_of(block_M, dim_v, parts)

            for i in T.Pipelined(Starts[block + 1] - Starts[block], num_stages=2):
                # Of a number in bounds the compiler knows that the tile is within Out.
                tile = T.max(T.min(Tiles[Starts[block] + i], rows * heads * batch - 1), 0)
                row, by = place(tile, rows, group)
                bz = by // heads
                head = by % heads
                first = row * block_M
                diagonal = first + keys - queries if causal else None  # last key of the first row
                attend_rows(
                    Q, K, V, Out, Lse, Q_shared, Out_shared, state,
                    (bz, head, first), diagonal, scale, slack, block_N, num_stages,
                )  # fmt: skip

    return attention_persistent


if __name__ == "__main__":
    attention_forward.main(attention, default_tiles, __doc__, share_out)
