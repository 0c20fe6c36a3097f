"""Speed of streams on the CPU, beside the libraries that do the same, in the same run.

    python benchmark/stream_cpu.py [--frames 256] [--rounds 5] [--only TEXT] [--json FOLDER]

Frames of 512 x 512 uint16, random below 4000 or of a camera (a smooth picture with shot noise), go
into tiles of 16 x 128 x 128. Rounds take turns; a row has the median and the best of MB/s of the
array, and the median CPU seconds of a GB. acquire-zarr, TensorStore and zarr take part if they are
installed. `scripts/render_tables.py` makes the table of docs/stream.md from the file of `--json`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from result_files import add_option, heading, processor

from tilelang.stream import TileStream

TILE = (16, 128, 128)
#: Frames that one append gets.
STEP = 16


def pictures(kind: str) -> np.ndarray:
    """Returns 64 frames."""
    rng = np.random.default_rng(0)
    if kind == "random":
        return rng.integers(0, 4000, (64, 512, 512), "uint16")
    smooth = np.add.outer(np.sin(np.arange(512) / 20), np.cos(np.arange(512) / 30)) * 50 + 200
    return rng.poisson(np.broadcast_to(smooth, (64, 512, 512))).astype("uint16")


def pieces(array: np.ndarray, frames: int) -> Any:
    """Yields what is appended."""
    for first in range(0, frames, STEP):
        yield array[first % 64 :][:STEP]


def codec_of_zarr(codec: str) -> Any:
    """Returns a codec of zarr."""
    if codec == "none":
        return None
    if codec == "zstd":
        return zarr.codecs.ZstdCodec(level=3)
    return zarr.codecs.BloscCodec(cname=codec.split("-")[1], clevel=1, shuffle="shuffle")


def ours(array: np.ndarray, frames: int, folder: Path, codec: str) -> None:
    """Streams into a Zarr array."""
    with TileStream((None, 512, 512), TILE, "uint16", "cpu") as stream:
        stream.to(folder, codec=codec_of_zarr(codec))
        for piece in pieces(array, frames):
            stream.append(piece)


def of_zarr(array: np.ndarray, frames: int, folder: Path, codec: str) -> None:
    """Assigns to a Zarr array."""
    target = zarr.create_array(
        folder,
        shape=(frames, 512, 512),
        chunks=TILE,
        dtype="uint16",
        compressors=codec_of_zarr(codec),
    )
    for number, piece in enumerate(pieces(array, frames)):
        target[number * STEP : (number + 1) * STEP] = piece


def of_tensorstore(array: np.ndarray, frames: int, folder: Path, codec: str) -> None:
    """Writes with TensorStore, with up to four writes in flight."""
    import tensorstore

    codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if codec == "zstd":
        codecs.append({"name": "zstd", "configuration": {"level": 3}})
    elif codec != "none":
        settings = {"cname": codec.split("-")[1], "clevel": 1, "shuffle": "shuffle"}
        codecs.append({"name": "blosc", "configuration": {**settings, "typesize": 2}})
    grid = {"name": "regular", "configuration": {"chunk_shape": list(TILE)}}
    metadata = {"shape": [frames, 512, 512], "data_type": "uint16", "codecs": codecs}
    spec = {
        "driver": "zarr3",
        "kvstore": f"file://{folder}/",
        "metadata": {**metadata, "chunk_grid": grid},
    }
    target = tensorstore.open(spec, create=True).result()
    flying: list[Any] = []
    for number, piece in enumerate(pieces(array, frames)):
        flying.append(target[number * STEP : (number + 1) * STEP].write(piece).commit)
        if len(flying) > 4:
            flying.pop(0).result()
    for commit in flying:
        commit.result()


def of_acquire(array: np.ndarray, frames: int, folder: Path, codec: str) -> None:
    """Streams with acquire-zarr."""
    import acquire_zarr as aq

    kinds = {"t": aq.DimensionType.TIME, "y": aq.DimensionType.SPACE, "x": aq.DimensionType.SPACE}
    dimensions = [
        aq.Dimension(
            name=name,
            kind=kind,
            array_size_px=0 if name == "t" else 512,
            chunk_size_px=extent,
            shard_size_chunks=1,
        )
        for (name, kind), extent in zip(kinds.items(), TILE, strict=True)
    ]
    compression = None
    if codec == "zstd":
        compression = aq.CompressionSettings(
            compressor=aq.Compressor.ZSTD, codec=aq.CompressionCodec.ZSTD, level=3, shuffle=0
        )
    elif codec != "none":
        compression = aq.CompressionSettings(
            compressor=aq.Compressor.BLOSC1,
            codec=getattr(aq.CompressionCodec, codec.upper().replace("-", "_")),
            level=1,
            shuffle=1,
        )
    settings = aq.StreamSettings(store_path=str(folder), version=aq.ZarrVersion.V3, overwrite=True)
    settings.arrays = [
        aq.ArraySettings(
            output_key="a",
            dimensions=dimensions,
            data_type=aq.DataType.UINT16,
            compression=compression,
        )
    ]
    stream = aq.ZarrStream(settings)
    for piece in pieces(array, frames):
        stream.append(piece)
    stream.close()


def without_sink(array: np.ndarray, frames: int, folder: Path, codec: str) -> None:
    """Streams to a consumer that looks at nothing."""
    stream = TileStream((None, 512, 512), TILE, "uint16", "cpu")
    for piece in pieces(array, frames):
        stream.append(piece)
        for _ in stream.ready():
            pass


def by_numpy(array: np.ndarray, frames: int, folder: Path, codec: str) -> None:
    """Cuts frames into the same memory again and again with NumPy."""
    tiles = np.empty((1, 4, 4, *TILE), "uint16")
    for piece in pieces(array, frames):
        np.copyto(tiles, piece.reshape(1, 16, 4, 128, 4, 128).transpose(0, 2, 4, 1, 3, 5))


Writing = Callable[[np.ndarray, int, Path, str], None]
PEERS: dict[str, tuple[str, Writing]] = {
    "tilelang.stream": ("tilelang", ours),
    "acquire-zarr": ("acquire_zarr", of_acquire),
    "TensorStore": ("tensorstore", of_tensorstore),
    "zarr-python": ("zarr", of_zarr),
}

Rows = list[dict[str, Any]]


def measure(
    writings: dict[str, Writing], array: np.ndarray, frames: int, codec: str, rounds: int
) -> Rows:
    """Prints a row for each way to write, and returns the rows."""
    size = frames * array[0].nbytes
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in writings}
    for turn in range(rounds + 1):
        for name, writing in writings.items():
            with tempfile.TemporaryDirectory() as folder:
                before, begin = os.times(), time.perf_counter()
                writing(array, frames, Path(folder) / "a.zarr", codec)
                seconds, after = time.perf_counter() - begin, os.times()
                shutil.rmtree(Path(folder) / "a.zarr", ignore_errors=True)
            spent = after.user + after.system - before.user - before.system
            if turn:  # the first round loads libraries
                found[name].append((size / seconds / 1e6, spent / size * 1e9))
    rows: Rows = []
    for name, results in found.items():
        rates, seconds = zip(*results, strict=True)
        rate, best, spent = statistics.median(rates), max(rates), statistics.median(seconds)
        print(f"  {name:<18}{rate:>8.0f} MB/s{best:>8.0f} best{spent:>8.2f} CPU s/GB", flush=True)
        rows.append({
            "way": name, "mb_per_s": round(rate), "best_mb_per_s": round(best),
            "cpu_s_per_gb": round(spent, 2),
        })  # fmt: skip
    return rows


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    add_option(parser)
    options = parser.parse_args()
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load of the last minute {load:.1f}")
    peers = {n: w for n, (m, w) in PEERS.items() if importlib.util.find_spec(m)}
    rows: Rows = []
    for kind in ("random", "camera"):
        array = pictures(kind)
        if kind == "random":
            print("without a sink")
            ways: dict[str, Writing] = {"tilelang.stream": without_sink, "NumPy": by_numpy}
            found = measure(ways, array, options.frames, "none", options.rounds)
            rows += [{"pictures": kind, "codec": "no sink", **row} for row in found]
        for codec in ("none", "zstd", "blosc-lz4", "blosc-zstd"):
            if options.only in f"{kind} {codec}":
                print(f"{kind} pictures into Zarr, codec {codec}")
                found = measure(peers, array, options.frames, codec, options.rounds)
                rows += [{"pictures": kind, "codec": codec, **row} for row in found]
    if options.json:
        names = ("acquire-zarr", "tensorstore", "zarr", "numcodecs", "numpy")
        versions = {
            name: importlib.metadata.version(name)
            for name in names
            if importlib.util.find_spec(name.replace("-", "_"))
        }
        machine = {"cores": cores, "load": round(load, 1)}
        result = {**heading(processor()), "machine": machine, "versions": versions, "rows": rows}
        (options.json / "stream_cpu.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
