"""The programs of ``benchmark/blackwell.py``, and the shapes that it draws."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

import tilelang

pytestmark = pytest.mark.over_field


def module(monkeypatch, name):
    """A module of the folder of benchmarks, which is no package."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    return importlib.import_module(name)


@pytest.fixture
def blackwell(monkeypatch):
    return module(monkeypatch, "blackwell")


@pytest.fixture
def programs(monkeypatch):
    return module(monkeypatch, "blackwell_programs")


def test_rows_are_the_programs_of_the_table(blackwell):
    rows = blackwell.listed()
    assert len(rows) == len({row.name for row in rows}) == 27


def test_shapes_are_drawn_by_the_written_rule(blackwell):
    listed, drawn = blackwell.listed(), blackwell.drawn(7)
    assert drawn == blackwell.drawn(7) != blackwell.drawn(8)
    for before, after in zip(listed, drawn, strict=True):
        assert (before.family, before.options) == (after.family, after.options)
        for old, new in zip(before.sizes, after.sizes, strict=True):
            assert new == old if old < 64 else new % 8 == 0 and old / 2 - 8 <= new <= 2 * old + 8


def test_speed_of_light(blackwell):
    cube = blackwell.Case("gemm", (8192, 8192, 8192), 0.85)
    assert cube.light() == pytest.approx(8192**3 / (4096 * 148 * 1.85e9))
    narrow = blackwell.Case("gemm", (8192, 8192, 8192), 0.85, (("dtype", "float8_e4m3fn"),))
    assert narrow.light() == pytest.approx(cube.light() / 2)
    thin = blackwell.Case("gemm", (1, 14336, 4096), 0.8)
    assert thin.light() == pytest.approx(2 * (4096 + 14336 * 4096 + 14336) / 7.4e12)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(programs, causal):
    kernel = tilelang.compile(
        programs.attention(1, 2, 200, 64, causal, kv_heads=1), target="sm_100a"
    )
    q, k, v = (torch.randn(1, 200, heads, 64, dtype=torch.bfloat16) for heads in (2, 1, 1))
    out = torch.full_like(q, torch.nan)
    kernel(q, k, v, out)
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT / 8
    if causal:
        scores.masked_fill_(torch.ones(200, 200).triu(1).bool(), -torch.inf)
    want = (scores.softmax(-1) @ v).transpose(1, 2)
    torch.testing.assert_close(out.double(), want, rtol=2e-2, atol=2e-2)


def test_bias_and_gelu(programs):
    kernel = tilelang.compile(programs.gemm_bias_gelu(200, 136, 72), target="sm_100a")
    a, b, bias = (torch.randn(*s, dtype=torch.bfloat16) for s in ((200, 72), (136, 72), (136,)))
    c = torch.full((200, 136), torch.nan, dtype=torch.bfloat16)
    kernel(a, b, bias, c)
    sums = a.double() @ b.double().T + bias.double()
    want = torch.nn.functional.gelu(sums, approximate="tanh")
    torch.testing.assert_close(c.double(), want, rtol=2e-2, atol=2e-2)
