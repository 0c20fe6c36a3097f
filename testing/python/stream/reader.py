"""A second process that reads a Zarr array while it grows: ``python reader.py STORE ROWS``.

Row ``i`` of the array is ``row(i)``. Prints each number of rows that it saw, and ends at ``ROWS``.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import zarr


def row(index: int) -> np.ndarray:
    """A row that tells its place: (10, 12), uint16."""
    return (np.arange(120).reshape(10, 12) * 31 + index * 977).astype("uint16")


def main(store: str, rows: int) -> None:
    """Reads until the array has ``rows`` rows."""
    seen, end = -1, time.monotonic() + 60
    while seen < rows and time.monotonic() < end:
        array = zarr.open_array(store, mode="r")
        if array.shape[0] != seen:
            seen = array.shape[0]
            for index, found in enumerate(array[:]):
                np.testing.assert_array_equal(found, row(index))
            print(seen, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
