"""Launches of which a sample of the blocks runs, or is checked: ``options(blocks=...)``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator, errors
from tilelang.emulator.sample import others, sampled

ONE = (1, 1, 1)


@pytest.mark.parametrize(
    ("grid", "cluster", "count"),
    [((7, 5, 3), ONE, 16), ((8, 4, 1), (2, 1, 1), 4), ((100, 1, 1), ONE, 1)],
)
def test_a_sample_has_the_corners(grid: Any, cluster: Any, count: int) -> None:
    chosen = sampled(grid, cluster, count)
    extents = [g // c for g, c in zip(grid, cluster, strict=True)]
    total = int(np.prod(extents))
    assert chosen == sorted(set(chosen)) and len(chosen) == count
    corners = {
        (z * extents[1] + y) * extents[0] + x
        for z, y, x in np.ndindex(*extents[::-1])
        if all(i in (0, e - 1) for i, e in zip((x, y, z), extents, strict=True))
    }
    assert len(corners & set(chosen)) == min(len(corners), count)
    assert sorted([*chosen, *others(grid, cluster, chosen)]) == list(range(total))
    assert sampled(grid, cluster, total) is None


def scaled(rows: int, dtype: str = "float32", outputs: Any = (-1,)) -> Any:
    """A kernel of a block for each row."""

    @T.prim_func
    def main(A: T.Tensor((rows, 64), "float32"), B: T.Tensor((rows, 64), dtype)):
        with T.Kernel(rows, threads=64) as bx:
            for i in T.Parallel(64):
                B[bx, i] = A[bx, i] * 2

    return tilelang.compile(main, target="sm_90a", out_idx=list(outputs) or None)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn", "int32", "uint8", "bool"])
def test_what_does_not_run_is_poisoned_in_allocated_tensors(dtype: str) -> None:
    a = torch.randint(1, 20, (100, 64)).float()
    kernel = scaled(100, dtype)
    with (
        pytest.warns(emulator.EmulatorWarning, match=r"main_kernel: 16 of 100 blocks ran and were"),
        emulator.options(blocks="sample"),
    ):
        b = kernel(a)
    ran = torch.zeros(100, dtype=torch.bool)
    ran[sampled((100, 1, 1), ONE, 16)] = True
    assert torch.equal(b[ran].float(), (a[ran] * 2).to(getattr(torch, dtype)).float())
    if b.dtype.is_floating_point:
        assert b[~ran].float().isnan().all()
    elif dtype == "bool":
        assert b[~ran].all()
    else:
        assert (b[~ran] == (255 if dtype == "uint8" else -1)).all()


def test_what_does_not_run_is_left_in_given_tensors() -> None:
    a, b = torch.rand(50, 64), torch.full((50, 64), 7.0)
    with pytest.warns(emulator.EmulatorWarning, match="3 of 50 blocks"), emulator.options(blocks=3):
        scaled(50, outputs=())(a, b)
    ran = sampled((50, 1, 1), ONE, 3)
    expected = torch.full((50, 64), 7.0)
    expected[ran] = a[ran] * 2
    assert torch.equal(b, expected)


def test_the_rest_may_run_without_the_sanitizer() -> None:
    a, kernel = torch.rand(50, 64), scaled(50)
    with (
        pytest.warns(emulator.EmulatorWarning, match="the others ran without the sanitizer"),
        emulator.options(blocks="sample", rest="run"),
    ):
        b = kernel(a)
    assert torch.equal(b, a * 2)


def test_small_grids_run_whole_and_say_nothing() -> None:
    a, kernel = torch.rand(16, 64), scaled(16)
    with warnings.catch_warnings(), emulator.options(blocks="sample"):
        warnings.simplefilter("error")
        assert torch.equal(kernel(a), a * 2)


def test_clusters_run_whole() -> None:
    @T.prim_func
    def main(B: T.Tensor((64,), "int32")):
        with T.Kernel(64, threads=32, cluster_dims=(2, 1, 1)) as bx:
            if T.get_thread_binding() == 0:
                B[bx] = T.block_rank_in_cluster() + 1

    b = torch.zeros(64, dtype=torch.int32)
    with (
        pytest.warns(emulator.EmulatorWarning, match=r"8 of 64 blocks .* in clusters of 2"),
        emulator.options(blocks=4),
    ):
        tilelang.compile(main, target="sm_90a")(b)
    ran = sampled((64, 1, 1), (2, 1, 1), 4)
    assert b.reshape(32, 2)[ran].tolist() == [[1, 2]] * 4
    assert int(b.sum()) == 12


RACE = """
extern "C" __global__ void race(int* out) {
  __shared__ int tile[64];
  tile[threadIdx.x] = threadIdx.x;
  if (blockIdx.x == BAD) out[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
"""


def racing(bad: int, **options: Any) -> tuple[np.ndarray, Any]:
    """What a kernel whose block of a number has a race writes, and the report of its launch."""
    from tilelang.runtime.nvrtc import compile_cuda

    module = emulator.Device("sm_90a").load_ptx(
        compile_cuda(f"#define BAD {bad}\n" + RACE, "sm_90a").ptx
    )
    out = np.zeros((100, 64), np.int32)
    report = module["race"].launch(100, 64, [out], **options)
    return out, report


@pytest.mark.filterwarnings("ignore::tilelang.emulator.EmulatorWarning")
def test_only_the_sample_is_checked() -> None:
    unchecked = others((100, 1, 1), ONE, sampled((100, 1, 1), ONE, 16))[0]
    with pytest.raises(errors.EmulatorError, match="race"):
        racing(unchecked)
    with emulator.options(blocks="sample", rest="run"):
        out, _ = racing(unchecked)
        assert out[unchecked].any()
        with pytest.raises(errors.EmulatorError, match="race"):
            racing(99)


@pytest.mark.filterwarnings("ignore::tilelang.emulator.EmulatorWarning")
def test_the_report_counts_what_ran() -> None:
    whole = racing(-1)[1]
    sample = racing(-1, blocks=10)[1]
    both = racing(-1, blocks=10, rest="run")[1]
    assert sample.instructions * 10 == whole.instructions == both.instructions
    assert both.by_class == whole.by_class
    timed = racing(-1, blocks=10, timing=True)[1]  # which runs all
    assert timed.instructions == whole.instructions


def test_blocks_that_exchange_values_all_run() -> None:
    @T.prim_func
    def main(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32")):
        with T.Kernel(40, threads=32) as bx:
            if T.get_thread_binding() == 0:
                A[bx] = bx
            T.sync_grid()
            if T.get_thread_binding() == 0:
                B[bx] = A[39 - bx]

    a, b = torch.zeros(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
    with (
        pytest.warns(emulator.EmulatorWarning, match="all blocks ran: they exchange values"),
        emulator.options(blocks=2),
    ):
        tilelang.compile(main, target="sm_90a")(a, b)
    assert torch.equal(b, torch.arange(39, -1, -1, dtype=torch.int32))


def test_options_are_checked() -> None:
    for options, message in [
        ({"blocks": "some"}, "blocks must be 'all', 'sample' or a number"),
        ({"blocks": 0}, "blocks must be at least 1"),
        ({"blocks": 1.5}, "blocks must be an integer"),
        ({"rest": "poison"}, "rest must be 'skip' or 'run'"),
    ]:
        with pytest.raises(errors.UserError, match=message), emulator.options(**options):
            pass
