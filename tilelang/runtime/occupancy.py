"""Finds whether the needs of a thread decide how many blocks an SM holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..target import Target

_RESERVED = 1024  # bytes of shared memory of each block that it does not ask for
_WARP = 32
_MOST_REGISTERS = 256  # of a thread, as they are allotted


def registers_decide(target: Target, block: Sequence[Any], shared_memory: Any) -> bool:
    """Returns whether the registers of a thread may decide how many blocks an SM holds.

    They do not where shared memory has room for no more blocks than fit with the most registers.

    Args:
        target: the architecture.
        block: extents in threads.
        shared_memory: bytes of a block.

    Extents and bytes are expressions where only a call knows.
    """
    known = [getattr(each, "value", each) for each in (*block, shared_memory)]
    if not all(isinstance(each, int) for each in known):
        return True
    *extents, size = known
    # An SM has as much as a block can have, and what is reserved for that.
    row: Any = target
    room = int(row.shared_memory_per_block) + _RESERVED
    threads = math.ceil(math.prod(extents) / _WARP) * _WARP
    fewest = max(1, int(row.registers_per_sm) // (_MOST_REGISTERS * threads))
    return room // (size + _RESERVED) > fewest
