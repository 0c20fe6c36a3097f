"""Pyramids of streams against NumPy: every method, windows at edges, streams that end early."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.reference import cut, random_array
from tiers import examples

from tilelang.errors import ArgumentError
from tilelang.stream import StreamError, TileStream, WouldBlock
from tilelang.stream.geometry import Geometry
from tilelang.stream.windows import Windows


def coarsened(array: np.ndarray, factors, method: str, end: int | None = None) -> np.ndarray:
    """The windows of the first ``end`` elements of an array, one by one; the rest is NaN."""
    arrived = np.arange(array.size).reshape(array.shape) < (array.size if end is None else end)
    shape = [-(-s // f) for s, f in zip(array.shape, factors, strict=True)]
    result = np.full(shape, np.nan)
    for index in np.ndindex(*shape):
        window = tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factors, strict=True))
        values = array[window][arrived[window]]
        if values.size:
            mean = np.sum(values, dtype="longdouble") / values.size
            middle = np.median(values.astype("longdouble"))
            value = {"mean": mean, "min": values.min(), "max": values.max(), "median": middle}[
                method
            ]
            rounds = method in ("mean", "median") and array.dtype.kind in "iu"
            result[index] = np.floor(value + 0.5) if rounds else value
    return result


# Shape, tile, factors, order, dtype: leading axes, periods of both kinds, edges along every axis.
CASES = [
    ((9, 7, 11), (2, 3, 4), (1, 2, 2), None, "uint16"),
    ((9, 7, 11), (4, 3, 4), (2, 2, 3), (1, 2, 0), "int16"),
    ((5, 10, 9), (1, 4, 3), (1, 2, 2), None, "uint8"),
    ((5, 10, 9), (1, 4, 3), (1, 4, 9), None, "int8"),
    ((3, 4, 9), (1, 4, 3), (1, 3, 2), None, "int32"),
    ((3, 4, 9), (1, 6, 3), (1, 3, 2), None, "uint32"),
    ((37,), (8,), (4,), None, "float32"),
    ((4, 2, 8, 8), (2, 1, 4, 4), (1, 1, 2, 2), (1, 0, 2, 3), "float64"),
    ((3, 1, 12, 8), (2, 4, 5, 8), (1, 1, 2, 2), None, "float16"),
]
# Windows of several epochs: along the first axis, along one before the first that tiles share.
ACROSS_EPOCHS = [
    ((11, 7, 6), (4, 3, 4), (3, 1, 2), None, "uint16"),
    ((9, 10, 9), (1, 4, 3), (2, 2, 2), None, "uint8"),
    ((5, 3, 10, 4), (1, 1, 4, 3), (2, 2, 3, 1), (1, 0, 2, 3), "int16"),
    ((5, 7, 4), (1, 2, 3), (1, 3, 2), None, "int32"),
    ((37,), (8,), (5,), None, "float32"),
]


def run(case, method: str, end: int | None = None, device: str = "cpu", batch="auto") -> None:
    shape, tile, factors, order, dtype = case
    array = random_array(shape, dtype)
    order = list(order or range(len(shape)))
    opened = shape if end is None else (None, *shape[1:])
    expected = coarsened(array, factors, method, end)
    target = np.zeros([expected.shape[d] for d in order], dtype)
    with TileStream(opened, tile, dtype, device, order, batch) as stream:
        stream.pyramid(factors, method).to(target)
        for part in np.array_split(array.reshape(-1)[: end or array.size], 3):
            stream.append(part)
    got = target.transpose(np.argsort(order))
    tolerance = {"float16": 1e-3, "float32": 1e-6}.get(dtype, 1e-12)
    begun = ~np.isnan(expected)
    np.testing.assert_allclose(got[begun], expected[begun], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("method", ["mean", "min", "max"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_levels_are_those_of_numpy(case, method):
    run(case, method, device="emulator")


@pytest.mark.parametrize("case", [CASES[1], CASES[8]], ids=lambda case: f"{case[0]}-{case[1]}")
def test_medians_are_those_of_numpy(case):
    run(case, "median", device="emulator")


@pytest.mark.parametrize("method", ["mean", "median"])
@pytest.mark.parametrize("case", ACROSS_EPOCHS[:3], ids=lambda case: f"{case[0]}-{case[1]}")
def test_windows_of_several_epochs_on_the_emulator(case, method):
    run(case, method, device="emulator", batch=1)


@pytest.mark.parametrize("method", ["mean", "min", "max", "median"])
@pytest.mark.parametrize(
    "case", CASES + ACROSS_EPOCHS, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}"
)
def test_the_cpu_reduces_as_numpy_does(case, method):
    for batch in (1, 2, "auto"):
        run(case, method, batch=batch)
        for end in (1, 40, 77, 78, 200, 461):
            run(case, method, min(end, int(np.prod(case[0]))), batch=batch)


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_windows_of_any_stream(data):
    rank = data.draw(st.integers(1, 4))
    limit = (40, 12, 9, 6)[rank - 1]
    shape = data.draw(st.tuples(*[st.integers(1, limit)] * rank))
    tile = data.draw(st.tuples(*[st.integers(1, limit)] * rank))
    factors = data.draw(st.tuples(*[st.integers(1, 4)] * rank))
    order = tuple(data.draw(st.permutations(range(rank))))
    dtype = data.draw(st.sampled_from(["uint8", "int16", "uint32", "float32", "float64"]))
    method = data.draw(st.sampled_from(["mean", "min", "max", "median"]))
    end = data.draw(st.none() | st.integers(1, int(np.prod(shape))))
    run((shape, tile, factors, order, dtype), method, end, batch=data.draw(st.integers(1, 3)))


def test_a_nan_is_the_largest_of_a_median():
    array = np.array([[np.nan, 1, 5, np.nan, np.nan, np.nan]], "float32")
    for device in ("cpu", "emulator"):
        found = np.zeros((1, 2), "float32")
        with TileStream((1, 6), (1, 6), "float32", device) as stream:
            stream.pyramid(3, "median").to(found)
            stream.append(array)
        np.testing.assert_array_equal(found, [[5, np.nan]])


@pytest.mark.parametrize("end", [1, 40, 77, 78, 200, 461])
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[4]], ids=str)
def test_a_stream_that_ends_early_has_windows_of_what_came(case, end):
    run(case, "mean", min(end, int(np.prod(case[0]))), device="emulator")


@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_windows_that_have_begun_are_the_first_ones(data):
    rank = data.draw(st.integers(1, 4))
    shape = data.draw(st.tuples(*[st.integers(1, 6)] * rank))
    factors = data.draw(st.tuples(*[st.integers(1, 4)] * rank))
    windows = Windows(Geometry(shape, shape), factors)
    coarse = [-(-s // f) for s, f in zip(shape, factors, strict=True)]
    begun, total = set(), 0
    for position, index in enumerate(np.ndindex(*shape)):
        assert windows.begun(position) == len(begun)
        window = tuple(i // f for i, f in zip(index, factors, strict=True))
        begun.add(int(np.ravel_multi_index(window, coarse)))
        assert begun == set(range(len(begun)))
        total = position + 1
    assert windows.begun(total) == np.prod(coarse)


def test_a_pyramid_of_a_pyramid_goes_to_arrays():
    array = random_array((12, 40, 48), "uint16")
    levels = [np.zeros((12, 40 >> k, 48 >> k), "uint16") for k in range(3)]
    with TileStream((12, 40, 48), (4, 8, 8), "uint16", "emulator", batch=1) as stream:
        one = stream.pyramid(2)
        two = one.pyramid(2)
        for level, target in zip((stream, one, two), levels, strict=True):
            level.to(target)
        for frame in array:
            stream.append(frame)
    np.testing.assert_array_equal(levels[0], array)
    for fine, coarse in itertools.pairwise(levels):
        np.testing.assert_array_equal(coarse, coarsened(fine, (1, 2, 2), "mean"))


@pytest.mark.every_schedule
def test_a_level_is_made_of_tiles_that_are_complete():
    array = random_array((32, 16, 24), "uint16")
    coarse = np.zeros((32, 8, 12), "uint16")
    with TileStream((None, 16, 24), (4, 8, 8), "uint16", "emulator", batch=1) as stream:
        stream.pyramid(2, "max").to(coarse)
        for part in np.array_split(array.reshape(-1), 7):
            stream.append(part)
    np.testing.assert_array_equal(coarse, coarsened(array, (1, 2, 2), "max"))


def test_a_thread_that_waits_for_itself_is_told():
    array = random_array((64, 8, 8), "uint16")
    stream = TileStream((None, 8, 8), (1, 8, 8), "uint16", "emulator", batch=1)
    coarse = stream.pyramid(2, batch=1)
    batches = coarse.ready()
    assert not list(batches)
    with pytest.raises(WouldBlock, match="only this thread could release one") as full:
        stream.append(array)
    taken = full.value.appended
    assert stream.position == taken
    with pytest.raises(WouldBlock, match="waits for pools that only this thread"):
        stream.close()
    found = [batch.tiles.copy() for batch in coarse.ready(timeout=1)]
    stream.close()
    found += [batch.tiles.copy() for batch in coarse.ready()]
    expected = coarsened(array[: taken // 64], (1, 2, 2), "mean")
    np.testing.assert_array_equal(np.concatenate(found), cut(expected.astype("uint16"), (1, 8, 8)))


def test_a_slow_viewer_makes_the_append_wait():
    array = random_array((48, 8, 8), "uint16")
    stream = TileStream((None, 8, 8), (1, 8, 8), "uint16", "emulator", batch=1)
    coarse = stream.pyramid(2, batch=1)
    found = []

    def view() -> None:
        for batch in batches:
            found.append(batch.tiles.copy())

    batches = coarse.ready(timeout=None)
    thread = threading.Thread(target=view)
    thread.start()
    with stream:
        for frame in array:
            stream.append(frame)
    thread.join(60)
    expected = coarsened(array, (1, 2, 2), "mean").astype("uint16")
    np.testing.assert_array_equal(np.concatenate(found), cut(expected, (1, 8, 8)))


def test_a_writer_of_a_level_that_fails_is_repaired_from_the_top():
    class Broken(np.ndarray):
        works = False

        def __setitem__(self, key, value):
            if not Broken.works:
                raise OSError("the disk is away")
            super().__setitem__(key, value)

    array = random_array((16, 8, 8), "uint16")
    target = np.zeros((16, 4, 4), "uint16").view(Broken)
    stream = TileStream((16, 8, 8), (2, 8, 8), "uint16", "emulator", batch=1)
    stream.pyramid(2, batch=1).to(target)
    with pytest.raises(StreamError, match="the disk is away"):
        for frame in array:
            stream.append(frame)
        stream.close()
    Broken.works = True
    stream.retry()
    stream.append(array.reshape(-1)[stream.position :])
    stream.close()
    expected = coarsened(array, (1, 2, 2), "mean")
    np.testing.assert_array_equal(np.asarray(target), expected)


def test_memory_of_a_level_is_known():
    stream = TileStream((None, 64, 64), (4, 16, 16), "uint16", "emulator", batch=2)
    coarse = stream.pyramid(2)
    assert coarse.memory.staging == coarse.plan.memory.staging + 2 * 4 * 32 * 32 * 2
    assert coarse._ingest is None
    with pytest.raises(StreamError, match="is fed by mean of 1x2x2: append to that one"):
        coarse.append(np.zeros(1, "uint16"))


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        ("uint16", {"factors": (1, 2)}, "are no 3 positive integers"),
        ("uint16", {"factors": (1, 2, 0)}, "are no 3 positive integers"),
        ("uint16", {"factors": "222"}, "are no 3 positive integers"),
        ("uint16", {"factors": (1, 256, 256)}, "windows of 65536 elements"),
        (
            "uint16",
            {"factors": (3, 9, 3), "method": "median"},
            "a median of windows of 81 elements",
        ),
        ("uint16", {"method": "mode"}, "method='mode' is none of mean, min, max, median"),
        ("complex64", {}, "a pyramid of complex64"),
        ("bool", {}, "a pyramid of bool"),
        ("uint64", {}, "a mean of uint64"),
    ],
)
def test_what_has_no_pyramid(dtype, options, message):
    with pytest.raises(ArgumentError, match=message):
        TileStream((None, 8, 8), (4, 4, 4), dtype, "emulator").pyramid(**options)


def test_windows_of_several_frames_make_batches_longer():
    stream = TileStream((None, 8, 8), (1, 4, 4), "uint16", "cpu", batch=3)
    coarse = stream.pyramid((2, 2, 2))
    assert stream.plan.batch == 4  # epochs: two rows of tiles in each of two frames
    with pytest.raises(StreamError, match="has ended at element 64"):
        stream.append(np.zeros(64, "uint16"))
        stream.flush()  # within a window
        stream.append(np.zeros(64, "uint16"))
    with pytest.raises(StreamError, match="a pyramid comes after 64 elements"):
        stream.pyramid()
    assert coarse.position == 16
