"""Bulk stores that all lanes of a warp execute: those that ask for the same make one store."""

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
BYTES = 512
TEXT = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 IN, .param .u64 OUT, .param .align 64 .b8 MAP[128])
{
 .shared .align 128 .b8 buf[1024];
 .reg .b32 %r<12>; .reg .b64 %d<8>; .reg .pred %p<4>; .reg .b16 %h<2>;
 ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 mov.b64 %d2, MAP; cvta.param.u64 %d2, %d2;
 mov.u32 %r0, %tid.x; mov.u32 %r1, buf; setp.eq.u32 %p0, %r0, 0; mov.u16 %h0, 3;
 shl.b32 %r2, %r0, 4; add.u32 %r3, %r2, %r1; cvt.u64.u32 %d3, %r2; add.u64 %d4, %d0, %d3;
 ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d4]; st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};
 and.b32 %r8, %r0, 1; shl.b32 %r8, %r8, 4; cvt.u64.u32 %d5, %r8; add.u64 %d6, %d1, %d5;
 add.u32 %r9, %r1, %r8; mov.u32 %r10, 0;
 fence.proxy.async.shared::cta; bar.warp.sync -1;
@BODY@
 ret;
}
"""
STORES = {
    "plain": "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 512;",
    "masked": "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d1], [%r1], 512, %h0;",
    "tensor": "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d2, {%r10}], [%r1];",
}
COMMIT = " cp.async.bulk.commit_group;"
WAIT = " cp.async.bulk.wait_group 0;"


def launch(body, data, out, **options):
    text = TEXT.replace("@BODY@", body)
    if "cp_mask" in text:
        text = text.replace("sm_90a", "sm_100a")
    device = Device("sm_100a" if "cp_mask" in text else "sm_90a")
    tensor_map = device.tensor_map(out.view(np.uint32), box=(128,))
    return device.load_ptx(text)["k"].launch(1, 32, [data, out, tensor_map], **options)


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, BYTES, dtype=np.uint8) for _ in range(2)]


@SCHEDULES
@pytest.mark.parametrize("kind", STORES)
def test_all_lanes_store_the_same(kind, schedule):
    data, out = arrays()
    expected = data
    if kind == "masked":
        expected = np.where(np.arange(BYTES) % 16 < 2, data, out)
    launch(STORES[kind] + COMMIT + WAIT, data, out, schedule=schedule)
    np.testing.assert_array_equal(out, expected)


@SCHEDULES
def test_each_lane_waits_for_the_common_store(schedule):
    """Half of the lanes read what was written after the wait of their own groups."""
    data, out = arrays(1)
    body = STORES["plain"] + COMMIT + WAIT + " bar.warp.sync -1;"
    body += " add.u64 %d4, %d1, %d3; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d4];"
    body += " add.u64 %d4, %d0, %d3; st.global.v4.b32 [%d4], {%r5, %r4, %r7, %r6};"
    copied = data.copy()
    launch(body, copied, out, schedule=schedule)
    np.testing.assert_array_equal(out, data)
    words = data.view(np.uint32).reshape(-1, 2)[:, ::-1]
    np.testing.assert_array_equal(copied.view(np.uint32), words.ravel())


@SCHEDULES
def test_a_wait_of_other_lanes_alone_is_missed(schedule):
    """The first lane's group is its own to wait for."""
    data, out = arrays(2)
    with pytest.raises(EmulatorError) as caught:
        launch(f"{STORES['plain']}{COMMIT} @!%p0 {WAIT}", data, out, schedule=schedule)
    assert caught.value.kind == "store-at-exit"


def test_stores_of_lanes_to_two_places():
    """Even and odd lanes ask for different stores: there are two, which overlap."""
    data, out = arrays(3)
    store = "cp.async.bulk.global.shared::cta.bulk_group [%d6], [%r9], 256;"
    with pytest.raises(EmulatorError, match=r"cp\.async\.bulk") as caught:
        launch(store.replace("%d6", "%d1") + COMMIT + WAIT, data, out)
    assert caught.value.kind == "missing-wait"


def test_reductions_count_for_each_lane():
    data, out = np.ones(128, np.uint32), np.zeros(128, np.uint32)
    reduce = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r1], 512;"
    launch(reduce + COMMIT + WAIT, data.view(np.uint8), out.view(np.uint8))
    np.testing.assert_array_equal(out, np.full(128, 32, np.uint32))
