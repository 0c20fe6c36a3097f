"""Decoding with multi-head latent attention: all heads read one cache of compressed keys.

The up-projections of K and V are absorbed into Q and into what follows. So a score is the product
of a query with the ``latent`` elements of a token, plus that of ``rope`` elements which carry its
position, and the latent is the value, too. A block has some heads as rows and goes through a part
of the tokens; a second launch weighs the parts, as in flash_decoding. Where 64 rows of 512 sums do
not fit beside the scores (tensor memory), two blocks compute half of the columns each.

    python mla_decode.py [--lengths 130 64] [--splits 2] [--heads 100] [--latent 512] [--rope 64]
                         [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import math
from typing import Any

import tilelang.language as T


def default_tiles(target, latent):
    """Returns arguments of ``mla_decode``: tiles that there is room for."""
    if target == "sm_80":
        return {"block_N": 32, "block_V": latent, "num_stages": 1}
    return {"block_N": 48, "block_V": 256 if target == "sm_100a" else latent}


def mla_decode(
    batch, keys, heads, latent, rope, splits, dtype="bfloat16", block_H=64, block_N=48,
    block_V=512, threads=256, num_stages=2,
):  # fmt: skip
    """Returns a prim_func of Q, Cache, Lengths and Out.

    Shapes are those below; Lengths (int32) says how many tokens a sequence has, from 1 to ``keys``.
    A block computes ``block_V`` columns of Out. Scores are scaled by 1 / sqrt(128 + rope), the size
    of a head before compression.
    """
    scale = math.log2(math.e) / math.sqrt(128 + rope)  # powers of two in place of e
    columns: dict[str, Any] = {"policy": T.GemmWarpPolicy.FullCol}  # not rows
