"""The kernels that benchmarks of the timing model write are PTX that ptxas accepts."""

import importlib
import subprocess
from pathlib import Path

import pytest

from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas


@pytest.fixture
def ptxas():
    try:
        return find_ptxas()
    except ToolNotFoundError:
        pytest.skip("needs ptxas")


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    steps = importlib.import_module("timing_steps")
    names = {False: "timing_steps_ptx", True: "timing_steps_pairs"}
    texts = [importlib.import_module(names[step.pair]).program(step) for step in steps.STEPS]
    return [*texts, importlib.import_module("timing_attention").program()]


def test_they_assemble(ptxas, programs, tmp_path):
    for text in programs:
        path = tmp_path / "k.ptx"
        path.write_text(text)
        found = subprocess.run(
            [ptxas, "-arch=sm_100a", path, "-o", tmp_path / "k.cubin"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
