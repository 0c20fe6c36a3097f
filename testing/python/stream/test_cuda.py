"""Streams on a GPU: arrays from everywhere, tiles as NumPy cuts them, and pools that are held."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from stream.reference import cut, random_array
from stream.test_stream import CASES

from tilelang.errors import ArgumentError
from tilelang.stream import TileStream, WouldBlock

pytestmark = pytest.mark.requires_cuda


def somewhere(array: np.ndarray, place: int):
    """The array as one of NumPy, in pinned memory, or on the GPU."""
    if place == 0 or array.size == 0:
        return array.copy()
    tensor = torch.from_numpy(array.copy())
    return tensor.pin_memory() if place == 1 else tensor.cuda()


def run(case, pieces: int, batch, kinds, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Appends in random pieces from places of some kinds; returns the array and all tiles."""
    shape, tile, order, dtype = case
    array = random_array(shape, dtype)
    rng = np.random.default_rng(seed)
    ends = [*sorted(rng.integers(0, array.size, pieces)), array.size]
    stream = TileStream(shape, tile, dtype, "cuda", order=order, batch=batch, pad=1)
    found, position, flat, kept = [], 0, array.reshape(-1), []
    for end in ends:
        piece = somewhere(flat[position:end], rng.choice(kinds))
        kept.append(piece)
        done = 0
        while position + done < end:
            try:
                stream.append(piece[done:], timeout=0)
                done = end - position
            except WouldBlock as full:
                done += full.appended
            found += [batch.tiles.cpu().numpy() for batch in stream.ready()]
        position = end
    stream.flush()
    found += [batch.tiles.cpu().numpy() for batch in stream.ready()]
    return array, np.concatenate(found)


@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_tiles_are_those_that_numpy_cuts(case, kinds):
    for seed, batch in enumerate((1, 2, "auto")):
        array, tiles = run(case, 5, batch, kinds, seed)
        np.testing.assert_array_equal(tiles, cut(array, case[1], case[2], 1))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_large_appends_go_through_a_small_memory(place):
    array = random_array((48, 512, 1000), "uint16")
    stream = TileStream((None, 512, 1000), (4, 64, 50), "uint16", "cuda", batch=1, pools=2)
    found = []

    def consume() -> None:
        for batch in batches:
            found.append(batch.tiles.cpu().numpy())

    batches = stream.ready(timeout=None)
    thread = threading.Thread(target=consume)
    thread.start()
    with stream:
        piece = somewhere(array, place)
        event = stream.append(piece, timeout=60)
        assert (event is not None) == (place == 1)
    thread.join(60)
    np.testing.assert_array_equal(np.concatenate(found), cut(array, (4, 64, 50)))


def test_an_array_of_a_side_stream_is_read_after_it_is_made():
    stream = TileStream((8, 1024, 1024), (8, 64, 64), "float32", "cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        data = torch.zeros(8, 1024, 1024, device="cuda")
        for _ in range(50):
            data += 1
        stream.append(data)
        data.fill_(-1)  # after the append, in the same queue
    [batch] = stream.ready()
    assert bool((batch.tiles == 50).all())


def test_pinned_memory_is_free_after_its_event():
    stream = TileStream((None, 512, 512), (4, 64, 64), "uint16", "cuda")
    frame, event = torch.empty(4, 512, 512, dtype=torch.uint16).pin_memory(), None
    found = []
    for value in range(6):
        if event is not None:
            event.synchronize()
            assert event.done
        frame.fill_(value)
        event = stream.append(frame)
        found += [batch.tiles.clone() for batch in stream.ready()]
    stream.flush()
    found += [batch.tiles.clone() for batch in stream.ready()]
    tiles = torch.cat(found).cpu().numpy().reshape(6, -1)
    np.testing.assert_array_equal(tiles, np.repeat(np.arange(6), 4 * 512 * 512).reshape(6, -1))


def test_memory_of_a_dropped_stream_is_not_used_while_it_works():
    for value in range(12):
        stream = TileStream((16, 2048, 2048), (16, 64, 64), "uint16", "cuda")
        frames = torch.full((16, 2048, 2048), value, dtype=torch.int16).view(torch.uint16)
        stream.append(frames.pin_memory() if value % 2 else frames)
        [batch] = stream.ready()
        tiles = batch.tiles
        del stream, batch  # their work may still be going on
        other = torch.full((1 << 26,), -1, dtype=torch.int16, device="cuda")
        assert bool((tiles.view(torch.int16) == value).all()) and bool((other == -1).all())


def test_a_writer_gets_all_tiles():
    array = random_array((24, 100, 120), "uint16")
    copy = np.zeros_like(array)
    with TileStream((None, 100, 120), (4, 32, 32), "uint16", "cuda", batch=1) as stream:
        stream.to(copy)
        for frame in array:
            stream.append(frame)
    np.testing.assert_array_equal(copy, array)


def test_a_tensor_of_another_type_is_refused():
    with pytest.raises(ArgumentError, match="elements of int16, the stream of uint16"):
        TileStream((8, 8), (2, 2), "uint16", "cuda").append(
            torch.zeros(8, dtype=torch.int16, device="cuda")
        )
