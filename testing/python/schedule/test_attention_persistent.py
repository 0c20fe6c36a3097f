"""Attention by blocks with one tile after another: Q is pipelined around the loop over keys."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
import torch
from sm100.checks import _assembled, _seed, _warnings_are_errors, assembled_cases, assembler

import tilelang
import tilelang.language as T

__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]

FOLDER = Path(__file__).parents[3] / "examples" / "flash_attention"
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import attention_persistent

    yield attention_persistent
    for name in ("attention_persistent", "attention_forward"):
        sys.modules.pop(name, None)


def check(example, target, sizes, causal, device="cpu", dynamic=False, **others):
    """Poisoned outputs against float64; ``sizes`` are those of a Shape."""
    forward = example.attention_forward
    shape = forward.Shape(*sizes)
    lengths = {"queries": T.dynamic("queries"), "keys": T.dynamic("keys")} if dynamic else {}
    tiles = example.default_tiles(target, shape.dim, shape.dim_v) | others
    function = example.attention(shape._replace(**lengths), causal, **tiles)
    kernel = tilelang.compile(function, target=target, pass_configs=forward.PASS_CONFIGS)
    q = torch.randn(shape.batch, shape.queries, shape.heads, shape.dim).bfloat16()
    k, v = (
        torch.randn(shape.batch, shape.keys, shape.kv_heads, dim).bfloat16()
        for dim in (shape.dim, shape.dim_v)
    )
    want, want_lse = forward.reference(q, k, v, causal)
    out = torch.full(want.shape, float("nan"), dtype=q.dtype, device=device)
    lse = torch.full(want_lse.shape, float("nan"), device=device)
    sizes = {name: tiles.get(name, 1) for name in ("block_M", "block_N", "group")}
    tables = example.share_out(shape, causal, **sizes, blocks=tiles["blocks"])
    kernel(*(x.to(device) for x in (q, k, v, *tables)), out, lse)
    assert (out.cpu().double() - want).norm() < 4e-3 * want.norm()
    assert (out.cpu().double() - want).abs().max() < 4e-2 * want.abs().max()
    assert (lse.cpu().double() - want_lse).abs().max() < 1e-4
    return kernel


def test_tiles_are_shared_out_by_their_work(example):
    """Each once, and no block has more to do than another by more than one tile."""
    shape = example.attention_forward.Shape(4, 4096, 4096, 16, 16, 128, 128)
    starts, tiles = example.share_out(shape, True, 128, 128, group=8, blocks=132)
    assert sorted(tiles.tolist()) == list(range(32 * 64))
    rows, _ = example.place(tiles, 32, 8)
    work = [(rows[a:b] + 1 + example.OVERHEAD).sum() for a, b in itertools.pairwise(starts)]
    assert max(work) < 1.01 * sum(work) / len(work)


SHAPE = (2, 200, 330, 4, 2, 64, 64)


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
def test_rounds_of_tiles(example, causal, device):
    """Q of the next tile is loaded ahead; each warpgroup stores for itself and waits for itself."""
    kernel = check(
        example, "sm_90a", SHAPE, causal, device, blocks=3, block_M=128, block_N=80, threads=256
    )
    source = kernel.get_kernel_source()
    assert "Q_shared_empty" in source
    assert "tl::sync_threads(15, 256)" not in source


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("blocks", [1, 5, 64])
@pytest.mark.parametrize("group", [1, 2, 8])
def test_tiles_of_all_heads(example, causal, blocks, group):
    check(example, "sm_90a", SHAPE, causal, blocks=blocks, group=group, block_N=80)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("causal", [False, True])
def test_targets(example, target, causal):
    check(example, target, SHAPE, causal, blocks=3)


@pytest.mark.may_serialise("ptxas ignores setmaxnreg in one kernel of sm_120a")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(
    ("dim", "dim_v"), [(96, 96), (128, 128), (192, 128), (192, 192), (256, 256)]
)
def test_default_tiles_fit(example, target, dim, dim_v):
    """No target lacks the shared memory, and no kernel spills."""
    check(example, target, (1, 140, 150, 2, 1, dim, dim_v), dim == 96, blocks=2)


@pytest.mark.parametrize("causal", [False, True])
def test_dynamic_lengths(example, causal):
    check(example, "sm_90a", SHAPE, causal, blocks=3, dynamic=True)


def test_lazy(example):
    check(example, "sm_90a", (1, 400, 600, 2, 2, 128, 128), True, blocks=3, lazy=True)
