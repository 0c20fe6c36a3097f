"""Memory order: relaxed mbarrier operations, and which proxy fences cover shared memory."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

# Thread 32 writes a word of shared memory, thread 0 reads it when it has been told so.
_START = """ .reg .b32 %r<9>, %t; .reg .b64 %d<9>; .reg .pred %p<9>, %writer, %reader;
 .shared .align 128 .b8 sm[1024]; mov.u32 %t, %tid.x; mov.u32 %r1, sm; ld.param.u64 %d0, [OUT];
 setp.eq.u32 %reader, %t, 0; setp.eq.u32 %writer, %t, 32;
 @%reader mbarrier.init.shared.b64 [%r1], 1; @%reader fence.mbarrier_init.release.cluster;
 @%reader st.shared.u32 [%r1+8], 0; bar.sync 0;
"""
_FENCE = "fence.acq_rel.cta;"
_WAIT = "W: mbarrier.@ORDER@.shared.b64 %p1, [%r1], 0; @!%p1 bra W;"


def launch(body, **options):
    text = f"{HEADER}.visible .entry k(.param .u64 OUT) {{\n{_START}{body}\n ret;\n}}\n"
    out = np.zeros(128, np.uint32)
    Device("sm_100a").load_ptx(text)["k"].launch(1, 64, [out], **options)
    return out


def pass_word(write, read):
    return (
        f"@%writer st.shared.u32 [%r1+16], 42;\n{write}\n@!%reader bra E;\n{read}\n"
        "ld.shared.u32 %r3, [%r1+16]; st.global.u32 [%d0], %r3; E:"
    )


def told_by_mbarrier(arrive, wait, *, before="", after=""):
    return pass_word(
        f"{before} @%writer mbarrier.{arrive}.shared.b64 _, [%r1];",
        _WAIT.replace("@ORDER@", wait) + after,
    )


SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 4])
RELAXED = {"arrive": "arrive.relaxed.cta", "wait": "try_wait.parity.relaxed.cta"}


@SCHEDULES
@pytest.mark.parametrize(
    ("arrive", "wait", "before", "after"),
    [
        ("arrive", "try_wait.parity", "", ""),
        ("arrive.release.cta", "try_wait.parity.acquire.cta", "", ""),
        ("arrive.release.cluster", "test_wait.parity.acquire.cluster", "", ""),
        (RELAXED["arrive"], RELAXED["wait"], _FENCE, _FENCE),
        (RELAXED["arrive"], "try_wait.parity", _FENCE, ""),
        ("arrive", RELAXED["wait"], "", _FENCE),
        ("arrive_drop", "test_wait.parity.relaxed.cluster", "", "membar.cta;"),
    ],
)
def test_ordered_by_mbarrier(arrive, wait, before, after, schedule):
    body = told_by_mbarrier(arrive, wait, before=before, after=after)
    assert launch(body, schedule=schedule)[0] == 42


@SCHEDULES
@pytest.mark.parametrize(
    ("arrive", "wait", "before", "after"),
    [
        (RELAXED["arrive"], RELAXED["wait"], "", ""),
        (RELAXED["arrive"], "try_wait.parity", "", ""),
        ("arrive", RELAXED["wait"], "", ""),
        ("arrive_drop.relaxed.cluster", "test_wait.parity", "", _FENCE),
        (RELAXED["arrive"], RELAXED["wait"], _FENCE, ""),
        (RELAXED["arrive"], RELAXED["wait"], "", _FENCE),
    ],
)
def test_relaxed_mbarrier_operations_do_not_order(arrive, wait, before, after, schedule):
    body = told_by_mbarrier(arrive, wait, before=before, after=after)
    with pytest.raises(EmulatorError, match="nothing orders the two") as caught:
        launch(body, schedule=schedule)
    assert caught.value.kind == "race"
    launch(body, schedule=schedule, sanitize=False)


BULK_LOAD = """ @!%reader bra E; mbarrier.arrive.expect_tx.relaxed.cta.shared.b64 _, [%r1], 64;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1+128], [%d0], 64, [%r1];
 @WAIT@ ld.shared.u32 %r3, [%r1+128]; st.global.u32 [%d0+64], %r3; E:"""


@SCHEDULES
@pytest.mark.parametrize("after", ["", _FENCE])
def test_relaxed_wait_for_a_bulk_copy(after, schedule):
    wait = _WAIT.replace("@ORDER@", RELAXED["wait"]) + after
    body = BULK_LOAD.replace("@WAIT@", wait)
    if after:
        launch(body, schedule=schedule)
        return
    with pytest.raises(EmulatorError) as caught:
        launch(body, schedule=schedule)
    assert caught.value.kind == "missing-wait"


BULK_STORE = """ @%writer st.shared.u32 [%r1+128], 42; @%writer st.shared.v2.u32 [%r1+136], {1, 2};
 @%writer st.shared.u32 [%r1+132], 7; @FENCE@ bar.sync 0; @!%reader bra E;
 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1+128], 16;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:"""


@SCHEDULES
@pytest.mark.parametrize("space", ["", ".shared::cta", ".shared::cluster"])
def test_proxy_fence_of_shared_memory(space, schedule):
    out = launch(BULK_STORE.replace("@FENCE@", f"fence.proxy.async{space};"), schedule=schedule)
    assert out[:4].tolist() == [42, 7, 1, 2]


@SCHEDULES
@pytest.mark.parametrize("fence", ["fence.proxy.async.global;", "fence.proxy.alias;", ""])
def test_proxy_fence_of_another_space_or_proxy(fence, schedule):
    with pytest.raises(EmulatorError) as caught:
        launch(BULK_STORE.replace("@FENCE@", fence), schedule=schedule)
    assert caught.value.kind == "missing-proxy-fence"


# --- flags in shared or global memory

FLAGS = {
    "st and ld": (
        "st.release.cta.shared.u32 [%r1+8], 1;", "ld.acquire.cta.shared.u32 %r2, [%r1+8];",
    ),
    "red and ld": (
        "red.release.cta.shared.add.u32 [%r1+8], 1;", "ld.acquire.cta.shared.u32 %r2, [%r1+8];",
    ),
    "exch and ld": (
        "atom.release.cta.shared.exch.b32 %r4, [%r1+8], 1;",
        "ld.acquire.cta.shared.u32 %r2, [%r1+8];",
    ),
    "st and atom": (
        "st.release.cta.shared.u32 [%r1+8], 1;", "atom.acquire.cta.shared.or.b32 %r2, [%r1+8], 0;",
    ),
    "st and cas": (
        "st.release.cta.shared.u32 [%r1+8], 1;",
        "atom.acquire.cta.shared.cas.b32 %r2, [%r1+8], 1, 2;",
    ),
    "fences": (
        "fence.acq_rel.cta; @%writer st.relaxed.cta.shared.u32 [%r1+8], 1;",
        "ld.relaxed.cta.shared.u32 %r2, [%r1+8]; fence.acq_rel.cta;",
    ),
    "volatile": (
        "membar.cta; @%writer st.volatile.shared.u32 [%r1+8], 1;",
        "ld.volatile.shared.u32 %r2, [%r1+8]; membar.cta;",
    ),
    "global": ("st.release.gpu.global.u32 [%d0+8], 1;", "ld.acquire.gpu.global.u32 %r2, [%d0+8];"),
}  # fmt: skip


@SCHEDULES
@pytest.mark.parametrize("name", FLAGS)
def test_ordered_by_a_flag(name, schedule):
    write, read = FLAGS[name]
    loop = f"W: {read} setp.eq.u32 %p1, %r2, 0; @%p1 bra W;"
    assert launch(pass_word(f"@%writer {write}", loop), schedule=schedule)[0] == 42
