"""Attention as attention_forward.py computes it, by as many blocks as the GPU has multiprocessors.

Each block has one tile of queries after another. The tile of Q is loaded in a pipelined loop, too:
those of the next tile, and its first keys and values, are under way while this one is finished, and
a warpgroup that is done with its rows begins with them. The result has a tile of its own in shared
memory, from which it is stored meanwhile.

Of causal attention the tiles with many keys come first, of ``group`` heads at a time; rounds of
tiles go through the blocks forwards and backwards in turn: all have about as much to do.

    python attention_persistent.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1]
                        [--dim 128] [--causal] [--dtype bfloat16] [--target sm_90a]
                        [--device cpu]
"""

from __future__ import annotations

import math

import attention_forward
from attention_forward import attend, normalize

import tilelang.language as T


def default_tiles(target, dim):
    """Returns arguments of ``attention``: tiles that registers and shared memory have room for."""
    if target == "sm_80":
        return {"block_M": 64, "block_N": 64, "threads": 128, "num_stages": 2, "parts": 4}
    if dim > 128 or target != "sm_90a":
        return {"block_M": 128, "block_N": 64, "threads": 256, "num_stages": 2}
    return {"block_M": 192, "block_N": 80 if dim > 64 else 128, "threads": 384, "num_stages": 2}


def attention(
    shape, causal=False, dtype="bfloat16", block_M=192, block_N=80, threads=384, num_stages=2,
    lazy=False, group=1, parts=8, blocks=132,
):  # fmt: skip
    """As ``attention`` of attention_forward; ``blocks`` is the number of multiprocessors."""
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e
    slack = 8 / scale if lazy else 0

    @T.prim_func
    def attention_persistent(
        Q: T.Tensor((batch, queries, heads, dim), dtype),
        K: T.Tensor((batch, keys, kv_heads, dim), dtype),
        V: T.Tensor((batch, keys, kv_heads, dim_v), dtype),
        Out: T.Tensor((batch, queries, heads, dim_v), dtype),
        Lse: T.Tensor((batch, heads, queries), "float32"),
    ):
        with T.Kernel(blocks, threads=threads) as block:
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            Out_shared = T.alloc_shared((block_M, dim_v), dtype)
            result = T.alloc_fragment((block_M, dim_v), "float32")
            highest, total = (T.alloc_fragment((block_M,), "float32") for _ in range(2))
            sums = T.alloc_fragment((block_M, parts), "float32")

            rows = T.ceildiv(queries, block_M)
            tiles = rows * heads * batch
            back = blocks - 1 - block if causal else block  # of every other round
            rounds = T.ceildiv(tiles, blocks)
            last = tiles - (rounds - 1) * blocks  # tiles of the last round
            own = T.if_then_else(rounds % 2 == 0, back, block)
            for i in T.Pipelined(rounds - T.if_then_else(own < last, 0, 1), num_stages=2):
                tile = i * blocks + T.if_then_else(i % 2 == 0, block, back)
                row, by = (
                    tile % (rows * group) // group,
                    tile // (rows * group) * group + tile % group,
                )
                bz = by // heads
                head = by % heads
                first = (rows - 1 - row if causal else row) * block_M
                at = bz, head // (heads // kv_heads)
                diagonal = first + keys - queries if causal else None  # last key of the first row

                T.copy(Q[bz, first : first + block_M, head, :], Q_shared)
                attend(
                    Q_shared, K, V, result, highest, sums,
                    at, keys, diagonal, scale, slack, block_N, num_stages,
                )  # fmt: skip
                normalize(result, highest, sums, total, scale)
                T.copy(result, Out_shared)
                T.copy(Out_shared, Out[bz, first : first + block_M, head, :])
                T.copy(total, Lse[bz, head, first : first + block_M])

    return attention_persistent


if __name__ == "__main__":
    attention_forward.main(attention, default_tiles, __doc__)
