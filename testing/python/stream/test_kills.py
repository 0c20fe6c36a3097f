"""Writers that are killed at any moment: the array is readable, right, and continued.

``python test_kills.py 200`` kills as many writers.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stream.reader import row

zarr = pytest.importorskip("zarr")

HERE = Path(__file__).resolve().parent
KINDS = (("zstd", "0"), ("blosc", "8"), ("none", "12"), ("gzip", "0"))


def kill_once(store: Path, kind: tuple[str, str], rng: random.Random, sync: str = "never") -> int:
    """Kills a writer at a random moment, checks the array, and returns how many rows were lost."""
    command = [sys.executable, HERE / "killed.py", store, *kind, sync]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    most_lost = int(writer.stdout.readline())
    begun = int(writer.stdout.readline())
    # Some die in the first batch, some in the midst of compressing; a line more is a row more.
    stop = begun + int(2 ** rng.uniform(0, 9))
    received = begun
    while received < stop:
        received = int(writer.stdout.readline())
    writer.kill()
    rest = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait()
    received = int(rest[-1]) if rest else received
    array = zarr.open_array(store, mode="r")
    for index, found in enumerate(array[:]):
        np.testing.assert_array_equal(found, row(index))
    assert array.shape[0] % 4 == 0
    lost = received - array.shape[0]
    assert lost <= most_lost, (lost, most_lost)
    return lost


@pytest.mark.parametrize("kind", KINDS[:3], ids=str)
def test_a_kill_loses_no_more_than_is_said(tmp_path, kind):
    rng = random.Random(str(kind))
    for sync in ("never", "batch"):
        kill_once(tmp_path / "a.zarr", kind, rng, sync)


def main(kills: int) -> None:
    """Kills writers, four of which share a store one after the other."""
    rng, lost = random.Random(0), []
    for number in range(0, kills, 4):
        with tempfile.TemporaryDirectory() as folder:
            kind = KINDS[number // 4 % len(KINDS)]
            for _ in range(4):
                lost.append(kill_once(Path(folder) / "a.zarr", kind, rng))
    print(f"{len(lost)} kills, rows lost: at most {max(lost)}, {np.mean(lost):.1f} in the mean")


if __name__ == "__main__":
    main(int(sys.argv[1]))
