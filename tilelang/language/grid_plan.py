"""Plans how the partial results of a grid's blocks become one, at the least cost."""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

#: Estimates for an H200, in microseconds and bytes a microsecond: a block tells that it has come
#: and learns whether it is the last; one block reads partial results; atomic operations a
#: microsecond, of all blocks together and on one address; blocks of a cluster wait for each other.
ARRIVAL = 1.5
CLUSTER = 1.0
READ = 1e5
ATOMICS = 1e5
ATOMICS_ON_ONE = 1e3
#: Blocks that an unknown grid is taken to have, and partial results that one block of it combines
#: before all are combined.
UNKNOWN_BLOCKS = 1024
UNKNOWN_FAN_IN = 32
#: Bytes of all parts that the first block of a cluster takes in its shared memory.
IN_CLUSTER = 32 << 10


class GridPlan(NamedTuple):
    """A plan.

    Attributes:
        kind: "atomics": blocks add to one sum, which the last to come takes; "workspace": each
            block stores its part, which the last to come combine; "cluster": each stores it in
            the shared memory of the first, which combines all; "block": there is one block.
        fan_in: of a workspace, parts that are combined at once: those of neighbouring blocks by the
            last of these, and what comes of that by the last of all; 0 for all at once.
        cost: its estimate in microseconds.
        declined: what other plans would cost, or why they are none.
    """

    kind: str
    fan_in: int
    cost: float
    declined: tuple[str, ...]

    @property
    def text(self) -> str:
        """What is done, for people."""
        if self.kind == "block":
            return "the grid is one block"
        if self.kind == "atomics":
            return "atomic operations on one result, which the last block stores"
        if self.kind == "cluster":
            return (
                "shared memory of the cluster; its first block combines all parts, in the order of "
                "the blocks"
            )
        if self.fan_in:
            return (
                f"a workspace; the last of each {self.fan_in} blocks combines their parts, the "
                "last of all the rest"
            )
        return "a workspace; the last block combines all parts, in the order of the blocks"


def _workspace(blocks: int, size: int) -> float:
    return ARRIVAL + blocks * size / READ


def _cluster(blocks: int, size: int) -> float:
    return CLUSTER + blocks * size / READ


def _tree(blocks: int, fan_in: int, size: int) -> float:
    return 2 * ARRIVAL + (fan_in + -(-blocks // fan_in)) * size / READ


def _atomics(blocks: int, elements: int, size: int) -> float:
    adding = max(blocks * elements / ATOMICS, blocks / ATOMICS_ON_ONE)
    return ARRIVAL + adding + 2 * size / READ


def choose(
    blocks: int | None, elements: int, size: int, obstacle: str, clustered: bool = False
) -> GridPlan:
    """Returns the plan that costs least.

    Args:
        blocks: of the grid that have parts of one result; None if known at run time only.
        elements, size: of a part; ``size`` in bytes.
        obstacle: why atomic operations do not do; empty when they do.
        clustered: the blocks are a cluster.
    """
    if blocks == 1:
        return GridPlan("block", 0, 0.0, ())
    count = UNKNOWN_BLOCKS if blocks is None else blocks
    fan_in = UNKNOWN_FAN_IN if blocks is None else max(2, isqrt(count - 1) + 1)
    costs = [
        (_workspace(count, size), "workspace", 0),
        (_tree(count, fan_in, size), "workspace", fan_in),
    ]
    if not obstacle:
        costs.append((_atomics(count, elements, size), "atomics", 0))
    if clustered and count * size <= IN_CLUSTER:
        costs.append((_cluster(count, size), "cluster", 0))
    costs.sort(key=lambda each: each[0])
    cost, kind, taken = costs[0]
    declined = [f"{'tree' if fan else name} {estimate:.1f} us" for estimate, name, fan in costs[1:]]
    if obstacle:
        declined.append(f"no atomics: {obstacle}")
    return GridPlan(kind, taken, cost, tuple(declined))
