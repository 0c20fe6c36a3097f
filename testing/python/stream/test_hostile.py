"""Streams that are used as nobody should: errors that say so, and nothing lost or out of place."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from stream.reference import collect, cut, random_array

from tilelang.errors import ArgumentError
from tilelang.stream import StreamError, TileStream, WouldBlock, pools
from tilelang.stream.ingest import Ingest

TILE = (2, 3, 4)


def opened(**options) -> TileStream:
    options = {"batch": 1, **options}
    return TileStream((None, 6, 8), TILE, "uint16", "emulator", **options)


def test_a_loop_that_is_left_early_releases_its_batch():
    array = random_array((12, 6, 8), "uint16")
    stream, found = opened(), []
    stream.append(array[:4])
    for first in range(4, 14, 2):
        for batch in stream.ready():
            found.append(batch.tiles.copy())
            break
        stream.append(array[first : first + 2], timeout=0)
    found += [batch.tiles.copy() for batch in stream.ready()]
    np.testing.assert_array_equal(np.concatenate(found), cut(array, TILE))


def test_an_exception_in_a_loop_loses_no_later_batch():
    array = random_array((8, 6, 8), "uint16")
    stream = opened()
    stream.append(array[:4])
    with pytest.raises(ZeroDivisionError):
        for _ in stream.ready():
            raise ZeroDivisionError
    gc.collect()
    found = collect(stream.ready())
    stream.append(array[4:8], timeout=0)
    found += collect(stream.ready())
    np.testing.assert_array_equal(np.concatenate([t for t, _ in found]), cut(array[2:], TILE))


def test_a_consumer_that_appends_to_its_own_stream_is_told():
    stream = opened()
    stream.append(np.zeros((4, 6, 8), "uint16"))
    with pytest.raises(WouldBlock, match="only this thread could release one"):
        for _ in stream.ready():
            stream.append(np.zeros((4, 6, 8), "uint16"))


def test_a_consumer_whose_thread_ended_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(pools, "_PATIENCE", 0.2)
    stream = opened()
    batches = stream.ready(timeout=None)
    thread = threading.Thread(target=lambda: next(batches).release())
    thread.start()
    stream.append(np.zeros((2, 6, 8), "uint16"))
    thread.join()
    with pytest.raises(WouldBlock, match=r"'ready\(\)' holds 1, 2, and its thread has ended"):
        stream.append(np.zeros((6, 6, 8), "uint16"))
    assert [batch.number for batch in stream.ready()] == [1, 2]  # another thread takes over


def test_threads_that_append_do_so_one_after_the_other():
    stream = opened(pools=64)
    frames = [np.full((2, 6, 8), value, "uint16") for value in range(32)]
    threads = [
        threading.Thread(target=lambda part=part: [stream.append(frame) for frame in part])
        for part in (frames[:16], frames[16:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = [set(batch.tiles.reshape(-1).tolist()) for batch in stream.ready()]
    assert sorted(value for [value] in map(list, values)) == list(range(32))


def test_an_append_beside_one_that_waits_gives_up_in_time():
    stream = opened()
    consumer = stream.consumer("slow")
    consumer.ready()
    stream.append(np.zeros((4, 6, 8), "uint16"))
    errors = []

    def wait() -> None:
        try:
            stream.append(np.zeros((2, 6, 8), "uint16"), timeout=1)
        except WouldBlock as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    with pytest.raises(WouldBlock, match=r"another thread is appending, after 0\.1 s"):
        stream.append(np.zeros(1, "uint16"), timeout=0.1)
    thread.join()
    assert len(errors) == 1 and stream.position == 4 * 48


def test_a_consumer_that_closes_the_stream_it_blocks_is_told():
    stream, errors = opened(), []
    batches = stream.ready(timeout=None)

    def consume() -> None:
        for _ in batches:
            if not errors:
                time.sleep(0.3)  # meanwhile all pools are full
                try:
                    stream.flush()
                except WouldBlock as error:
                    errors.append(str(error))

    thread = threading.Thread(target=consume)
    thread.start()
    with stream:
        stream.append(np.zeros((12, 6, 8), "uint16"))
    thread.join(20)
    assert not thread.is_alive()
    assert "waits for batches that this thread holds" in errors[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_no_stream():
    stream = opened()
    stream.append(np.zeros(5, "uint16"))
    child = os.fork()
    if child == 0:
        try:
            stream.append(np.zeros(5, "uint16"))
            os._exit(1)
        except StreamError as error:
            os._exit(0 if "of which this is a fork" in str(error) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stream.append(np.zeros(5, "uint16"))


def test_an_append_that_was_interrupted_is_the_last_one(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    stream = opened()
    stream.append(np.zeros(50, "uint16"))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Ingest, "put", interrupted)
        stream.append(np.zeros(50, "uint16"))
    for use in (lambda: stream.append(np.zeros(1, "uint16")), stream.flush):
        with pytest.raises(StreamError, match="an append at element 50 was interrupted"):
            use()


def test_a_stream_that_is_dropped_lets_its_threads_end():
    stream = opened()
    writer = stream.to(np.zeros((8, 6, 8), "uint16"))
    stream.append(np.zeros((4, 6, 8), "uint16"))
    stream.flush()
    thread, gone = writer._thread, weakref.ref(stream)
    del stream
    gc.collect()
    assert gone() is None
    thread.join(20)
    assert not thread.is_alive()


def test_tiles_outlive_their_stream():
    stream = opened()
    stream.append(np.full((2, 6, 8), 7, "uint16"))
    [batch] = stream.ready()
    tiles = batch.tiles
    del stream, batch
    gc.collect()
    assert (tiles == 7).all()


@pytest.mark.parametrize(
    "nothing",
    [np.zeros(0, "uint16"), np.zeros((3, 0, 2), "uint16"), torch.zeros(0).to(torch.int16)],
)
def test_nothing_may_be_appended(nothing):
    stream = opened()
    if isinstance(nothing, torch.Tensor):
        nothing = nothing.view(torch.uint16)
    assert stream.append(nothing) is None and stream.position == 0
    assert stream._ingest is None
    assert stream.append(np.full((), 3, "uint16")) is None and stream.position == 1


def test_views_of_all_kinds_are_taken_in_row_major_order():
    base = random_array((6, 8, 4), "uint16")
    views = [
        base.transpose(2, 0, 1)[:2],
        np.broadcast_to(base[0, 0, 0], (2, 6, 8)),
        base.transpose(2, 0, 1)[::-1][:2, ::-1, ::-1],
        np.frombuffer(base.tobytes(), "uint16").reshape(4, 6, 8)[:2],
    ]
    stream, found = opened(pools=8), []
    for view in views:
        stream.append(view)
    found = np.concatenate([tiles for tiles, _ in collect(stream.ready())])
    np.testing.assert_array_equal(found, cut(np.concatenate(views), TILE))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(4, ">u2"), "elements of >u2"),
        (np.ma.masked_array(np.zeros(4, "uint16"), [0, 1, 0, 0]), "the array has a mask"),
        (torch.zeros(4, requires_grad=True), "cannot read this Tensor|elements of float32"),
        (b"abcd", "takes arrays, not bytes"),
        (None, "takes arrays, not NoneType"),
    ],
)
def test_what_is_no_array_of_the_stream(data, message):
    stream = opened()
    with pytest.raises(ArgumentError, match=message):
        stream.append(data)
    assert stream.position == 0


def test_a_tensor_that_is_conjugated_lazily_is_not_taken_for_another():
    values = torch.randn(4, 6, dtype=torch.complex64)
    stream = TileStream((4, 6), (2, 3), "complex64", "emulator")
    try:
        stream.append(values.conj())
    except ArgumentError as error:
        assert "cannot read" in str(error)
        return
    [(tiles, _)] = collect(stream.ready())
    np.testing.assert_array_equal(tiles, cut(values.conj().resolve_conj().numpy(), (2, 3)))


@pytest.mark.parametrize("dtype", ["longdouble", ">u2", "clongdouble", "U4", "datetime64[s]"])
def test_types_that_kernels_do_not_have(dtype):
    with pytest.raises(ArgumentError, match="is no type of numbers"):
        TileStream((None, 4), (2, 2), dtype, "emulator")


def test_a_tile_that_no_memory_holds_is_refused_with_its_size():
    stream = TileStream((None,), (1 << 50,), "uint8", "emulator")
    assert stream.memory.pools == 1 << 51
    with pytest.raises(StreamError, match=f"cannot allocate {stream.memory.device} bytes"):
        stream.append(np.zeros(1, "uint8"))
    assert stream.position == 0


def test_a_tile_larger_than_the_array_is_padded():
    array = random_array((3, 5), "int16")
    stream = TileStream((3, 5), (64, 100), "int16", "emulator", pad=-2)
    stream.append(array)
    [(tiles, _)] = collect(stream.ready())
    np.testing.assert_array_equal(tiles, cut(array, (64, 100), None, -2))


@pytest.mark.parametrize("timeout", [-1, "1", float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout):
    stream = opened()
    with pytest.raises(ArgumentError, match="is no number of seconds"):
        stream.append(np.zeros(1, "uint16"), timeout=timeout)
    with pytest.raises(ArgumentError, match="is no number of seconds"):
        stream.ready(timeout=timeout)


def test_a_closed_stream_closes_again_and_takes_nothing():
    stream = opened()
    stream.append(np.zeros((2, 6, 8), "uint16"))
    stream.close()
    stream.close()
    with pytest.raises(StreamError, match="has ended at element 96"):
        stream.append(np.zeros(1, "uint16"))
    with pytest.raises(StreamError, match="would miss tiles"):
        stream.consumer("late")
    assert len(collect(stream.ready())) == 1
    assert not collect(stream.ready(timeout=None))
