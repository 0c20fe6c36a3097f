"""How the scripts in ``examples/`` divide the rows of a matrix among blocks and threads."""

from __future__ import annotations

#: Elements of a row that a thread has in registers.
IN_REGISTERS = 32
#: Elements of a row that a block has in registers, of 512 threads.
LONGEST = 512 * IN_REGISTERS


def tile_of(columns: int) -> tuple[int, int]:
    """Returns how many rows a block takes, and its threads; for up to ``LONGEST`` columns."""
    threads = max(128, 1 << (-(-columns // IN_REGISTERS) - 1).bit_length())
    return max(1, threads * IN_REGISTERS // columns), threads
