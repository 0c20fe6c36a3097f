"""The clock that the power limit of an H200 leaves (docs/timing_figures.md)."""

import dataclasses

import pytest

import tilelang
import tilelang.language as T
from tilelang.emulator import TimingOptions

FULL = 1805  # MHz of kernels of the tensor core below the limit

#: Of loops on all multiprocessors of an H200. The model is fitted to these, and to whole kernels.
MEASURED = {
    "wgmma": 1593,
    "wgmma, 32 fma": 1562,
    "wgmma, 8192 B by TMA": 1509,
    "wgmma, 4 cp.async": 1371,
    "wgmma, 8 ld.global.cg": 1391,
    "mma.sync, ldmatrix": 1692,
}


@pytest.fixture(scope="module")
def mhz(microbench):
    """The clock of a loop of benchmark/microbench/power.py on so many CTAs, by the model."""
    loops = {probe.name: probe for probe in microbench("power").probes()}
    emulated = microbench("machine").Emulated()
    return lambda name, ctas=132: emulated.measure(
        dataclasses.replace(loops[f"clock, {name}"], ctas=ctas)
    )


@pytest.mark.parametrize("name", MEASURED)
def test_the_clock_of_a_loop(mhz, name):
    """One formula for all that a multiprocessor does: 12 % at most."""
    assert mhz(name) == pytest.approx(MEASURED[name], rel=0.12)


@pytest.mark.nightly
def test_what_works_lowers_the_clock(mhz):
    clocks = {name: mhz(name) for name in MEASURED}
    # Copies lower it more than what they are beside, those of threads most.
    tma, threads = clocks["wgmma, 8192 B by TMA"], clocks["wgmma, 4 cp.async"]
    assert threads < tma - 50 < clocks["wgmma"] - 100
    # Few multiprocessors do not reach the limit.
    assert mhz("wgmma, 8192 B by TMA", 32) == pytest.approx(FULL)
    assert tma < 0.9 * FULL


def test_the_clock_is_that_of_the_grid_whatever_is_timed_of_it():
    @T.prim_func
    def multiply(
        a: T.Tensor((2048, 1024), "bfloat16"), b: T.Tensor((1024, 2048), "bfloat16"),
        c: T.Tensor((2048, 2048), "bfloat16"),
    ):  # fmt: skip
        with T.Kernel(32, 32, threads=128) as (bx, by):
            tile_a = T.alloc_shared((64, 64), "bfloat16")
            tile_b = T.alloc_shared((64, 64), "bfloat16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for k in T.Pipelined(16, num_stages=2):
                T.copy(a[by * 64, k * 64], tile_a)
                T.copy(b[k * 64, bx * 64], tile_b)
                T.gemm(tile_a, tile_b, total)
            T.copy(total, c[by * 64, bx * 64])

    kernel = tilelang.compile(multiply, target="sm_90a")
    # Two CTAs leave a multiprocessor idle for much of the time, eight do not.
    few, all_resident = (
        kernel.profile(timing=TimingOptions(sampled=True, record=False, ctas=ctas)).timing
        for ctas in (2, 6)
    )
    assert few.power_factor == pytest.approx(all_resident.power_factor, rel=0.04)
