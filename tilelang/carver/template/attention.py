"""Attention: two products with a softmax between them."""

from __future__ import annotations

import dataclasses
import itertools
import math

from ..estimate import Product, Tile, gemm_seconds
from ..hint import Hint
from .base import Template, bits_of

_REGISTERS = 200  # of a thread, for sums, scores and weights
_KEYS = (32, 64, 80, 128, 176)
#: Rows of a block, and of the softmax what shows beside the products: two warpgroups hide half of
#: it, three most. In tensor memory rows are lanes, so there are as many threads as rows.
_SHOWN = {64: 1.0, 128: 0.6, 192: 0.35}
_SHOWN_BY_LANE = {64: 1.0, 128: 0.6, 256: 0.35}


@dataclasses.dataclass
class FlashAttentionTemplate(Template):
    """softmax(Q K^T) V of ``batch_size`` x ``num_heads`` heads.

    A hint's ``block`` is the queries of a block and the dimensions of a head, its ``rstep`` the
    keys of a step.

    Attributes:
        batch_size, num_heads: how many heads there are.
        head_dim: dimensions of a head.
        seq_length, seq_kv_length: queries and keys of a head.
        is_causal: whether later keys are left out.
        in_dtype, out_dtype, accum_dtype: types of Q, K and V, of the result, and of the sums.
    """

    batch_size: int
    num_heads: int
    head_dim: int
    seq_length: int
    seq_kv_length: int
    is_causal: bool = False
    in_dtype: str = "float16"
    out_dtype: str = "float16"
    accum_dtype: str = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = {"batch_size": self.batch_size, "num_heads": self.num_heads}
        lengths = {"seq_length": self.seq_length, "seq_kv_length": self.seq_kv_length}
        self._need(**heads, head_dim=self.head_dim, **lengths)

    def _candidates(self) -> list[Hint]:
        hints = []
        shown = _SHOWN_BY_LANE if self.arch.target.has_tcgen05 else _SHOWN
        for rows, keys, stages in itertools.product(shown, _KEYS, (2, 3)):
            if rows >= 2 * self.seq_length and rows > 64:
                continue  # most of the rows would not exist
            threads = max(rows, 128) if self.arch.target.has_tcgen05 else 2 * rows
            seconds = self._seconds(rows, keys, stages, threads)
            hints.append(
                Hint(
                    [rows, self.head_dim],
                    [rows * 32 // threads, self.head_dim],
                    rstep=[keys],
                    pipeline_stage=stages,
                    use_async=True,
                    use_tc=True,
                    # Of the exponentials a part is not hidden.
                    seconds=seconds * (1 + shown[rows] * 64 / self.head_dim),
                )
            )
        return hints

    def _seconds(self, rows: int, keys: int, stages: int, threads: int) -> float:
        """An estimate of the two products of all heads, one below the other."""
        bits = bits_of(self.in_dtype)
        resident = rows * self.head_dim * bits // 8  # Q
        operands = stages * 2 * keys * self.head_dim * bits // 8
        if not self._holds(rows, keys, threads) or resident + operands > self.arch.smem_cap:
            return math.inf
        heads = self.batch_size * self.num_heads
        queries = heads * math.ceil(self.seq_length / rows) * rows
        depth = math.ceil(self.seq_kv_length / keys) * keys
        others = bits_of(self.out_dtype), bits_of(self.accum_dtype)
        product = Product(queries, self.head_dim, depth, bits, *others)
        tile = Tile(rows, self.head_dim, keys, stages, threads)
        share = 0.5 if self.is_causal else 1.0
        return 2 * gemm_seconds(self.arch, product, tile) * share

    def _holds(self, rows: int, keys: int, threads: int) -> bool:
        """Returns whether sums, scores and weights have room."""
        if self.arch.target.has_tcgen05:
            parts = math.ceil(rows / self.arch.target.tmem_lanes)
            columns = sum(1 << (width - 1).bit_length() for width in (self.head_dim, keys))
            return parts * columns <= int(self.arch.target.tmem_columns)
        return rows * (self.head_dim + keys + keys // 2) // threads <= _REGISTERS
