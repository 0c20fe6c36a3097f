"""Whether what a thread needs decides how many blocks an SM holds."""

from __future__ import annotations

from typing import Any

from ..target import Target


def is_alone(target: Target, shared_memory: Any) -> bool:
    """Whether a block has an SM for itself whatever its registers.

    Two of them need more shared memory than there is; each takes a KiB more than it asks for, and
    an SM has one more than a block can have.

    Args:
        target: the architecture.
        shared_memory: bytes of a block; an expression where only a call knows.
    """
    size = getattr(shared_memory, "value", shared_memory)
    return isinstance(size, int) and 2 * size >= int(target.shared_memory_per_block)
