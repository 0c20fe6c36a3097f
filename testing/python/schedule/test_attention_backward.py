"""Gradients of attention from plain programs, against torch's autograd in float64."""

from __future__ import annotations

import functools
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from sm100.checks import _assembled, _seed, _warnings_are_errors, assembled_cases, assembler

__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]

FOLDER = Path(__file__).parents[3] / "examples" / "flash_attention"
ADDED = "attention_backward_added"
both = pytest.mark.parametrize("script", ["attention_backward", ADDED])
every_schedule = pytest.mark.every_schedule


@functools.cache
def example(script="attention_backward") -> dict:
    sys.path.insert(0, str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / f"{script}.py"))
    finally:
        sys.path.remove(str(FOLDER))


def check(
    shape, causal=False, dtype="bfloat16", tiles=None, target="sm_90a", device="cpu",
    script="attention_backward",
):  # fmt: skip
    """Compiles and runs the kernels on random data; gradients are compared as wholes."""
    shape = example()["Shape"](*shape)
    torch_dtype = getattr(torch, dtype)
    q, k, v, d_out = (
        torch.randn(shape.batch, length, heads, dim).to(torch_dtype)
        for length, heads, dim in (
            (shape.queries, shape.heads, shape.dim),
            (shape.keys, shape.kv_heads, shape.dim),
            (shape.keys, shape.kv_heads, shape.dim_v),
            (shape.queries, shape.heads, shape.dim_v),
        )
    )
    out, lse, want = example()["reference_gradients"](q, k, v, d_out, causal)
    rounded = out.to(torch_dtype).contiguous(), lse.float().contiguous()
    backward = example(script)["Backward"](shape, causal, dtype, tiles, target=target)
    inputs = [x.to(device) for x in (q, k, v, rounded[0], d_out, rounded[1])]
    for name, got, exact in zip(("dQ", "dK", "dV"), backward(*inputs), want, strict=True):
        # The gradient of an output that is rounded is off by that much where others cancel it.
        error = (got.cpu().double() - exact).norm() / exact.norm().clamp(min=1e-2)
        assert error < (8e-3 if dtype == "bfloat16" else 1e-3), name


SHAPES = [
    (1, 77, 77, 1, 1, 64, 64),
    (1, 130, 261, 2, 1, 64, 64),
    (2, 100, 168, 4, 2, 128, 128),
    (1, 129, 257, 2, 2, 128, 64),
    (1, 101, 130, 3, 1, 96, 96),
]


@both
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_shapes(shape, causal: bool, script) -> None:
    check(shape, causal, script=script)


@both
@every_schedule
@pytest.mark.parametrize("causal", [False, True])
def test_every_schedule(causal: bool, script) -> None:
    check((1, 136, 200, 2, 1, 64, 64), causal, script=script)


@pytest.mark.parametrize("dim", [64, 96, 128])
def test_parts_are_added_by_the_accelerator(dim: int) -> None:
    """By each warpgroup its own, as one piece; nothing of the loop waits for all threads but the
    exchange of dS, and no register is spilled."""
    shape = example()["Shape"](4, 4096, 4096, 16, 16, dim, dim)
    kernel = example(ADDED)["Backward"](shape, target="sm_90a").kernels[1]
    source = kernel.get_kernel_source()
    loop = source[source.rindex("#pragma unroll 1") : source.rindex("dK_sum[r")]
    loop = loop[: loop.index("\n    }\n")]
    assert loop.count("tl::tma_store_add(&Sums_map") == 2
    # of all: before dS is overwritten, and before it is read
    assert len(re.findall(r"tl::sync_threads\(\d+, 256\)", loop)) == 2
    assert all(usage.spill_stores == 0 for usage in kernel.resource_usage.values())


@both
def test_rows_of_any_number_of_queries_are_loaded_by_the_accelerator(script) -> None:
    """And none of the block's barriers is added for that."""
    barriers = []
    for queries in (511, 512):
        shape = example()["Shape"](1, queries, 512, 2, 2, 128, 128)
        kernel = example(script)["Backward"](shape, target="sm_90a").kernels[1]
        source = kernel.get_kernel_source()
        assert source.count("tl::tma_load(&Rows_map") == 2
        barriers.append(source.count("tl::sync_threads("))
    assert barriers[0] == barriers[1]


def test_96_dimensions_are_multiplied_by_wgmma() -> None:
    shape = example()["Shape"](1, 512, 512, 1, 1, 96, 96)
    kernel = example(ADDED)["Backward"](shape, target="sm_90a").kernels[1]
    assert "wgmma_m64n48k16_f32_bf16_bf16_ss_ta_tb(" in kernel.get_kernel_source()
    assert "mma_bf16_f32(" not in kernel.get_kernel_source()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a"])
@both
def test_default_tiles_are_those_of_the_target(target, script) -> None:
    kernels = example(script)["Backward"]
    backward = kernels(example()["Shape"](1, 64, 64, 1, 1, 64, 64), target=target)
    assert backward.tiles == kernels.default_tiles(64, target)
    assert kernels.default_tiles(64, "sm_90a") != kernels.default_tiles(64, "sm_100a")


@pytest.mark.parametrize(
    ("lengths", "heads", "group"),
    [
        ((2, 2048, 2048), (32, 8), 8),  # of four at a time the last long block begins too late
        ((4, 4096, 4096), (32, 4), 4),
        ((1, 16384, 16384), (16, 16), 4),
        ((1, 100, 3000), (2, 1), 1),
        ((3, 700, 900), (5, 5), 5),
        ((64, 32768, 32768), (32, 32), 4),  # no other number need be tried
    ],
)
def test_heads_at_a_time(lengths, heads, group) -> None:
    heads_at_a_time = example(ADDED)["heads_at_a_time"]
    shape, tiles = (
        example()["Shape"](*lengths, *heads, 128, 128),
        example()["Tiles"](128, 64, 256, 2),
    )
    assert heads_at_a_time(shape, True, tiles, 132) == group
    assert heads_at_a_time(shape, False, tiles, 132) == 1


@pytest.mark.parametrize("lengths", [(1, 1), (1, 300), (64, 64), (200, 205)], ids=str)
def test_lengths(lengths) -> None:
    check((1, *lengths, 1, 1, 64, 64), causal=True)


def test_float16() -> None:
    check((1, 96, 150, 2, 1, 64, 64), causal=True, dtype="float16")


@pytest.mark.parametrize("tiles", [(128, 96, 256, 2), (128, 64, 256, 1), (64, 64, 128, 2)], ids=str)
def test_tiles(tiles) -> None:
    both = (example()["Tiles"](*tiles),) * 2
    check((1, 200, 333, 1, 1, 64, 64), causal=True, tiles=both)


def test_loads_and_gemms_overlap() -> None:
    """The tiles are loaded by another warp, and both first gemms are issued before a wait."""
    backward = example()["Backward"](example()["Shape"](1, 512, 512, 1, 1, 128, 128),
                                     target="sm_90a")  # fmt: skip
    for kernel in backward.kernels[1:]:
        source = kernel.get_kernel_source()
        assert "Q_shared_full" in source or "K_shared_full" in source
        assert "wgmma_wait<1>" in source


@pytest.mark.parametrize("arguments", [(), ("--causal", "--heads", "4", "--dim", "64")])
def test_the_example(monkeypatch, capsys, arguments) -> None:
    monkeypatch.setattr(sys, "argv", ["attention_backward.py", *arguments])
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / "attention_backward.py"), run_name="__main__")
    captured = capsys.readouterr()
    assert captured.out.endswith("correct\n")
    assert captured.err == ""


@pytest.mark.requires_cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 1000, 1100, 6, 2, 128, 128)], ids=str)
def test_on_a_gpu(shape, causal: bool) -> None:
    check(shape, causal, target="auto", device="cuda")
