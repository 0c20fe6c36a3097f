"""Until when arrays of pinned memory are read: points of a queue, shared by small arrays."""

import gc
import weakref

import numpy as np
import pytest

from tilelang.stream.device import Source
from tilelang.stream.reading import Readings

MIB = 1 << 20


class Queue:
    """Copies that are done when the test says so."""

    def __init__(self):
        self.submitted = self.done = self.points = 0

    def record(self):
        self.points += 1
        return Point(self, self.submitted)


class Point:
    def __init__(self, queue, place):
        self.queue, self.place = queue, place

    @property
    def done(self):
        return self.queue.done >= self.place

    def synchronize(self, edge=""):
        self.queue.done = max(self.queue.done, self.place)


def appended(readings, queue, size):
    memory = np.zeros(1)
    queue.submitted += 1
    return readings.add(Source("pinned", size, memory, 0), size), weakref.ref(memory)


def test_small_arrays_share_a_point():
    queue = Queue()
    readings = Readings(queue)
    found = [appended(readings, queue, MIB // 16)[0] for _ in range(64)]
    assert queue.points == 4
    assert len(set(map(id, found))) == 4
    queue.done = 16
    assert [reading.done for reading in found] == [True] * 16 + [False] * 48


def test_large_arrays_have_points_of_their_own():
    queue = Queue()
    readings = Readings(queue)
    found = [appended(readings, queue, 2 * MIB)[0] for _ in range(4)]
    found[1].synchronize()
    assert queue.done == 2
    assert [reading.done for reading in found] == [True, True, False, False]


@pytest.mark.parametrize("asked", ["done", "synchronize"])
def test_a_point_that_was_asked_for_is_not_that_of_later_arrays(asked):
    queue = Queue()
    readings = Readings(queue)
    first, _ = appended(readings, queue, 100)
    assert first.synchronize() is None if asked == "synchronize" else not first.done
    later, _ = appended(readings, queue, 100)
    queue.done = 1
    assert first.done
    assert not later.done


def test_arrays_are_kept_until_they_are_read_and_not_longer():
    queue = Queue()
    readings = Readings(queue)
    kept = [appended(readings, queue, MIB // 2)[1] for _ in range(8)]
    gc.collect()
    assert all(memory() is not None for memory in kept)
    queue.done = 5  # of the third pair only the first one
    appended(readings, queue, MIB)
    gc.collect()
    assert [memory() is not None for memory in kept] == [False] * 4 + [True] * 4
