"""Attention from one plain program: both targets, against torch in float64."""

from __future__ import annotations

import functools
import itertools
import math
import runpy
import sys
from pathlib import Path

import pytest
import torch
from sm100.checks import _assembled, _seed, _warnings_are_errors, assembled_cases, assembler

import tilelang
import tilelang.language as T

__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]

PATH = Path(__file__).parents[3] / "examples" / "flash_attention" / "attention_forward.py"
TARGETS = ("sm_90a", "sm_100a")
every_schedule = pytest.mark.every_schedule


@functools.cache
def example() -> dict:
    return runpy.run_path(str(PATH))


def compiled(target, queries, keys, dim, heads=2, kv_heads=1, batch=1, dim_v=None, **others):
    shape = example()["Shape"](batch, queries, keys, heads, kv_heads, dim, dim_v or dim)
    tiles = example()["default_tiles"](target, dim)
    function = example()["attention"](shape, **(tiles | others))
    return tilelang.compile(function, target=target, pass_configs=example()["PASS_CONFIGS"])


def random_tensors(queries, keys, dim, heads=2, kv_heads=1, batch=1, dim_v=None, dtype="bfloat16"):
    """Q, K, V on the CPU."""
    shapes = [
        (batch, queries, heads, dim),
        (batch, keys, kv_heads, dim),
        (batch, keys, kv_heads, dim_v or dim),
    ]
    return [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]


def check(kernel, q, k, v, causal=False, device="cpu"):
    """Runs the kernel, outputs poisoned, and compares: the result, and the log-sum-exp."""
    want, want_lse = example()["reference"](q, k, v, causal)
    out = torch.full(want.shape, float("nan"), dtype=q.dtype, device=device)
    lse = torch.full(want_lse.shape, float("nan"), device=device)
    kernel(*(x.to(device) for x in (q, k, v)), out, lse)
    error = (out.cpu().double() - want).norm() / want.norm()
    assert error < (4e-3 if q.dtype == torch.bfloat16 else 1e-3)
    # No element is far off, in rows of a few keys neither.
    assert (out.cpu().double() - want).abs().max() < 4e-2 * want.abs().max()
    assert (lse.cpu().double() - want_lse).abs().max() < 1e-4


DIMS = {
    64: {},
    96: {},
    128: {},
    256: {},
    192: {"dim_v": 128},
}
#: queries, keys: none is a multiple of a tile
LENGTHS = [(1, 1), (77, 77), (130, 261), (1, 300), (128, 256)]


def head_dimensions():
    """The result of 256 dimensions and its copy from tensor memory are 256 registers together."""
    spills = pytest.mark.may_spill("two registers of the copy from tensor memory")
    for dim, target in itertools.product(DIMS, TARGETS):
        marks = [spills] if (dim, target) == (256, "sm_100a") else []
        yield pytest.param(dim, target, marks=marks)


@pytest.mark.parametrize("dim", DIMS)
def test_tiles_are_those_of_tensor_memory(dim: int) -> None:
    """B300 has it, too."""
    tiles = [example()["default_tiles"](target, dim) for target in ("sm_103a", *TARGETS)]
    assert tiles[0] == tiles[2] != tiles[1]


@pytest.mark.parametrize("causal", [False, True])
def test_on_b300(causal: bool) -> None:
    check(compiled("sm_103a", 130, 261, 128, causal=causal), *random_tensors(130, 261, 128), causal)


@pytest.mark.parametrize(("dim", "target"), list(head_dimensions()))
@pytest.mark.parametrize("causal", [False, True])
def test_head_dimensions(target: str, causal: bool, dim: int) -> None:
    kernel = compiled(target, 130, 261, dim, causal=causal, **DIMS[dim])
    check(kernel, *random_tensors(130, 261, dim, dim_v=DIMS[dim].get("dim_v")), causal)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_lengths(target: str, causal: bool, lengths) -> None:
    kernel = compiled(target, *lengths, 64, causal=causal, block_N=64)
    check(kernel, *random_tensors(*lengths, 64), causal)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
def test_dynamic_lengths(target: str, causal: bool) -> None:
    queries, keys = T.dynamic("queries"), T.dynamic("keys")
    kernel = compiled(target, queries, keys, 64, causal=causal, block_N=64)
    for lengths in LENGTHS:
        check(kernel, *random_tensors(*lengths, 64), causal)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("heads", [(3, 3), (6, 2), (4, 1)], ids=str)
def test_heads_share_keys(target: str, heads) -> None:
    sizes = (100, 400, 64, *heads, 2)
    kernel = compiled(target, *sizes, causal=True)
    check(kernel, *random_tensors(*sizes), causal=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("group", [2, 3, 6])
def test_heads_side_by_side(target: str, group: int) -> None:
    sizes = (200, 400, 64, 6, 3, 2)
    kernel = compiled(target, *sizes, causal=True, group=group)
    check(kernel, *random_tensors(*sizes), causal=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
def test_float16(target: str, causal: bool) -> None:
    kernel = compiled(target, 130, 261, 128, causal=causal, dtype="float16")
    check(kernel, *random_tensors(130, 261, 128, dtype="float16"), causal)


TILES = [
    # block_M, block_N, threads, num_stages
    (64, 128, 128, 2),
    (64, 64, 128, 2),
    (128, 80, 256, 3),
    (128, 64, 256, 1),
    (192, 80, 384, 2),
    (192, 64, 384, 3),
]


def with_tiles(tiles) -> dict:
    return dict(zip(("block_M", "block_N", "threads", "num_stages"), tiles, strict=True))


@every_schedule
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", TILES, ids=str)
def test_tiles_on_hopper(tiles, causal: bool) -> None:
    kernel = compiled("sm_90a", 250, 333, 64, heads=1, causal=causal, **with_tiles(tiles))
    check(kernel, *random_tensors(250, 333, 64, heads=1), causal)
    # P V runs beside the softmax.
    assert ("wgmma_wait<1>" in kernel.get_kernel_source()) == (tiles[3] > 1)


@every_schedule
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", [(128, 64, 256, 2), (128, 64, 128, 3)], ids=str)
def test_tiles_on_blackwell(tiles, causal: bool) -> None:
    kernel = compiled("sm_100a", 250, 333, 64, heads=1, causal=causal, **with_tiles(tiles))
    check(kernel, *random_tensors(250, 333, 64, heads=1), causal)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_scores_far_apart(target: str, lazy: bool) -> None:
    """Large scores, of either sign: no overflow, whatever the running maximum was before."""
    kernel = compiled(target, 128, 256, 64, block_N=64, lazy=lazy)
    q, k, v = random_tensors(128, 256, 64)
    k *= torch.linspace(-40, 40, 256).bfloat16()[:, None, None]
    check(kernel, q, k, v)


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(77, 77), (130, 461)], ids=str)
def test_lazy(target: str, causal: bool, lengths) -> None:
    kernel = compiled(target, *lengths, 64, causal=causal, block_N=64, lazy=True)
    check(kernel, *random_tensors(*lengths, 64), causal)


def growing_scores(step: float, blocks: int = 6):
    """Q, K, V of which every block of 64 keys has the same score, ``step`` above the last block's
    in powers of two."""
    q = torch.zeros(1, 64, 1, 64, dtype=torch.bfloat16)
    k, v = torch.zeros(1, 64 * blocks, 1, 64).bfloat16(), torch.randn(1, 64 * blocks, 1, 64)
    q[..., 0] = 1
    k[..., 0] = (torch.arange(blocks) * step * math.log(2) * 8).repeat_interleave(64)[:, None]
    return q, k, v.bfloat16()


@pytest.mark.parametrize(("step", "rescales"), [(1.5, 0), (20.0, 5)])
def test_lazy_rescales_when_it_must(step: float, rescales: int) -> None:
    """Weights up to 2**8 are kept as they are; beyond, the maximum follows."""
    q, k, v = growing_scores(step)
    results = []
    for lazy in (False, True):
        kernel = compiled("sm_90a", 64, 384, 64, heads=1, block_M=64, block_N=64, threads=128,
                          lazy=lazy)  # fmt: skip
        check(kernel, q, k, v)
        results.append(kernel.last_launch.lane_instructions)
    exact, lazy = results
    assert (lazy < exact) == (rescales == 0)


@pytest.mark.parametrize(
    "arguments", [(), ("--causal",), ("--dim", "64", "--dtype", "float16", "--keys", "384")]
)
@pytest.mark.parametrize("target", TARGETS)
def test_the_example(monkeypatch, capsys, target: str, arguments) -> None:
    monkeypatch.setattr(sys, "argv", [PATH.name, "--target", target, *arguments])
    runpy.run_path(str(PATH), run_name="__main__")
    captured = capsys.readouterr()
    assert captured.out.endswith("correct\n")
    assert captured.err == ""


SERIALISES = pytest.mark.may_serialise("two blocks of keys without a loop take too many registers")
ON_A_GPU = [
    *({"dim": dim, **sizes} for dim, sizes in DIMS.items()),
    *({"dim": 128, **with_tiles(tiles), "lazy": True} for tiles in TILES),
    pytest.param({"dim": 64, **with_tiles((256, 64, 512, 2)), "group": 2}, marks=SERIALISES),
    {"dim": 128, "dtype": "float16"},
]


@pytest.mark.requires_cuda
@pytest.mark.may_spill("two blocks of keys are code without a loop, and too long to schedule well")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", ON_A_GPU, ids=str)
def test_on_a_gpu(sizes, causal: bool) -> None:
    sizes = dict(sizes)
    dim, shape = sizes.pop("dim"), (6, 2, 2)
    tensors = {name: sizes[name] for name in ("dim_v", "dtype") if name in sizes}
    for lengths in itertools.chain(LENGTHS, [(1000, 1100), (2048, 2048)]):
        kernel = compiled("auto", *lengths, dim, *shape, causal=causal, **sizes)
        check(kernel, *random_tensors(*lengths, dim, *shape, **tensors), causal, device="cuda")
