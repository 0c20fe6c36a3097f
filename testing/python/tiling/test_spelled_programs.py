"""The programs of ``benchmark/blackwell_spellings.py`` at small sizes."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest
import torch

import tilelang

LENGTH, DIM, REACH = 256, 64, 100


@pytest.fixture
def module(monkeypatch):
    """Returns a module of the folder of benchmarks, which is no package."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    return importlib.import_module


def randn(*sizes):
    return torch.randn(*sizes, dtype=torch.bfloat16)


def compiled(program):
    return tilelang.compile(program, target="sm_100a")


def close(actual, want, tolerance=2e-2):
    torch.testing.assert_close(actual.double(), want, rtol=tolerance, atol=tolerance)


def test_rows_of_the_table(module):
    spellings = module("blackwell_spellings")
    rows = spellings.listed()
    assert len(rows) == len({row.name for row in rows}) == 65
    assert all(0 < row.asked < 1 and row.light() > 0 for row in rows)


@pytest.mark.parametrize(
    "forms",
    [
        ("natural", "causal"),
        ("softcap",),
        ("bias",),
        ("bias_tile", "natural"),
        ("window",),
        ("softcap", "natural", "causal"),
    ],
    ids="-".join,
)
def test_attention(module, forms):
    spelled = module("spelled_attention")
    program = spelled.attention(1, 2, LENGTH, DIM, *forms, reach=REACH, kv_heads=1)
    q, k, v = (randn(1, LENGTH, heads, DIM) for heads in (2, 1, 1))
    biased = "bias" in forms or "bias_tile" in forms
    bias = randn(2, LENGTH, LENGTH) if biased else randn(1, 1, 1)
    out = torch.full_like(q, torch.nan)
    compiled(program)(q, k, v, bias, out)
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(DIM)
    if "softcap" in forms:
        scores = spelled.CAP * torch.tanh(scores / spelled.CAP)
    if biased:
        scores = scores + bias.double()
    i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
    if "causal" in forms or "window" in forms:
        scores.masked_fill_(j > i, -torch.inf)
    if "window" in forms:
        scores.masked_fill_(j <= i - REACH, -torch.inf)
    close(out, (scores.softmax(-1) @ v).transpose(1, 2))


@pytest.mark.parametrize(
    "function, want",
    [
        ("gelu", torch.nn.functional.gelu),
        ("sigmoid", torch.sigmoid),
        ("silu", torch.nn.functional.silu),
        ("softplus", torch.nn.functional.softplus),
        ("tanh", torch.tanh),
    ],
)
def test_epilogue(module, function, want):
    a, b = randn(200, 64), randn(64, 136)
    c = torch.full((200, 136), torch.nan, dtype=torch.bfloat16)
    compiled(module("spelled_gemms").epilogue(200, 136, 64, function))(a, b, c)
    close(c, want(a.double() @ b.double()))


def test_dequantised(module):
    a, w = randn(40, 256), torch.randint(0, 256, (136, 128), dtype=torch.uint8)
    s = randn(136, 2)
    c = torch.full((40, 136), torch.nan, dtype=torch.bfloat16)
    compiled(module("spelled_gemms").dequantised(40, 136, 256))(a, w, s, c)
    nibbles = torch.stack([w & 15, w >> 4], -1).reshape(136, 256).double() - 8
    factors = s.double().repeat_interleave(128, 1)
    close(c, a.double() @ (nibbles * factors).bfloat16().double().T)


def test_scaled_fp8(module):
    a, b = (torch.randn(rows, 384).to(torch.float8_e4m3fn) for rows in (200, 136))
    sa, sb = torch.rand(200, 3) + 0.5, torch.rand(2, 3) + 0.5
    c = torch.full((200, 136), torch.nan, dtype=torch.bfloat16)
    compiled(module("spelled_gemms").scaled_fp8(200, 136, 384))(a, b, sa, sb, c)
    left = a.double() * sa.double().repeat_interleave(128, 1)
    right = b.double() * sb.double().repeat_interleave(128, 0)[:136].repeat_interleave(128, 1)
    close(c, left @ right.T)


def test_convolution(module):
    x, w = randn(2, 9, 9, 64), randn(9 * 64, 72)
    y = torch.full((2 * 81, 72), torch.nan, dtype=torch.bfloat16)
    compiled(module("spelled_gemms").convolution(2, 9, 64, 72))(x, w, y)
    filters = w.double().reshape(3, 3, 64, 72).permute(3, 2, 0, 1)
    want = torch.nn.functional.conv2d(x.double().permute(0, 3, 1, 2), filters, padding=1)
    close(y, want.permute(0, 2, 3, 1).reshape(2 * 81, 72))


def test_gemms_of_several_weights(module):
    gemms = module("spelled_gemms")
    a, g, u = randn(200, 64), randn(136, 64), randn(136, 64)
    c = torch.full((200, 136), torch.nan, dtype=torch.bfloat16)
    compiled(gemms.swiglu(200, 136, 64))(a, g, u, c)
    silu = torch.nn.functional.silu(a.double() @ g.double().T)
    close(c, silu * (a.double() @ u.double().T))

    a, b = randn(3 * 128, 64), randn(3, 64, 136)
    c = torch.full((3 * 128, 136), torch.nan, dtype=torch.bfloat16)
    ends = torch.tensor([128, 256, 384], dtype=torch.int32)
    compiled(gemms.grouped(3, 128, 136, 64))(a, b, ends, c)
    close(c, (a.double().reshape(3, 128, 64) @ b.double()).reshape(3 * 128, 136))


def test_split_k(module):
    a, b, c = randn(100, 512), randn(512, 136), torch.ones(100, 136)
    compiled(module("spelled_gemms").split_k(100, 136, 512, 4))(a, b, c)
    close(c, 1 + a.double() @ b.double())


@pytest.mark.parametrize("columns", [64, 1000, 1023])
def test_rows(module, columns):
    rows = module("spelled_rows")
    x, r, w, b = (randn(*s) for s in ((37, columns), (37, columns), (columns,), (columns,)))
    y = torch.full_like(x, torch.nan)
    compiled(rows.softmax(37, columns))(x, y)
    close(y, x.double().softmax(-1))
    compiled(rows.layer_norm(37, columns))(x, w, b, y)
    close(y, torch.nn.functional.layer_norm(x.double(), (columns,), w.double(), b.double()))
    total = x.double() + r.double()
    compiled(rows.residual_norm(37, columns))(x, r, w, y)
    close(r, total)
    close(y, torch.nn.functional.rms_norm(total, (columns,), w.double(), 1e-6), 3e-2)


def test_quantised(module):
    rows = module("spelled_rows")
    x = randn(64, 256)
    for program, width in (
        (rows.quantised_rows(64, 256), 256),
        (rows.quantised_groups(64, 256), 128),
    ):
        parts = x.float().reshape(64, 256 // width, width)
        factors = parts.abs().amax(-1) / 448
        s = torch.full_like(factors, torch.nan)
        y = torch.zeros(64, 256, dtype=torch.float8_e4m3fn)
        compiled(program)(x, s.squeeze(-1) if width == 256 else s, y)
        torch.testing.assert_close(s, factors)
        want = (parts / factors[..., None]).to(torch.float8_e4m3fn).reshape(64, 256)
        assert torch.equal(y.float(), want.float())


def test_transposition(module):
    x, y = randn(136, 200), torch.full((200, 136), torch.nan, dtype=torch.bfloat16)
    compiled(module("spelled_rows").transpose(136, 200))(x, y)
    assert torch.equal(y, x.T)
