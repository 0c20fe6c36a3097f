"""Appends rows to a Zarr array until it is killed: ``python killed.py STORE CODEC SHARD [SYNC]``.

It continues what is in the store, and prints how many rows it has appended before each append.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reader import row

from tilelang.stream import TileStream


def main(store: str, codec: str, shard: str, sync: str = "never") -> None:
    """Prints the most that a kill loses, and then rows that were appended."""
    stream = TileStream((None, 10, 12), (4, 4, 5), "uint16", "cpu", batch=1, threads=2)
    options = {"shards": (int(shard), 12, 15)} if shard != "0" else {}
    writer = stream.to(
        store, codec=None if codec == "none" else codec, at="end", sync=sync, **options
    )
    first = writer.first_row
    print(stream.most_lost, flush=True)
    for index in range(first, first + 100_000):
        print(index, flush=True)
        stream.append(row(index))
        if index % 50 == 49 and stream.position % 480 == 0:
            stream.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
