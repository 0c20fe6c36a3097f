"""Attention: two products with a softmax between them."""

from __future__ import annotations

import dataclasses
import itertools
import math

from ..estimate import Tile, blocks_per_sm, gemm_seconds
from ..hint import Hint
from .base import Template, bits_of

_REGISTERS = 200  # of a thread, for sums, scores and weights


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
        for rows, keys, stages in itertools.product((64, 128, 192), (32, 64, 80, 128, 176), (2, 3)):
            if rows >= 2 * self.seq_length and rows > 64:
                continue  # most of the rows would not exist
            seconds = self._seconds(rows, keys, stages)
            warps = rows // 16
            warp = [rows // warps, self.head_dim]
            block = [rows, self.head_dim]
            hints.append(
                Hint(
                    block,
                    warp,
                    rstep=[keys],
                    pipeline_stage=stages,
                    use_async=True,
                    use_tc=True,
                    seconds=seconds,
                )
            )
        return hints

    def _seconds(self, rows: int, keys: int, stages: int) -> float:
        """An estimate: the two products of all heads one below the other, and the exponentials."""
        bits, out_bits = bits_of(self.in_dtype), bits_of(self.out_dtype)
        threads = 2 * rows  # a warpgroup for 64 rows
        held = rows * (self.head_dim + keys + keys // 2) // threads
        resident = rows * self.head_dim * bits // 8  # Q
        operands = stages * 2 * keys * self.head_dim * bits // 8
        if held > _REGISTERS or resident + operands > self.arch.smem_cap:
            return math.inf
        heads = self.batch_size * self.num_heads
        tile = Tile(rows, self.head_dim, keys, stages, threads)
        if blocks_per_sm(self.arch, tile, bits) == 0:
            return math.inf
        queries = heads * math.ceil(self.seq_length / rows) * rows
        depth = math.ceil(self.seq_kv_length / keys) * keys
        product = gemm_seconds(self.arch, (queries, self.head_dim, depth), tile, bits, out_bits)
        # Two warpgroups hide half of the softmax behind the products, three most of it.
        exposed = {64: 1.0, 128: 0.6, 192: 0.35}[rows]
        share = 0.5 if self.is_causal else 1.0
        return 2 * product * (1 + exposed * 64 / self.head_dim) * share
