"""Appends rows to a Zarr array until it is killed: ``python killed.py STORE``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reader import row

from tilelang.stream import TileStream


def main(store: str) -> None:
    """Prints the rows that are written, as they are."""
    stream = TileStream((None, 10, 12), (4, 4, 5), "uint16", "emulator", batch=1)
    writer = stream.to(store)
    for index in range(100_000):
        stream.append(row(index))
        print(writer.rows, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
