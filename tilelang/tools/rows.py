"""How the scripts in ``examples/`` divide the rows of a matrix among blocks and threads."""

from __future__ import annotations

from ..ir.dtype import dtype_of

#: Elements of a row that a thread has in registers.
IN_REGISTERS = 32
#: Elements of a row that a block has in registers, of 512 threads.
LONGEST = 512 * IN_REGISTERS
#: Elements of a row that a thread has in registers where the row is loaded by vectors, and a block
#: is smaller for it, so that more of them run at once.
_OF_VECTORS = 40


def most_of(columns: int, dtype: str) -> int:
    """Returns how many elements of a row of ``dtype`` a thread may have in registers."""
    return IN_REGISTERS if columns * dtype_of(dtype).bits % 128 else _OF_VECTORS


def tile_of(columns: int, most: int = IN_REGISTERS) -> tuple[int, int]:
    """Returns how many rows a block takes, and its threads; for up to ``LONGEST`` columns.

    A thread has at most ``most`` elements of a row, and no more of several rows than
    ``IN_REGISTERS``.
    """
    threads = max(128, 1 << (-(-columns // most) - 1).bit_length())
    return max(1, threads * IN_REGISTERS // columns), threads
