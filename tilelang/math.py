"""Integer arithmetic for shapes and tile sizes, in Python."""

from __future__ import annotations


def next_power_of_2(n: int) -> int:
    """Returns the least power of two that is at least ``n``, and at least 1."""
    return 1 if n <= 1 else 1 << (int(n) - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    """Returns ``a / b`` rounded up."""
    return -(-a // b)


__all__ = ["cdiv", "next_power_of_2"]
