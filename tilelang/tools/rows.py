"""How the scripts in ``examples/`` divide the rows of a matrix among blocks and threads."""

from __future__ import annotations

from ..ir.dtype import dtype_of

#: Elements of a row that a thread has in registers.
IN_REGISTERS = 32
#: Elements of a row that a block has in registers, of 512 threads.
LONGEST = 512 * IN_REGISTERS


def tile_of(columns: int) -> tuple[int, int]:
    """Returns how many rows a block takes, and its threads; for up to ``LONGEST`` columns."""
    threads = max(128, 1 << (-(-columns // IN_REGISTERS) - 1).bit_length())
    return max(1, threads * IN_REGISTERS // columns), threads


def part_of(columns: int, dtype: str) -> tuple[int, int, int, int]:
    """Returns the blocks of a cluster that share a row; threads, elements, a vector of each.

    Raises:
        ValueError: no cluster has registers for so many columns.
    """
    vector = 128 // dtype_of(dtype).bits
    for size in (4, 8):
        warps = max(2, -(-(columns + vector - 1) // (size * 32 * IN_REGISTERS)))
        if warps <= 16:
            return size, 32 * warps, 32 * warps * IN_REGISTERS, vector
    raise ValueError(f"{columns} columns do not fit the registers of a cluster of 8 blocks")
