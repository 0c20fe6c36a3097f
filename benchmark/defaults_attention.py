"""Attention as a user first writes it, on shapes that a seed draws, beside the fastest of torch.

    python benchmark/defaults_attention.py --seed 11 [--shapes 12] [--rounds 3] [--json FOLDER]

The program is the one of blackwell_programs.py: tiles of 128 queries and 128 keys, two stages and
128 threads, with the pass option for fast mathematics and without. Lengths are drawn evenly by
their logarithms from 100 to 8192, head dimensions from a list, and each second shape is causal.
Batches bring Q to about 16 million elements. A ratio is the time of the faster of
cuDNN and FlashAttention 2 over the time of the kernel.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
from typing import Any, NamedTuple

import blackwell_programs
import in_turns
import result_files
import torch
from ahead import compile_ahead
from defaults import mean
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tilelang

DIMS = (40, 64, 72, 80, 96, 104, 128)
ELEMENTS = 1 << 24  # of Q
PEERS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)
#: Columns of the table, with the pass options of their kernels.
WAYS: dict[str, dict[str, Any]] = {
    "as written": {}, "fast mathematics": {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True},
}  # fmt: skip


class Shape(NamedTuple):
    """The arguments of the program: Q is (batch, length, heads, dim)."""

    batch: int
    heads: int
    length: int
    dim: int
    causal: bool
    kv_heads: int


def drawn_shapes(seed: int, count: int) -> list[Shape]:
    """Returns shapes; those with an odd number are causal."""
    draw = random.Random(seed)
    shapes = []
    for number in range(count):
        length = round(math.exp(draw.uniform(math.log(100), math.log(8192))))
        dim, heads = draw.choice(DIMS), draw.choice((8, 12, 16, 32))
        kv_heads = heads // draw.choice((1, 1, 4))
        batch = max(1, ELEMENTS // (length * heads * dim))
        shapes.append(Shape(batch, heads, length, dim, number % 2 == 1, kv_heads))
    return shapes


def kernel(job: tuple[Shape, str]) -> tilelang.JITKernel:
    """Compiles the program of a shape."""
    shape, way = job
    return tilelang.compile(blackwell_programs.attention(*shape), pass_configs=WAYS[way])


def ratios(shape: Shape, rounds: int) -> list[float]:
    """Returns the ratios of a shape, one for each way, after a check of the results."""
    size = (shape.batch, shape.length)
    q, k, v = (
        torch.randn(*size, heads, shape.dim, device="cuda", dtype=torch.bfloat16)
        for heads in (shape.heads, shape.kv_heads, shape.kv_heads)
    )

    def peer(backend: SDPBackend) -> torch.Tensor:
        with sdpa_kernel([backend]):
            return scaled_dot_product_attention(
                *(x.transpose(1, 2) for x in (q, k, v)), is_causal=shape.causal, enable_gqa=True
            )

    runs = {str(b): in_turns.without_host(functools.partial(peer, b)) for b in PEERS}
    want = peer(PEERS[0]).transpose(1, 2).float()
    for way in WAYS:
        out = torch.full_like(q, float("nan"))
        run = functools.partial(kernel((shape, way)), q, k, v, out)
        run()
        error = ((out.float() - want).norm() / want.norm()).item()
        assert error < 1e-2, f"{shape} {way}: relative error {error:.2g}"
        runs[way] = in_turns.without_host(run)
    times = in_turns.milliseconds(runs, rounds)
    best = min(times[str(backend)] for backend in PEERS)
    return [best / times[way] for way in WAYS]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--shapes", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    result_files.add_option(parser)
    options = parser.parse_args()
    shapes = drawn_shapes(options.seed, options.shapes)
    compile_ahead(kernel, [(shape, way) for shape in shapes for way in WAYS])
    table = result_files.Table("drawn_attention", ("shape", *WAYS))
    found = []
    for shape in shapes:
        found.append(ratios(shape, options.rounds))
        cells = [f"{ratio:.2f}" for ratio in found[-1]]
        print(f"{tuple(shape)!s:40}", *cells, flush=True)
        table.add(str(tuple(shape)), *cells)
    table.add("geometric mean", *(mean(list(column)) for column in zip(*found, strict=True)))
    table.save(options.json)


if __name__ == "__main__":
    main()
