"""The examples run, check themselves, and compile to the instructions they are meant to show."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

import tilelang

pytestmark = pytest.mark.every_schedule

EXAMPLES = Path(__file__).parents[3] / "examples" / "gemm_sm100"


def run_example(monkeypatch, name: str, *arguments: str) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments, "--device", "cpu"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


ALL_TYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8")


GEMMS = ("gemm_tcgen5mma_ts", "gemm_tcgen5mma", "gemm_persistent", "gemm_persistent_pairs")


@pytest.mark.parametrize("dtype", ALL_TYPES)
@pytest.mark.parametrize("name", GEMMS)
def test_gemm(monkeypatch, capsys, name, dtype):
    run_example(monkeypatch, name, "--dtype", dtype, "--m", "256", "--n", "128", "--k", "192")
    captured = capsys.readouterr()
    assert "C on the emulator" in captured.out
    assert captured.out.endswith("correct\n")
    assert captured.err == ""


@pytest.mark.parametrize("name", GEMMS)
def test_ragged_gemm(monkeypatch, capsys, name):
    run_example(monkeypatch, name, "--m", "200", "--n", "72", "--k", "104")
    assert capsys.readouterr().out.endswith("correct\n")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_chained_gemm(monkeypatch, capsys, dtype):
    run_example(monkeypatch, "gemm_chained", "--dtype", dtype, "--m", "128", "--s", "96")
    assert capsys.readouterr().out.endswith("correct\n")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_attention(monkeypatch, capsys, dtype):
    sizes = ("--queries", "128", "--keys", "192", "--block_n", "64")
    run_example(monkeypatch, "attention", "--dtype", dtype, *sizes)
    assert capsys.readouterr().out.endswith("correct\n")


@pytest.mark.parametrize("threads", [128, 256])
def test_attention_by_threads(monkeypatch, threads):
    """A float32 result, two blocks of queries, more threads than rows."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from attention import attention

    function = attention(256, 160, 32, 128, 80, "bfloat16", "float32", threads)
    q, k, v = (torch.randn(rows, 32).bfloat16() for rows in (256, 160, 160))
    out = torch.full((256, 32), float("nan"))
    tilelang.compile(function, target="sm_100a")(q, k, v, out)
    scores = q.double() @ k.double().T / 32**0.5
    expected = torch.softmax(scores, 1) @ v.double()
    assert (out.double() - expected).abs().max() < 2e-2
