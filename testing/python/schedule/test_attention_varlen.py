"""Attention of packed sequences: each as if it were alone."""

from __future__ import annotations

import functools
import runpy
import sys
from pathlib import Path

import pytest
import torch
from sm100.checks import _assembled, _seed, _warnings_are_errors, assembled_cases, assembler

import tilelang

__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]

PATH = Path(__file__).parents[3] / "examples" / "flash_attention" / "attention_varlen.py"
TARGETS = ("sm_90a", "sm_100a")


@functools.cache
def example() -> dict:
    sys.path.insert(0, str(PATH.parent))
    try:
        return runpy.run_path(str(PATH))
    finally:
        sys.path.remove(str(PATH.parent))


def check(target, queries, keys, dim=64, heads=2, kv_heads=1, causal=False, device="cpu", **others):
    """Sequences of these lengths; outputs are poisoned, and so is what lies beyond the keys."""
    shape = example()["Shape"](len(queries), sum(queries), sum(keys), heads, kv_heads, dim, dim)
    tiles = example()["default_tiles"](target, dim) | others
    function = example()["attention_varlen"](shape, max(queries), causal, **tiles)
    kernel = tilelang.compile(
        function,
        target="auto" if device == "cuda" else target,
        pass_configs=example()["PASS_CONFIGS"],
    )
    q, k, v = (
        torch.randn(sum(lengths), n, dim).bfloat16().to(device)
        for lengths, n in ((queries, heads), (keys, kv_heads), (keys, kv_heads))
    )
    ends = [example()["offsets"](lengths, device) for lengths in (queries, keys)]
    want, want_lse = example()["reference_varlen"](q, k, v, *ends, causal)
    out = torch.full_like(q, float("nan"))
    lse = torch.full(want_lse.shape, float("nan"), device=device)
    kernel(q, k, v, *ends, out, lse)
    assert (out.double() - want).norm() / want.norm() < 4e-3
    assert (out.double() - want).abs().max() < 4e-2 * want.abs().max()
    assert (lse.double() - want_lse).abs().max() < 1e-4


LENGTHS = [
    ((100, 0, 130, 77), (100, 0, 130, 77)),
    ((1, 300, 64), (5, 301, 400)),
    ((128, 256), (128, 256)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), LENGTHS, ids=str)
def test_lengths(target: str, causal: bool, queries, keys) -> None:
    check(target, queries, keys, causal=causal, block_N=64)


@pytest.mark.every_schedule
@pytest.mark.parametrize("lazy", [False, True])
def test_every_schedule(lazy: bool) -> None:
    check("sm_90a", (90, 200), (150, 210), 128, 4, 2, causal=True, lazy=lazy, block_N=64)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        pytest.param(
            ("--causal", "--dim", "64"),
            marks=pytest.mark.may_spill("one register, beside the parity of turns"),
        ),
    ],
)
def test_the_example(monkeypatch, capsys, arguments) -> None:
    monkeypatch.setattr(sys, "argv", [PATH.name, *arguments])
    monkeypatch.syspath_prepend(str(PATH.parent))
    runpy.run_path(str(PATH), run_name="__main__")
    assert capsys.readouterr().out.endswith("correct\n")


@pytest.mark.requires_cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [*LENGTHS, ((999, 1500), (2000, 1501))], ids=str)
def test_on_a_gpu(causal: bool, queries, keys) -> None:
    check("sm_90a", queries, keys, 128, 6, 2, causal, device="cuda")
