"""Many appends of any length through a memory that does not grow, every tile compared."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmark" / "stream_soak.py"


def soak(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_short_one_on_the_emulator():
    printed = soak(
        "--device", "emulator", "--gigabytes", "0.004", "--height", "128", "--width", "64"
    )
    assert "0.0 GB right" in printed
    quarter, end = re.findall(r"host: (\d+) MiB after a quarter, (\d+)", printed)[0]
    assert int(end) < int(quarter) + 100


@pytest.mark.requires_cuda
def test_20_gigabytes_on_a_gpu():
    printed = soak("--gigabytes", "20")
    assert "20.0 GB right" in printed
    quarter, end = re.findall(r"host: (\d+) MiB after a quarter, (\d+)", printed)[0]
    assert int(end) < int(quarter) + 100
