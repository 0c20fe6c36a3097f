"""Consumers that are slow, late, several, or in the thread that appends."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from stream.reference import collect, cut, random_array

from tilelang.stream import StreamError, TileStream, WouldBlock

SHAPE, TILE = (24, 6, 8), (2, 3, 4)


def opened(**options) -> TileStream:
    return TileStream((None, *SHAPE[1:]), TILE, "uint16", "emulator", batch=1, **options)


def test_an_append_that_may_not_wait_says_what_it_took():
    array = random_array(SHAPE, "uint16")
    stream = opened()
    with pytest.raises(WouldBlock, match=r"no pool is free now: .*'ready\(\)' holds 0, 1") as full:
        stream.append(array, timeout=0)
    assert full.value.appended == stream.position == 4 * 48
    found = collect(stream.ready())
    stream.append(array.reshape(-1)[4 * 48 : 8 * 48], timeout=0)
    found += collect(stream.ready())
    np.testing.assert_array_equal(np.concatenate([t for t, _ in found]), cut(array[:8], TILE))


def test_an_append_gives_up_in_time():
    stream = opened()
    start = time.monotonic()
    with pytest.raises(WouldBlock, match=r"after 0\.2 s"):
        stream.append(random_array(SHAPE, "uint16"), timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 5


def test_a_wait_that_cannot_end_is_refused():
    stream = opened()
    assert not list(stream.ready())
    with pytest.raises(WouldBlock, match="only this thread could release one"):
        stream.append(random_array(SHAPE, "uint16"))


def test_a_batch_that_is_held_is_not_overwritten():
    array = random_array(SHAPE, "uint16")
    stream = opened()
    stream.append(array[:4])
    batches = iter(stream.ready())
    batch = next(batches)
    with pytest.raises(WouldBlock):
        stream.append(array[4:8], timeout=0)
    np.testing.assert_array_equal(batch.tiles, cut(array[:2], TILE))
    assert batch.event.done
    assert [batch.number for batch in batches] == [1]
    stream.append(array[4:8], timeout=0)


@pytest.mark.every_schedule
def test_a_slow_consumer_makes_the_append_wait():
    array = random_array(SHAPE, "uint16")
    stream, found = opened(), []

    def consume() -> None:
        for batch in batches:
            before = np.array(batch.tiles)
            time.sleep(0.02)
            np.testing.assert_array_equal(batch.tiles, before)
            found.append(before)

    batches = stream.ready(timeout=None)
    thread = threading.Thread(target=consume)
    thread.start()
    with stream:
        stream.append(array)
    thread.join(60)
    np.testing.assert_array_equal(np.concatenate(found), cut(array, TILE))


def test_consumers_get_every_batch_each():
    array = random_array(SHAPE, "uint16")
    stream = opened(pools=12)
    one, other = stream.consumer("one"), stream.consumer("other")
    stream.append(array)
    for consumer in (one, other):
        tiles = np.concatenate([tiles for tiles, _ in collect(consumer.ready())])
        np.testing.assert_array_equal(tiles, cut(array, TILE))
    with pytest.raises(StreamError, match="comes after 1152 elements: it would miss tiles"):
        stream.consumer("late")
    with pytest.raises(StreamError, match="it would miss tiles"):
        stream.ready()


def test_one_consumer_that_holds_is_enough():
    array = random_array(SHAPE, "uint16")
    stream = opened()
    one, other = stream.consumer("one"), stream.consumer("other")
    stream.append(array[:4])
    collect(one.ready())
    with pytest.raises(WouldBlock, match=r"\(batches: 'other' holds 0, 1\)"):
        stream.append(array[4:], timeout=0)
    collect(other.ready())
    stream.append(array[4:8], timeout=0)


def test_an_error_in_the_block_ends_the_stream_without_its_begun_tiles():
    stream = opened()
    with pytest.raises(ZeroDivisionError), stream:
        stream.append(random_array((3, 6, 8), "uint16"))
        raise ZeroDivisionError
    assert len(collect(stream.ready())) == 1
    with pytest.raises(StreamError, match="has ended"):
        stream.append(np.zeros(1, "uint16"))
