"""Tiles of a stream against NumPy: any rank, ragged, appended in any pieces, in any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.reference import collect, cut, random_array
from tiers import examples

import tilelang.language as T
from tilelang.errors import ArgumentError
from tilelang.stream import StreamError, TileStream, WouldBlock, kernels

# Shape, tile, order, dtype: each leading axis, periods, merged axes, vectors of all widths, and
# each kind of kernel: by runs, by patches, and with neighbours exchanged along either axis.
CASES = [
    ((37,), (8,), None, "uint8"),
    ((64,), (1,), None, "float64"),
    ((9, 10), (2, 3), None, "uint16"),
    ((6, 7), (1, 4), (1, 0), "int32"),
    ((5, 10, 9), (1, 4, 3), None, "uint16"),
    ((4, 6, 16), (2, 4, 8), None, "uint16"),
    ((7, 4, 6), (2, 2, 3), (2, 0, 1), "float32"),
    ((3, 1, 12, 8), (2, 4, 5, 8), None, "uint8"),
    ((3, 2, 5, 8), (1, 1, 5, 4), (1, 0, 2, 3), "complex64"),
    ((2, 3, 2, 5, 6), (2, 2, 1, 3, 4), None, "float16"),
    ((2, 21, 96), (2, 8, 32), None, "uint16"),
    ((2, 19, 70), (1, 16, 33), None, "uint16"),
    ((2, 70, 40), (2, 32, 20), (0, 2, 1), "uint8"),
    ((3, 2, 2, 3, 2, 4), (2, 1, 2, 2, 2, 2), None, "complex128"),
]


def run(case, pieces, batch, **options):
    """Appends an array in pieces to a stream, and returns all tiles with their places."""
    shape, tile, order, dtype = case
    array = random_array(shape, dtype)
    shape = (None, *shape[1:]) if options.pop("unbounded", False) else shape
    device = options.pop("device", "emulator")
    stream = TileStream(shape, tile, dtype, device, order=order, batch=batch, **options)
    found, flat, position = [], array.reshape(-1), 0
    for piece in pieces:
        end = position + piece
        while position < end:
            try:
                stream.append(flat[position:end], timeout=0)
                position = end
            except WouldBlock as full:
                position += full.appended
            found += collect(stream.ready())
    stream.flush()
    return array, found + collect(stream.ready())


@st.composite
def pieces_of(draw: st.DrawFn, total: int) -> list[int]:
    """Any split of ``total`` elements."""
    ends = sorted(draw(st.lists(st.integers(0, total), max_size=6)))
    return [b - a for a, b in itertools.pairwise([0, *ends, total])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_any_split_gives_the_tiles_that_numpy_cuts(case, data):
    pieces = data.draw(pieces_of(int(np.prod(case[0]))))
    batch = data.draw(st.sampled_from([1, 2, 3, "auto"]))
    unbounded = data.draw(st.booleans())
    array, found = run(case, pieces, batch, pad=1, unbounded=unbounded)
    tiles = np.concatenate([tiles for tiles, _ in found])
    index = np.concatenate([index for _, index in found])
    np.testing.assert_array_equal(tiles, cut(array, case[1], case[2], 1))
    counts = [-(-s // n) for s, n in zip(case[0], case[1], strict=True)]
    order = list(case[2] or range(len(counts)))
    np.testing.assert_array_equal(index, np.array(list(np.ndindex(*counts)))[:, order])


@given(data=st.data())
@settings(max_examples=10, deadline=None, derandomize=True)
def test_any_shape_tile_and_order(data):
    any_stream(data, ["emulator"])


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_the_cpu_cuts_as_numpy_does(data):
    any_stream(data, ["cpu"])


@given(data=st.data())
@settings(max_examples=4, deadline=None, derandomize=True)
def test_the_cpu_cuts_as_the_plan_of_a_gpu_does(data):
    any_stream(data, ["cpu", "emulator"])


def any_stream(data, devices) -> None:
    """Draws a stream, and compares what devices make of it with NumPy's tiles."""
    rank = data.draw(st.integers(1, 6))
    limit = (40, 12, 9, 6, 4, 3)[rank - 1]
    shape = data.draw(st.tuples(*[st.integers(1, limit)] * rank))
    tile = data.draw(st.tuples(*[st.integers(1, limit + 1)] * rank))
    order = data.draw(st.permutations(range(rank)))
    dtype = data.draw(st.sampled_from(["uint8", "uint16", "float32", "int64", "complex128"]))
    case = shape, tile, tuple(order), dtype
    pieces = data.draw(pieces_of(int(np.prod(shape))))
    options = {"unbounded": data.draw(st.booleans()), "threads": data.draw(st.integers(1, 3))}
    for device in devices:
        array, found = run(case, pieces, 2, pad=1, device=device, **options)
        tiles = np.concatenate([tiles for tiles, _ in found])
        np.testing.assert_array_equal(tiles, cut(array, tile, order, 1))


@pytest.mark.parametrize("dtype", ["bool", "uint16", "float32", "float64", "complex128"])
@pytest.mark.parametrize(
    ("shape", "tile", "order"),
    [
        ((5, 200, 300), (2, 64, 48), None),
        ((5, 200, 300), (2, 64, 48), (0, 2, 1)),
        ((70, 40, 300), (64, 8, 48), (2, 1, 0)),
        ((3, 2, 100, 301), (1, 1, 30, 32), (1, 3, 2, 0)),
    ],
)
def test_large_pieces_are_shared_by_threads(shape, tile, order, dtype):
    total = int(np.prod(shape))
    case = shape, tile, order, dtype
    array, found = run(case, [total // 3, 5, total - total // 3 - 5], 2, device="cpu", threads=3)
    tiles = np.concatenate([tiles for tiles, _ in found])
    np.testing.assert_array_equal(tiles, cut(array, tile, order))


@pytest.mark.parametrize("case", CASES[2:13:2], ids=lambda case: f"{case[0]}-{case[1]}")
def test_positions_of_64_bits(case, monkeypatch):
    caches = kernels.scatter, kernels.pad
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(kernels, "index_dtype", lambda *_: T.int64)
    array, found = run(case, [7, int(np.prod(case[0])) - 7], 2, pad=1)
    tiles = np.concatenate([tiles for tiles, _ in found])
    np.testing.assert_array_equal(tiles, cut(array, case[1], case[2], 1))
    for cached in caches:
        cached.cache_clear()


def test_large_batches_have_positions_of_64_bits():
    for frames, bits in ((100, "int32"), (2000, "int64")):
        plan = TileStream((None, 4096, 4096), (frames, 64, 64), "uint8", "emulator").plan
        count = plan.memory.pools // plan.vectors.lanes
        assert str(kernels.index_dtype(plan.vectors, count)).endswith(bits)


@pytest.mark.every_schedule
def test_the_schedule_of_queues_does_not_matter():
    case = CASES[6]
    array, found = run(case, [50, 3, 115], 2, pad=-1)
    tiles = np.concatenate([tiles for tiles, _ in found])
    np.testing.assert_array_equal(tiles, cut(array, case[1], case[2], -1))


def test_a_stream_that_ends_within_an_epoch_is_padded():
    array = random_array((5, 6, 8), "uint16")
    stream = TileStream((None, 6, 8), (2, 4, 4), "uint16", "emulator", pad=7, batch=2)
    stream.append(array.reshape(-1)[: 4 * 48 + 13])
    stream.flush()
    expected = array.copy()
    expected.reshape(-1)[4 * 48 + 13 :] = 7
    tiles = np.concatenate([tiles for tiles, _ in collect(stream.ready())])
    np.testing.assert_array_equal(tiles, cut(expected, (2, 4, 4), None, 7))
    with pytest.raises(StreamError, match="has ended at element 205"):
        stream.append(array)


def test_a_flush_between_epochs_lets_the_stream_go_on():
    array = random_array((6, 6, 8), "uint16")
    stream = TileStream((None, 6, 8), (2, 4, 4), "uint16", "emulator", batch=2)
    stream.append(array[:2])
    assert not list(stream.ready())
    stream.flush()
    stream.flush()
    first = collect(stream.ready())
    stream.append(array[2:])
    tiles = np.concatenate([tiles for tiles, _ in first + collect(stream.ready())])
    np.testing.assert_array_equal(tiles, cut(array, (2, 4, 4)))


def test_tensors_and_arrays_of_any_library_and_form():
    array = random_array((8, 6, 8), "int16")
    stream = TileStream((8, 6, 8), (2, 3, 4), "int16", "emulator", batch=4)
    tensor = torch.from_numpy(array)
    stream.append(tensor[:2])
    stream.append(tensor[2:4].transpose(0, 2).contiguous().transpose(0, 2))
    stream.append(np.asfortranarray(array[4:5]))
    stream.append(array[5:6].reshape(-1)[:1])

    class Exported:
        """An array of another library."""

        def __dlpack__(self, **kwargs):
            return array.reshape(-1)[241:].__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return (1, 0)

    stream.append(Exported())
    [(tiles, _)] = collect(stream.ready())
    np.testing.assert_array_equal(tiles, cut(array, (2, 3, 4)))


def test_an_array_of_the_host_may_change_after_its_append():
    array = random_array((4, 6, 8), "int32")
    stream = TileStream((4, 6, 8), (2, 3, 4), "int32", "emulator")
    for row in array:
        reused = row.copy()
        stream.append(reused)
        reused[:] = 0
    [(tiles, _)] = collect(stream.ready())
    np.testing.assert_array_equal(tiles, cut(array, (2, 3, 4)))


def test_memory_is_known_before_it_is_allocated():
    stream = TileStream((None, 2, 2048, 2304), (16, 1, 64, 128), "uint16", "emulator")
    tile = 16 * 64 * 128 * 2
    assert stream.tiles_per_epoch == stream.live == 2 * 32 * 18
    assert stream.slots == 2 * 1152
    assert stream.memory.pools == 2 * 1152 * tile
    assert stream.memory.device == stream.memory.pools + stream.memory.staging
    assert stream.memory.host == 2 * ((32 << 20) + 16)
    assert stream._ingest is None
    small = TileStream((None, 64, 64), (1, 64, 64), "uint8", "emulator")
    assert small.slots == 2 * 1024


def test_schedule_names_every_edge(golden):
    stream = TileStream((None, 5, 8), (2, 2, 4), "uint16", "emulator")
    golden("schedule", str(stream.schedule()) + "\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "bfloat8"}, "dtype='bfloat8' is no type"),
        ({"dtype": object}, "is no type"),
        ({"batch": 0}, "batch=0 is no positive integer or 'auto'"),
        ({"batch": "many"}, "batch='many'"),
        ({"pools": 0}, "pools=0"),
        ({"pad": 70000}, "pad=70000 is no element of uint16"),
        ({"pad": 0.5}, "pad=0.5 is no element of uint16"),
        ({"pad": "x"}, "pad='x'"),
        ({"order": "tyy"}, "does not name 3 axes"),
        ({"order": "tyx->tya"}, "is no permutation"),
        ({"order": (0, 1)}, "is no permutation"),
        ({"device": "tpu"}, "no device 'tpu'"),
        ({"device": "cpu", "threads": 0}, "threads=0 is no positive integer"),
    ],
)
def test_what_no_stream_is_opened_with(options, message):
    arguments = {"dtype": "uint16", "device": "emulator", **options}
    with pytest.raises(ArgumentError, match=message):
        TileStream((None, 4, 4), (1, 2, 2), **arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(4, "int16"), "elements of int16, the stream of uint16"),
        (torch.zeros(4), "elements of float32"),
        ([1, 2], "takes arrays, not list"),
        (np.zeros(97, "uint16"), "97 elements are appended at 0 to an array of 96: 1 too many"),
    ],
)
def test_what_is_not_appended(data, message):
    stream = TileStream((6, 4, 4), (1, 2, 2), "uint16", "emulator")
    with pytest.raises(ArgumentError, match=message):
        stream.append(data)
    assert stream.position == 0
