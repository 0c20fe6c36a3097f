"""Radix selection from long rows, eight bits at a time, for the scripts in ``examples/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilelang.language as T

_BINS = 256


def in_order(number: Any) -> Any:
    """Returns the bits of a float32 as a uint32, which are ordered as the numbers are."""
    bits = T.reinterpret(number, "uint32")
    return bits ^ T.if_then_else(bits >= T.uint32(1 << 31), T.uint32(0xFFFFFFFF), T.uint32(1 << 31))


@T.macro
def find_least(
    length: Any,
    load: Callable[[Any], Any],
    amount: Callable[[Any, Any], Any],
    least: T.Ref,
    missing: T.Ref,
    chunk: int,
) -> None:
    """A block finds the largest bound above or at which there is enough.

    It goes through the row four times, and counts in shared memory how much has which next eight
    bits; those that decide are kept.

    Args:
        length: elements of the row, at least one.
        load: ``load(i)`` is element i, float32.
        amount: ``amount(i, bits)`` is what it counts for, int32, 0 for nothing.
        least: (uint32) comes as 0, becomes the bound, in the order of :func:`in_order`.
        missing: (int32) comes as what is enough, from 1 to the sum of all amounts, becomes how much
            of what lies at the bound is needed.
        chunk: elements that the block loads at a time.
    """
    counts = T.alloc_shared((_BINS,), "int32")
    own, reached = (T.alloc_fragment((_BINS,), "int32") for _ in range(2))
    found, above = (T.alloc_fragment((1,), "int32") for _ in range(2))
    for step in T.unroll(4):
        shift = T.uint32(24 - 8 * step)
        T.clear(counts)
        for n in T.serial(T.ceildiv(length, chunk)):
            for i in T.Parallel(chunk):
                at = n * chunk + i
                bits = in_order(load(T.min(at, length - 1)))
                # What has been decided is all bits above these eight.
                if at < length and (step == 0 or bits >> (shift + T.uint32(8)) == least):
                    T.atomic_add(
                        counts[T.cast(bits >> shift & T.uint32(255), "int32")], amount(at, bits)
                    )
        T.copy(counts, own)
        T.cumsum(own, reached, reverse=True)
        for i in T.Parallel(_BINS):  # the highest bin with which there is enough
            own[i] = T.if_then_else(reached[i] >= missing, i, 0)
        T.reduce_max(own, found, dim=0)
        for i in T.Parallel(_BINS):
            own[i] = T.if_then_else(i > found[0], counts[i], 0)
        T.reduce_sum(own, above, dim=0)
        least = least << T.uint32(8) | T.cast(found[0], "uint32")
        missing -= above[0]
