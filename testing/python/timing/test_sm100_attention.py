"""Attention in the structure of FlashAttention-4 on the model of a B200, against the paper's."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def attention(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    return importlib.import_module("timing_attention")


def test_it_computes_attention(attention):
    assert attention.check() < 2**-7  # a unit of bfloat16's last place


@pytest.mark.nightly
def test_share_of_the_peak(attention):
    # 71 % of the peak, of longer sequences. The limit of power is a guess: that of an H200.
    rate, busy = attention.predicted(64, 4096)
    assert busy == pytest.approx(0.71, rel=0.15)
    assert rate == pytest.approx(attention.PUBLISHED, rel=0.2)
