"""Every named edge is needed: without it the emulator finds a data race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from stream.reference import collect, random_array

from tilelang.errors import EmulatorError
from tilelang.stream import StreamError, TileStream
from tilelang.stream.edges import EDGES
from tilelang.stream.emulated import EmulatedQueue


@pytest.fixture
def without_edge(monkeypatch):
    """Lets waits of the edge with a name do nothing."""

    def drop(name: str) -> list[str]:
        seen = []
        wait = EmulatedQueue.wait

        def some(self, event, edge):
            seen.append(edge)
            if edge != name:
                wait(self, event, edge)

        monkeypatch.setattr(EmulatedQueue, "wait", some)
        return seen

    return drop


def run() -> None:
    """A stream with arrays of the host and of the device, many more than its pools hold."""
    array = random_array((24, 6, 8), "uint16")
    stream = TileStream((None, 6, 8), (2, 3, 4), "uint16", "emulator", batch=2)
    stream.ready()
    copy = np.zeros((24, 6, 8), "uint16")
    stream.to(copy)
    with ThreadPoolExecutor(1) as other_thread:
        for first in range(0, 24, 4):
            stream.append(array[first : first + 1])
            stream.append(torch.from_numpy(array[first + 1 : first + 3]))
            stream.append(array[first + 3 : first + 4])
            other_thread.submit(lambda: collect(stream.ready())).result()
    stream.close()
    np.testing.assert_array_equal(copy, array)


def test_edges_are_those_of_the_table(without_edge):
    seen = without_edge("")
    run()
    assert set(seen) == set(EDGES)


@pytest.mark.every_schedule
@pytest.mark.parametrize("name", EDGES)
def test_a_missing_edge_is_found(name, without_edge):
    without_edge(name)
    with pytest.raises((EmulatorError, StreamError), match="data race"):
        run()
