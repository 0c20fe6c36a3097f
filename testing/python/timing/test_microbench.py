"""Micro-benchmarks by the model of the H200, beside measured values (docs/timing_figures.md)."""

import pytest

MEASURED = {
    # Integers are added by two pipes; a minimum by one of them.
    "add.u32 interval": 2.09,
    "min.s32 interval": 2.06,
    "fma.f16x2 latency": 8.1,
    # One warp of a sub-core does not fill the MUFU whose results it reads; two do.
    "softmax of 64: max, ex2, sum, pack, 4 warps": 782,
    "softmax of 64: max, ex2, sum, pack, 8 warps": 569,
    "softmax of 64: ex2, pack, 8 warps": 541,
    # Operands of the tensor core do not share the port of shared memory with copies.
    "wgmma beside copies, m64n64k16": 32.4,
    "copies beside wgmma, m64n64k16": 172,
    "ld.shared.v4 beside wgmma, m64n128k16": 5.0,
    # The tensor core takes registers from the pipe of comparisons, little from special functions.
    "max beside wgmma, m64n64k16": 1.13,
    "max beside wgmma, m64n128k16": 1.07,
    "ex2 beside wgmma, m64n64k16": 2.78,
    # L2: of one SM, of all, of lines that several read.
    "L2 ld of 128 KiB, 1 CTAs, 1 the same": 114.8,
    "L2 ld of 128 KiB, 132 CTAs, 1 the same": 35.4,
    "tensor loads of 16384 B, 8 in flight, L2": 156.3,
    "tensor loads of 16384 B, 8 in flight, L2, 132 CTAs, 1 the same": 500,
    "tiles of L2 by TMA in rows of 64 B, 1 load the same, 1 apart": 31.2,
    "tiles of L2 by TMA in rows of 64 B, GEMM of 32 columns": 32.7,
    "tiles of L2 by TMA in rows of 128 B, 1 load the same, 1 apart": 35.5,
    "tiles of L2 by TMA in rows of 128 B, GEMM of 32 columns": 47.6,
    # What cp.async writes takes nothing from loads of shared memory; tiles of it from HBM are late.
    "32 ld.shared.v4 beside 8 cp.async in rows of 64 B": 136,
    "16 ld.shared.v4 beside 4 cp.async in rows of 64 B": 72,
    "turn of a tile loop, cp.async, 2 x 8192 B in rows of 64 B, 4 warps, 132 CTAs, HBM, "
    "pause of 1": 1573,
    "turn of a tile loop, cp.async, 2 x 8192 B in rows of 128 B, 4 warps, 132 CTAs, HBM, "
    "pause of 1": 1426,
    "fence.proxy.async after 0 cp.async, 1 warps": 267,
    # wgmma: a warpgroup issues so far ahead of the tensor core.
    "wgmma m64n128k16 SS, issue of 8": 103.4,
    "wgmma m64n128k16 RS, issue of 8": 131.6,
    "wgmma m64n128k16 SS, issue of 16": 614.9,
    # Tiles that a loop waits for, while all load.
    "turn of a tile loop, TMA, 2 x 16384 B, 132 CTAs, L2, pause of 600": 1361.8,
    "turn of a tile loop, TMA, 2 x 16384 B, 132 CTAs, HBM, pause of 600": 1971.5,
    # One thread that copies, and arrives.
    "tensor loads of 4096 B, 8 in flight, L2": 129.9,
    "mbarrier arrive, back to back": 16.8,
    # HBM: of some SMs; of few bytes in flight; of rows that are no whole 256 bytes.
    "HBM st bandwidth, 8 CTAs": 498.6,
    "HBM ld, 132 CTAs of 4 warps, 1 x 16 B in flight": 1925.7,
    "copy of tiles of 1024 B, read in order, written in order": 3985,
    "copy of tiles of 128 B, read in order, written across": 3589,
    "st.global of 1 CTAs, stride 128": 63.8,
}


@pytest.fixture(scope="module")
def measure(microbench):
    """What predicts a micro-benchmark by its name."""
    probes = {probe.name: probe for probe in microbench("run").probes()}
    emulated = microbench("machine").Emulated
    return lambda name, mhz=0.0: emulated(mhz).measure(probes[name])


@pytest.mark.budget(6)  # each measures another part of the model
@pytest.mark.parametrize("name", MEASURED)
def test_predicted_as_measured(measure, name):
    assert measure(name) == pytest.approx(MEASURED[name], rel=0.12)


def test_l2_keeps_its_clock(measure):
    """What 132 CTAs get of L2 in a cycle grows when the clock of the SMs falls: 36.8 and 47.2 bytes
    at 1880 and 1385 MHz on an H200."""
    name = "tiles of L2 by TMA in rows of 128 B, 1 load the same, 1 apart"
    assert measure(name, 1880.0) == pytest.approx(36.8, rel=0.05)
    assert measure(name, 1385.0) == pytest.approx(47.2, rel=0.06)
