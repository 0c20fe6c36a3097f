"""Writing to Zarr and other arrays: read while it grows, killed, failing, full."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stream.reader import row
from stream.reference import random_array

from tilelang.errors import ArgumentError
from tilelang.stream import StreamError, TileStream

zarr = pytest.importorskip("zarr")

HERE = Path(__file__).resolve().parent


def opened(rows: int | None = None, batch: int | str = 2, **options) -> TileStream:
    return TileStream((rows, 10, 12), (4, 4, 5), "uint16", "cpu", batch=batch, **options)


def rows(count: int) -> np.ndarray:
    return np.array([row(index) for index in range(count)], "uint16").reshape(-1, 10, 12)


@pytest.mark.parametrize("codec", ["zstd", "blosc", "gzip", None, "auto"])
@pytest.mark.parametrize("count", [24, 23])
def test_what_zarr_reads_is_what_was_appended(tmp_path, codec, count):
    with opened() as stream:
        stream.to(tmp_path / "a.zarr", codec=codec)
        stream.append(rows(count))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert array.chunks == (4, 4, 5)
    np.testing.assert_array_equal(array[:], rows(count))


@pytest.mark.parametrize(
    ("shape", "tile", "order"),
    [
        ((None, 10, 12), (1, 4, 5), None),
        ((None, 3, 10, 12), (1, 1, 4, 5), None),
        ((7, 10, 12), (2, 4, 5), (2, 0, 1)),
        ((7, 3, 10, 12), (1, 1, 4, 5), "tcyx->ctyx"),
        ((7, 1, 10, 12), (2, 4, 10, 12), None),
        ((None,), (5,), None),
    ],
)
@pytest.mark.parametrize("batch", [1, 3, "auto"])
def test_every_layout_arrives(shape, tile, order, batch):
    array = random_array([extent or 7 for extent in shape], "int32")
    stream = TileStream(shape, tile, "int32", "cpu", batch=batch, order=order, pad=-1)
    store = zarr.storage.MemoryStore()
    with stream:
        stream.to(store)
        for part in np.array_split(array.reshape(-1), 5):
            stream.append(part)
    expected = array.transpose(stream.plan.order)
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], expected)


def test_shards_and_options_are_those_of_zarr(tmp_path):
    with opened(rows=16, batch=4) as stream:
        options = {"shards": (16, 12, 15), "attributes": {"scale": 2}}
        stream.to(str(tmp_path / "a.zarr"), **options)
        stream.append(rows(16))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert array.shards == (16, 12, 15) and array.attrs["scale"] == 2
    np.testing.assert_array_equal(array[:], rows(16))


def test_arrays_of_other_libraries(tmp_path):
    mapped = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", "uint16", (8, 10, 12))
    with opened(rows=8) as stream:
        stream.to(mapped)
        stream.to(zarr.create_array({}, shape=(0, 10, 12), chunks=(4, 4, 5), dtype="uint16"))
        stream.append(rows(8))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), rows(8))


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_a_tensorstore_grows(tmp_path, driver):
    tensorstore = pytest.importorskip("tensorstore")
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 4, 5]}}
    metadata = {"shape": [0, 10, 12], "chunk_grid": grid, "data_type": "uint16"}
    if driver == "zarr":
        metadata = {"shape": [0, 10, 12], "chunks": [4, 4, 5], "dtype": "<u2"}
    spec = {"driver": driver, "kvstore": f"file://{tmp_path}/", "metadata": metadata}
    with opened(batch=1) as stream:
        stream.to(tensorstore.open(spec, create=True).result())
        stream.append(rows(13))
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[:], rows(13))


def test_a_tensorstore_is_not_larger_than_what_is_written(tmp_path, monkeypatch):
    tensorstore = pytest.importorskip("tensorstore")
    from tilelang.stream.targets import TensorStoreTarget

    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 4, 5]}}
    metadata = {"shape": [0, 10, 12], "chunk_grid": grid, "data_type": "uint16"}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/", "metadata": metadata}
    write, seen = TensorStoreTarget.write, []

    def noted(self, *args):
        write(self, *args)
        seen.append(zarr.open_array(tmp_path, mode="r").shape[0])

    monkeypatch.setattr(TensorStoreTarget, "write", noted)
    with opened(batch=1) as stream:
        stream.to(tensorstore.open(spec, create=True).result())
        stream.append(rows(12))
    assert seen == [0, 4, 8]
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[:], rows(12))


def test_a_url_of_fsspec(tmp_path):
    pytest.importorskip("fsspec")
    url = f"file://{tmp_path}/a.zarr"
    with opened() as stream:
        stream.to(url, storage_options={"auto_mkdir": True})
        stream.append(rows(9))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(array[:], rows(9))


def test_a_codec_of_numcodecs(tmp_path):
    numcodecs = pytest.importorskip("zarr.codecs.numcodecs")
    with opened() as stream:
        stream.to(tmp_path / "a.zarr", codec=numcodecs.LZ4())
        stream.append(rows(9))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert "lz4" in str(array.compressors).lower()
    np.testing.assert_array_equal(array[:], rows(9))


def test_a_codec_that_another_package_registered(tmp_path):
    """As those of a GPU are: zarr finds them by name, and a stream takes them as objects."""
    from dataclasses import dataclass

    from zarr.abc.codec import BytesBytesCodec
    from zarr.registry import register_codec

    @dataclass(frozen=True)
    class Inverted(BytesBytesCodec):
        is_fixed_size = True

        def to_dict(self):
            return {"name": "test.inverted", "configuration": {}}

        @classmethod
        def from_dict(cls, data):
            return cls()

        def compute_encoded_size(self, size, spec):
            return size

        async def _encode_single(self, data, spec):
            return spec.prototype.buffer.from_bytes(bytes(255 - b for b in data.to_bytes()))

        _decode_single = _encode_single

    register_codec("test.inverted", Inverted)
    with opened() as stream:
        stream.to(tmp_path / "a.zarr", codec=Inverted())
        stream.append(rows(9))
    array = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert isinstance(array.compressors[0], Inverted)
    np.testing.assert_array_equal(array[:], rows(9))


def test_shards_that_batches_fill_piece_by_piece(tmp_path):
    with opened(batch=1) as stream:
        stream.to(tmp_path / "a.zarr", shards=(12, 12, 15))
        for index, frame in enumerate(rows(31)):
            stream.append(frame)
            if index % 4 == 3:
                stream.flush()
                array = zarr.open_array(tmp_path / "a.zarr", mode="r")
                np.testing.assert_array_equal(array[:], rows(index + 1))
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[:], rows(31))


def test_dask_reads_it(tmp_path):
    dask = pytest.importorskip("dask.array")
    with opened() as stream:
        stream.to(tmp_path / "a.zarr")
        stream.append(rows(8))
    np.testing.assert_array_equal(dask.from_zarr(str(tmp_path / "a.zarr")).compute(), rows(8))


def test_an_array_is_continued_and_not_overwritten(tmp_path):
    with opened() as stream:
        stream.to(tmp_path / "a.zarr")
        stream.append(rows(8))
    array = zarr.open_array(tmp_path / "a.zarr")
    stream = opened()
    with pytest.raises(ArgumentError, match="has 8 rows along axis 0"):
        stream.to(array)
    with pytest.raises(Exception, match=r"exist|already"):
        stream.to(tmp_path / "a.zarr")
    with pytest.raises(ArgumentError, match="at=6 is no multiple of the tile's 4 rows"):
        stream.to(array, at=6)
    with stream:
        stream.to(array, at=8)
        stream.append(rows(13)[8:])
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[:], rows(13))


def test_a_second_process_reads_while_it_grows(tmp_path):
    store = str(tmp_path / "a.zarr")
    stream = opened(batch=1)
    stream.to(store)
    reader = subprocess.Popen(
        [sys.executable, HERE / "reader.py", store, "60"], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    seen = [int(reader.stdout.readline())]
    with stream:
        for index in range(60):
            stream.append(row(index))
            if index % 20 == 19:  # the reader keeps up
                stream.flush()
                while seen[-1] < index + 1:
                    seen.append(int(reader.stdout.readline()))
    assert reader.wait(60) == 0
    reader.stdout.close()
    assert seen[0] == 0 and seen[-1] == 60 and len(seen) >= 4
    assert all(count % 4 == 0 for count in seen)


class SmallDisk(zarr.storage.LocalStore):
    """A store on a disk with room for some bytes."""

    room = 1 << 30

    async def set(self, key, value, *args, **kwargs):
        if not key.endswith("zarr.json"):
            if len(value) > SmallDisk.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), key)
            SmallDisk.room -= len(value)
        await super().set(key, value, *args, **kwargs)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(SmallDisk, "room", 4000)
    stream = opened()
    writer = stream.to(SmallDisk(tmp_path / "a.zarr"), codec=None)
    with pytest.raises(StreamError, match=r"writer 0 failed at batch \d.*No space left on device"):
        for index in range(100):
            stream.append(row(index))
            if index % 8 == 7:
                stream.flush()
    taken = stream.position // 120
    held = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert held.shape[0] == 8
    np.testing.assert_array_equal(held[:], rows(held.shape[0]))
    with pytest.raises(StreamError, match="No space left"):
        stream.append(row(taken))
    monkeypatch.setattr(SmallDisk, "room", 1 << 30)
    writer.retry()
    stream.append(rows(40)[taken:])
    stream.close()
    assert writer.rows == 40
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[:], rows(40))


def test_a_failing_codec_loses_nothing(monkeypatch):
    numcodecs = pytest.importorskip("numcodecs")
    encode, works = numcodecs.GZip.encode, []

    def sometimes(self, chunk):
        if not works:
            raise RuntimeError("the codec is out of order")
        return encode(self, chunk)

    monkeypatch.setattr(numcodecs.GZip, "encode", sometimes)
    store = zarr.storage.MemoryStore()
    stream = opened()
    writer = stream.to(store, codec="gzip")
    with pytest.raises(StreamError, match="RuntimeError: the codec is out of order") as found:
        stream.append(rows(40))
        stream.flush()
    assert isinstance(found.value.cause, RuntimeError)
    works.append(True)
    writer.retry()
    stream.append(rows(40).reshape(-1)[stream.position :])
    stream.close()
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], rows(40))


def test_a_slow_writer_is_waited_for(monkeypatch):
    import time

    from tilelang.stream.chunks import Chunks

    write = Chunks.write
    monkeypatch.setattr(Chunks, "write", lambda self, *args: (time.sleep(0.1), write(self, *args)))
    store = zarr.storage.MemoryStore()
    stream = opened(batch=1)
    stream.to(store, name="disk")
    with pytest.raises(StreamError, match=r"disk has \d batches left after 0\.05 s"):
        stream.append(rows(8))
        stream.flush(timeout=0.05)
    with stream:
        stream.append(rows(40)[8:])
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], rows(40))


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (np.zeros((8, 10, 12), "int16"), {}, "elements of int16, the stream uint16"),
        (np.zeros((8, 10, 13), "uint16"), {}, r"the shape \(8, 10, 13\), the stream \(8, 10, 12\)"),
        (np.zeros((8, 10), "uint16"), {}, r"the shape \(8, 10\)"),
        ([1, 2], {}, "cannot write to a list"),
        ({}, {"codec": "zip"}, "no codec 'zip'"),
        (np.zeros((8, 10, 12), "uint16"), {"shards": (8, 10, 12)}, "shards cannot be chosen"),
        (
            zarr.create_array({}, shape=(8, 10, 12), dtype="uint16", compressors=None),
            {"codec": "zstd"},
            "the array exists and has no compressor",
        ),
    ],
)
def test_what_is_not_written_to(target, options, message):
    with pytest.raises(ArgumentError, match=message):
        opened(rows=8).to(target, **options)


def test_a_library_that_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs zarr.*\[stream\]"):
        opened().to(tmp_path / "a.zarr")


def test_the_package_needs_no_optional_library():
    program = (
        "import sys\n"
        "for name in ('zarr', 'numcodecs', 'torch', 'tensorstore', 'dask', 'fsspec'):\n"
        "    sys.modules[name] = None\n"
        "import numpy as np\n"
        "from tilelang.stream import TileStream\n"
        "stream = TileStream((4, 6), (2, 3), 'uint8', 'emulator')\n"
        "stream.append(np.arange(24, dtype=np.uint8))\n"
        "assert [len(batch) for batch in stream.ready()] == [4]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
