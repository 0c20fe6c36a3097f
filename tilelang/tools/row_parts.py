"""Rows that several blocks share in one launch, as scripts in ``examples/`` divide them: each block
has a part in shared memory, and waits for what the others have found.

A block takes the next part when it begins, so that the blocks of the parts before run, or have
ended. For those behind it in its row it waits as well: a GPU runs at least as many blocks at once
as a row has parts.
"""

from __future__ import annotations

import math
from typing import Any

import tilelang.language as T

from ..ir.dtype import dtype_of
from ..math import cdiv

#: Elements of a part of 16 bits each, about: a multiprocessor has six such blocks.
_PART = 16384
#: Parts of a row at most.
_MOST = 256


def parts_of(columns: int, dtype: str) -> tuple[int, int]:
    """Returns the parts of a row, and elements of each: whole vectors of 16 bytes.

    Parts begin at multiples of 16 bytes. The first one of a row that does not begin so has some
    elements of the row before.

    Raises:
        ValueError: of rows that are longer than 256 parts.
    """
    bits = dtype_of(dtype).bits
    vector, wanted = 128 // bits, _PART * 16 // bits
    ahead = vector - 1 if columns % vector else 0
    # A few elements are no part of their own.
    count = max(1, math.ceil((columns + ahead) / wanted - 0.05))
    if count > _MOST:
        raise ValueError(f"{columns} columns are more than {_MOST} parts of {wanted} elements")
    return count, cdiv(columns + ahead, count * vector) * vector


@T.macro
def take_part(tickets: Any, count: Any) -> Any:
    """The next part, of ``count``; ``tickets`` is zeroed int32 (1,), and zero after the last."""
    ticket = T.alloc_shared((1,), "int32")
    taken = T.alloc_var("int32", init=0)
    if T.get_thread_binding() == 0:
        ticket[0] = T.atomic_add(tickets[0], 1, return_prev=True)
        if ticket[0] == count - 1:
            tickets[0] = 0
    T.sync_threads()
    taken = ticket[0]
    return taken


@T.macro
def load_part(X: Any, part: Any, begin: Any, vector: Any) -> None:
    """Loads what flat X has from ``begin`` on, a multiple of ``vector``."""
    length = part.shape[0]
    if begin + length <= X.shape[0]:
        for v in T.Parallel(length // vector):
            T.ptx_cp_async(part[v * vector], X[begin + v * vector], vector)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
    else:
        for j in T.Parallel(length):
            if begin + j < X.shape[0]:
                part[j] = X[begin + j]
    T.sync_threads()


@T.macro
def await_parts(arrived: Any, row: Any, count: Any) -> None:
    """Makes known what the block's first thread has stored, and waits for all parts of the row.

    ``arrived`` is zeroed int32, an element for each row; :func:`leave_parts` makes it zero again.
    """
    if T.get_thread_binding() == 0:
        T.atomic_add(arrived[row], 1, memory_order="release")
        found = T.alloc_var("int32", init=0)
        while found < count:
            found = T.atomic_load(arrived[row], "acquire")
    T.sync_threads()


@T.macro
def leave_parts(arrived: Any, row: Any, count: Any) -> None:
    """Tells that the block waits for this row no longer."""
    if T.get_thread_binding() == 0:
        before = T.atomic_add(arrived[row], 1, return_prev=True)
        if before == 2 * count - 1:
            arrived[row] = 0
