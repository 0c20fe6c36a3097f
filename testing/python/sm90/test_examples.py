"""The examples for Hopper run and check themselves."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "gemm_sm90"


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gemm_multicast", []),
        ("gemm_multicast", ["--m", "1024", "--n", "256", "--k", "320", "--blocks", "4"]),
    ],
)
def test_example(monkeypatch, capsys, name, arguments):
    arguments = [*arguments, "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    captured = capsys.readouterr()
    assert captured.out.endswith("correct\n")
    assert captured.err == ""
