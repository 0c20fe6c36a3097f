"""Tiles that threads compress and write: any codec, shards, continued arrays, forced files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.reference import random_array
from tiers import examples

from tilelang.errors import ArgumentError
from tilelang.stream import Progress, StreamError, TileStream
from tilelang.stream.encoding import Encoding

zarr = pytest.importorskip("zarr")
codecs = pytest.importorskip("zarr.codecs")

CODECS = [
    None,
    codecs.ZstdCodec(level=1, checksum=True),
    codecs.GzipCodec(level=1),
    codecs.BloscCodec(cname="lz4", shuffle="bitshuffle"),
    (codecs.ZstdCodec(), codecs.Crc32cCodec()),
]


@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_any_codec_and_any_shards_give_what_was_appended(data):
    shape = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(1, 12)))
    tile = data.draw(st.tuples(*[st.integers(1, 5)] * 3))
    order = tuple(data.draw(st.permutations(range(3))))
    dtype = data.draw(st.sampled_from(["uint8", "uint16", "float32", "complex64"]))
    codec = data.draw(st.sampled_from(CODECS))
    format_ = 3 if isinstance(codec, tuple) else data.draw(st.sampled_from([2, 3]))
    options = {"zarr_format": format_}
    if format_ == 2:
        codec = data.draw(st.sampled_from([None, "auto"]))
    elif data.draw(st.booleans()):
        grid = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
        options["shards"] = tuple(g * tile[axis] for g, axis in zip(grid, order, strict=True))
    array = random_array(shape, dtype)
    if data.draw(st.booleans()):
        array[: shape[0] // 2] = 0  # chunks that are not written
    store = zarr.storage.MemoryStore()
    stream = TileStream((None, *shape[1:]), tile, dtype, "cpu", order, batch=1, threads=2)
    cuts = sorted(data.draw(st.lists(st.integers(0, array.size), max_size=4)))
    with stream:
        writer = stream.to(store, codec=codec, **options)
        assert writer._chunks is not None
        for begin, end in itertools.pairwise([0, *cuts, array.size]):
            stream.append(array.reshape(-1)[begin:end])
            if data.draw(st.booleans()) and end % (tile[0] * array[0].size) == 0:
                stream.flush()
                seen = zarr.open_array(store, mode="r")
                assert seen.shape[order.index(0)] == end // array[0].size
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], array.transpose(order))


def test_a_codec_that_threads_cannot_call_goes_through_zarr(tmp_path):
    array = zarr.create_array(
        tmp_path / "a.zarr",
        shape=(0, 6, 6),
        chunks=(2, 3, 3),
        dtype="int32",
        filters=codecs.TransposeCodec(order=(2, 1, 0)),
    )
    assert Encoding.of(array) is None
    data = random_array((7, 6, 6), "int32")
    with TileStream((None, 6, 6), (2, 3, 3), "int32", "cpu", batch=1) as stream:
        writer = stream.to(array, sync="batch")
        assert writer._chunks is None
        stream.append(data)
    assert writer.rows == writer.safe == 7
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[:], data)


@pytest.mark.parametrize("shards", [None, (8, 6, 6)])
def test_an_array_is_continued_at_its_end(tmp_path, shards):
    data = random_array((29, 6, 6), "uint16")
    options = {} if shards is None else {"shards": shards}
    row = 0
    for count in (6, 4, 9, 30):
        with TileStream((None, 6, 6), (2, 3, 3), "uint16", "cpu", batch=1) as stream:
            writer = stream.to(tmp_path / "a.zarr", at="end", **options)
            # Of a tile that was not complete all rows come anew.
            assert writer.first_row == row // 2 * 2
            row = min(writer.first_row + count, 29)
            stream.append(data[writer.first_row : row])
            if count == 30:
                stream.flush()
        found = zarr.open_array(tmp_path / "a.zarr", mode="r")
        np.testing.assert_array_equal(found[:], data[:row])


def test_rows_behind_the_stream_stay(tmp_path):
    old, new = random_array((8, 6, 6), "uint16"), random_array((5, 6, 6), "uint16", 1)
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=old.shape, chunks=(2, 3, 3), shards=(4, 6, 6), dtype="uint16"
    )
    array[:] = old
    with TileStream((None, 6, 6), (2, 3, 3), "uint16", "cpu", batch=1) as stream:
        stream.to(array, at=0)
        stream.append(new)
    np.testing.assert_array_equal(array[:5], new)
    np.testing.assert_array_equal(array[5:], old[5:])


def test_several_arrays_in_a_store(tmp_path):
    data = random_array((6, 4, 6), "uint8")
    with TileStream((6, 4, 6), (2, 2, 3), "uint8", "cpu") as stream:
        for path in ("left/raw", "left/packed", "right"):
            stream.to(tmp_path / "a.zarr", path=path, codec="zstd" if "packed" in path else None)
        stream.append(data)
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert sorted(group.keys()) == ["left", "right"]
    for path in ("left/raw", "left/packed", "right"):
        np.testing.assert_array_equal(group[path][:], data)


def test_a_shard_is_seen_when_it_is_complete_or_flushed(tmp_path):
    with TileStream((None, 4, 4), (2, 4, 4), "uint8", "cpu", batch=1) as stream:
        writer = stream.to(tmp_path / "a.zarr", shards=(6, 4, 4))
        seen = []
        for frame in random_array((16, 4, 4), "uint8"):
            stream.append(frame)
            stream.pools.check()
            writer.drain(None)
            seen.append(writer.rows)
        assert seen == [0] * 5 + [6] * 6 + [12] * 4 + [12]
        stream.flush()
        assert writer.rows == zarr.open_array(tmp_path / "a.zarr", mode="r").shape[0] == 16


def test_progress_counts_what_a_kill_would_lose(tmp_path):
    stream = TileStream((None, 4, 4), (2, 4, 4), "uint8", "cpu", batch=2)
    assert stream.progress == Progress(0, 0, 0, 0)
    writer = stream.to(tmp_path / "a.zarr", sync="flush")
    assert stream.most_lost == 2 * 4 + 2
    stream.append(np.zeros(16 * 5 + 3, "uint8"))
    writer.drain(None)
    found = stream.progress
    assert found == Progress(received=6, finished=4, on_disk=4, safe=0)
    assert (found.in_flight, found.lost) == (0, 2)
    stream.close()
    assert stream.progress == Progress(6, 6, 6, 6) and stream.progress.lost == 0


@pytest.mark.parametrize("policy", ["never", "flush", "batch"])
def test_files_are_forced_before_readers_see_their_rows(tmp_path, monkeypatch, policy):
    events, fsync, replace = [], os.fsync, os.replace

    def forced(file):
        events.append(("force", Path(os.readlink(f"/proc/self/fd/{file}")).name))
        fsync(file)

    def replaced(source, target):
        events.append(("replace", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", forced)
    monkeypatch.setattr(os, "replace", replaced)
    stream = TileStream((None, 4, 4), (2, 4, 4), "uint8", "cpu", batch=1)
    writer = stream.to(tmp_path / "a.zarr", sync=policy)
    stream.append(random_array((4, 4, 4), "uint8"))
    writer.drain(None)
    count = sum(kind == "force" for kind, _ in events)
    assert (count > 0) == (policy == "batch")
    stream.flush()
    names = [name for kind, name in events if kind == "force"]
    if policy == "never":
        assert not names and writer.safe == 0
        return
    assert writer.safe == 4
    assert "zarr.json" in names and "a.zarr" in names
    assert sum(name in ("0", "0.partial") for name in names) >= 2


def test_what_cannot_be_forced_onto_the_disk():
    stream = TileStream((None, 4, 4), (2, 4, 4), "uint8", "cpu")
    with pytest.raises(ArgumentError, match="sync='now' is none of never, flush, batch"):
        stream.to({}, sync="now")
    with pytest.raises(ArgumentError, match="MemoryStore decides itself when data is safe"):
        stream.to(zarr.storage.MemoryStore(), sync="batch")
    with pytest.raises(ArgumentError, match="an array of numpy decides itself"):
        stream.to(np.zeros((2, 4, 4), "uint8"), sync="batch")
    with pytest.raises(ArgumentError, match="at='begin' is neither a row nor 'end'"):
        stream.to(np.zeros((2, 4, 4), "uint8"), at="begin")


def test_a_flush_that_fails_is_repeated(tmp_path, monkeypatch):
    stream = TileStream((None, 4, 4), (2, 4, 4), "uint8", "cpu", batch=1)
    stream.to(tmp_path / "a.zarr", shards=(8, 4, 4))
    data = random_array((4, 4, 4), "uint8")
    stream.append(data)
    with monkeypatch.context() as patched:

        def full(*_):
            raise OSError(28, "No space left on device")

        patched.setattr(os, "replace", full)
        with pytest.raises(StreamError, match=r"failed at a flush: OSError.*No space left"):
            stream.flush()
    stream.flush()
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[:], data)
    assert not list(tmp_path.rglob("*.partial"))
