"""A persistent GEMM by pairs of CTAs, and programs that differ from it by one mistake each."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

M, N, K = 512, 512, 512
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


@pytest.fixture
def step(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    return importlib.import_module("timing_steps").STEPS[-1]


@pytest.fixture
def program(step):
    return importlib.import_module("timing_steps_pairs").program(step)


def run(step, text, schedule):
    """C of small integers, by two CTAs of four tiles each."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((M, K), (N, K)))
    c = np.full((M, N), 0x7FC0, np.uint16)
    device = Device("sm_100a")
    maps = [
        device.tensor_map(
            (x.view(np.uint32) >> 16).astype(np.uint16),
            box=(rows, 64), swizzle="128B", dtype="bfloat16",
        )
        for x, rows in ((a, 128), (b, step.b_rows))
    ]  # fmt: skip
    device.load_ptx(text)["k"].launch(
        2, step.threads, [*maps, c, N // step.n, K // step.k, N, 8], cluster=2,
        smem=step.stages * step.stage_bytes, schedule=schedule, instruction_limit=5_000_000,
    )  # fmt: skip
    return a @ b.T, (c.astype(np.uint32) << 16).view(np.float32)


def waits(label):
    return rf"{label}: mbarrier\.try_wait[^;]*;\n @!%w bra {label};\n"


#: What is replaced, by what, and the kinds of error that it may be.
MUTANTS = {
    "slots are free for one CTA only": (
        r"(MULTIPLY:.*?)\.multicast::cluster\.b64 \[%r8\], %both", r"\1.b64 [%r8]", "deadlock",
    ),
    "sums are complete for one CTA only": (
        r"(.*)\.multicast::cluster\.b64 \[%r8\], %both", r"\1.b64 [%r8]", "deadlock",
    ),
    "the peer's epilogue tells its own CTA": (
        r" and\.b32 %r8, %r8, 0xFEFFFFFF; and\.b32 %r6", " and.b32 %r6", "deadlock",
    ),
    "the peer's loads complete in its own CTA": (
        r"and\.b32 %r7, %r7, 0xFEFFFFFF;", "", "deadlock",
    ),
    "loads without cta_group::2": (
        r"complete_tx::bytes\.cta_group::2", "complete_tx::bytes", "mbarrier",
    ),
    "arrivals of the peer are not counted": (r"\[%bars\+144\], 8", "[%bars+144], 4", "deadlock"),
    "loads of the peer are not counted": (
        r"\[%bars\+0\], 2", "[%bars+0], 1", "mbarrier|deadlock|missing-wait",
    ),
    "no fence before the arrival": (
        r"(STORES:.*?) tcgen05.fence::before_thread_sync;\n", r"\1", "missing-tcgen05-fence",
    ),
    "no fence behind the wait for sums": (
        r"(EPILOGUE:.*?) tcgen05.fence::after_thread_sync;\n", r"\1", "missing-tcgen05-fence",
    ),
    "no wait for the epilogue": (waits("STORED"), "", "missing-wait|race"),
    "no wait for free slots": (waits("EMPTY"), "", "missing-wait"),
    "no wait for the loads": (waits("FULL"), "", "missing-wait|deadlock"),
    "no wait for the sums": (waits("DONE"), "", "missing-wait|missed-phase"),
    "the CTAs do not meet at first": (re.escape(MEET), "bar.sync 0;", "race"),
    "the CTAs do not meet at last": (rf"(.*){re.escape(MEET)}", r"\1bar.sync 0;", "missing-wait"),
    "both CTAs issue": (
        r"setp\.eq\.and\.u32 %two, %x, 32, %q;", "setp.eq.u32 %two, %x, 32;", "deadlock",
    ),
    "the wrong CTA issues": (
        r"setp\.eq\.u32 %q, %rank, 0;", "setp.eq.u32 %q, %rank, 1;", "deadlock",
    ),
    "one CTA frees": (
        r"(.*)@%alloc tcgen05\.dealloc",
        r"\1setp.eq.and.u32 %q, %rank, 0, %alloc; @%q tcgen05.dealloc", "deadlock",
    ),
    "barriers are not visible to TMA": (
        r"@%one fence\.mbarrier_init\.release\.cluster;", "", "missing-mbarrier-fence",
    ),
    "one accumulator for all tiles": (
        r"mad\.lo\.u32 %r12, %acc, 256, %t;", "mov.u32 %r12, %t;", "missing-wait|race",
    ),
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2, 3])
def test_the_program_itself(step, program, schedule):
    expected, found = run(step, program, schedule)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=2**-8, atol=2**-8 * scale)


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_reported(step, program, name, schedule):
    pattern, replacement, kinds = MUTANTS[name]
    text, count = re.subn(pattern, replacement, program, count=1, flags=re.DOTALL)
    assert count == 1
    with pytest.raises(EmulatorError) as caught:
        run(step, text, schedule)
    assert caught.value.kind in kinds.split("|"), caught.value
