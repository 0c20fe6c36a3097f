"""Divides the rows of a matrix among blocks and threads, for the scripts in ``examples/``."""

from __future__ import annotations

from ..ir.dtype import dtype_of

#: Elements of a row that a thread has in registers.
IN_REGISTERS = 32
#: Elements of a row that a block has in registers, of 512 threads.
LONGEST = 512 * IN_REGISTERS
#: Elements of a row that a thread has in registers where the row is loaded by vectors, and a block
#: is smaller for it, so that more of them run at once.
_OF_VECTORS = 40
#: Elements of several rows that a thread has where rows divide a block's threads evenly.
_OF_SEVERAL = 16
#: Columns from which on rows of two bytes an element do not go through shared memory.
_NARROW = 100
#: Rows that begin at a multiple of 16 bytes together, for any width in elements of two bytes.
_ALIGNED = 8


def most_of(columns: int, dtype: str) -> int:
    """Returns how many elements of a row of ``dtype`` a thread may have in registers."""
    return IN_REGISTERS if columns * dtype_of(dtype).bits % 128 else _OF_VECTORS


def several_of(columns: int) -> int:
    """Returns how many elements of several rows a thread may have, where fewer are quicker.

    Measured with softmax and LayerNorm of 256 MB on an H200: 134 to 130 µs for 64, 128 and 2048
    columns. Where a thread would have parts of vectors, more are: of 320 and 1000 columns. Narrow
    rows that go through shared memory take 200 µs instead of 203 (13 columns) to 300 (37).
    """
    even = _OF_SEVERAL * 128 % columns == 0
    staged = columns < _NARROW and columns % _ALIGNED != 0
    return _OF_SEVERAL if even or staged else IN_REGISTERS


def tile_of(columns: int, most: int = IN_REGISTERS, several: int = IN_REGISTERS) -> tuple[int, int]:
    """Returns how many rows a block takes, and its threads; for up to ``LONGEST`` columns.

    A thread has at most ``most`` elements of a row, and no more of several rows than ``several``.
    """
    threads = max(128, 1 << (-(-columns // most) - 1).bit_length())
    rows = max(1, threads * several // columns)
    return rows - rows % _ALIGNED if rows > _ALIGNED else rows, threads
