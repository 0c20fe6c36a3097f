"""Every order between queues of a stream that is not the order within one queue, by name.

A queue is a CUDA stream, or what stands for one on the emulator, or the host.
"""

from __future__ import annotations

from typing import NamedTuple


class Edge(NamedTuple):
    """A dependence: an event in one queue that another queue waits for."""

    name: str
    source: str
    target: str
    buffer: str
    reason: str


EDGES = {
    edge.name: edge
    for edge in (
        Edge("refill", "copy", "host", "host staging", "the copy has read what is written anew"),
        Edge("arrived", "copy", "scatter", "staging", "elements are on the device"),
        Edge("drained", "scatter", "copy", "staging", "elements are in tiles"),
        Edge("joined", "caller", "scatter", "pool", "arrays of the device are in tiles"),
        Edge("filled", "scatter", "consumer", "pool", "the tiles of a batch are complete"),
        Edge("released", "consumer", "scatter", "pool", "consumers have read the last batch"),
        Edge("reopened", "scatter", "caller", "pool", "arrays of the device may enter the pool"),
        Edge("fetched", "consumer", "host", "host tiles", "a writer's copy of a batch is complete"),
    )
}
