"""Estimates the time of a tiling of a GEMM or of a pass over memory.

It ranks hundreds of candidates in milliseconds, and is the one by which the compiler widens tiles;
the timing model of the emulator, which executes a kernel, decides among the few that are left.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import _ffi
from .arch import CUDA

_gemm_seconds = _ffi.get("transform.GemmSeconds")
_sweep_seconds = _ffi.get("transform.SweepSeconds")


class Tile(NamedTuple):
    """A tiling of a gemm: the block's tile, the step along K, stages, threads."""

    m: int
    n: int
    k: int
    stages: int
    threads: int


class Product(NamedTuple):
    """C (M, N) = A (M, K) B, and the bits of an element of A and B, of C, and of the sums."""

    m: int
    n: int
    k: int
    operand_bits: int
    result_bits: int
    sum_bits: int


def gemm_seconds(arch: CUDA, product: Product, tile: Tile) -> float:
    """Returns the estimated seconds of a gemm; infinite where a block does not fit."""
    return float(_gemm_seconds(arch.target, product, tile))


def sweep_seconds(arch: CUDA, blocks: int, bytes_of_block: float, threads: int) -> float:
    """Returns the estimated seconds of blocks that read and write so many bytes each."""
    return float(_sweep_seconds(arch.target, blocks, float(bytes_of_block), threads))
