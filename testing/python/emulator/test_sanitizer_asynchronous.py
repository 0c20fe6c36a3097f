"""Orders of asynchronous copies and mbarriers: each hazard once right and once wrong, under
schedules that delay the engines, the warps, or nobody."""

import numpy as np
import pytest
from emulator.tmem_kernels import build, run
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 1, 2, 3])
# Every thread puts its index into shared memory; thread 0 goes on alone to the end.
_START = """ .reg .b32 %r<20>, %t, %w; .reg .b64 %d<9>; .reg .pred %p<9>, %first;
 .shared .align 128 .b8 sm[1024]; .shared .align 8 .b64 bar; mov.u32 %t, %tid.x; mov.u32 %r1, sm;
 mov.u32 %r2, bar; shr.u32 %w, %t, 5; setp.eq.u32 %first, %t, 0; ld.param.u64 %d0, [A];
 ld.param.u64 %d1, [B]; shl.b32 %r3, %t, 2; add.u32 %r3, %r3, %r1;
"""
_FILL = " st.shared.u32 [%r3], %t; fence.proxy.async; bar.sync 0;\n"
_STORE = (
    " cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 256; cp.async.bulk.commit_group;\n"
)
_WAIT = " cp.async.bulk.wait_group 0;\n"
_WAIT_READ = " cp.async.bulk.wait_group.read 0;\n"


def launch(body, *, threads=64, grid=1, arrays=None, **options):
    text = (
        f"{HEADER}.visible .entry k(.param .u64 A, .param .u64 B) {{\n{_START}{body}\n ret;\n}}\n"
    )
    a, b = arrays or (np.zeros(256, np.uint32), np.zeros(256, np.uint32))
    Device("sm_100a").load_ptx(text)["k"].launch(grid, threads, [a, b], progress=False, **options)
    return a, b


def kind_of(body, **options):
    with pytest.raises(EmulatorError) as caught:
        launch(body, **options)
    return caught.value.kind


# --- mbarriers and the async proxy

_INIT = " @!%first bra E; mbarrier.init.shared.b64 [%r2], 1; @FENCE@\n"
_LOAD = """ mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], 256, [%r2];
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra W; E:
"""


@SCHEDULES
@pytest.mark.parametrize(
    "fence", ["fence.mbarrier_init.release.cluster;", "fence.proxy.async;",
              "fence.proxy.async.shared::cta;"],
)  # fmt: skip
def test_initialised_for_a_bulk_load(fence, schedule):
    launch(_INIT.replace("@FENCE@", fence) + _LOAD, schedule=schedule)


@SCHEDULES
@pytest.mark.parametrize("fence", ["", "fence.acq_rel.cluster;", "fence.proxy.async.global;"])
def test_not_initialised_for_a_bulk_load(fence, schedule):
    body = _INIT.replace("@FENCE@", fence) + _LOAD
    assert kind_of(body, schedule=schedule) == "missing-mbarrier-fence"


@SCHEDULES
def test_initialisation_by_another_warp(schedule):
    """Its fence comes before the barrier."""
    init = " @%first mbarrier.init.shared.b64 [%r2], 1; {0} bar.sync 0; {1}"
    load = " setp.eq.u32 %p2, %t, 32; @!%p2 bra E;" + _LOAD
    fence = "@%first fence.mbarrier_init.release.cluster;"
    launch(init.format(fence, "") + load, schedule=schedule)
    assert kind_of(init.format("", "") + load, schedule=schedule) == "missing-mbarrier-fence"
    assert kind_of(init.format("", fence) + load, schedule=schedule) == "missing-mbarrier-fence"


# --- bulk stores

_ONE = " @!%first bra E;\n"


@SCHEDULES
def test_the_cta_ends_under_a_bulk_store(schedule):
    for wait in (_WAIT, _WAIT_READ):
        launch(_FILL + _ONE + _STORE + wait + "E:", schedule=schedule)
    assert kind_of(_FILL + _ONE + _STORE + "E:", schedule=schedule) == "store-at-exit"
    uncommitted = _STORE.replace("cp.async.bulk.commit_group;", "") + _WAIT
    assert kind_of(_FILL + _ONE + uncommitted + "E:", schedule=schedule) == "store-at-exit"


ACCESSES = {
    "read": "ld.global.u32 %r5, [%d0]; st.global.u32 [%d1], %r5;",
    "write": "st.global.u32 [%d0], 7;",
    # It stores other bytes: a store of the bytes that are in place races with nobody.
    "another bulk store": "st.shared.u32 [%r3], 7; fence.proxy.async;" + _STORE + _WAIT,
}


@SCHEDULES
@pytest.mark.parametrize("access", ACCESSES)
def test_global_memory_that_a_bulk_store_writes(access, schedule):
    again = ACCESSES[access] + "E:"
    launch(_FILL + _ONE + _STORE + _WAIT + again, schedule=schedule)
    body = _FILL + _ONE + _STORE + _WAIT_READ + again + _WAIT
    assert kind_of(body, schedule=schedule) == "missing-wait"
    launch(_FILL + _ONE + ACCESSES[access] + _STORE + _WAIT + "E:", schedule=schedule)


@SCHEDULES
def test_another_warp_reads_what_a_bulk_store_writes(schedule):
    body = (
        _FILL
        + " @!%first bra S;"
        + _STORE
        + "@WAIT@ S: bar.sync 0;"
        + " setp.eq.u32 %p2, %w, 1; @!%p2 bra E; add.u64 %d0, %d0, 128; ld.global.u32 %r5, [%d0];"
        + " st.global.u32 [%d1], %r5; E:"
    )
    _, out = launch(body.replace("@WAIT@", _WAIT), schedule=schedule)
    assert out[0] == 32
    kind = kind_of(body.replace("@WAIT@", _WAIT_READ), schedule=schedule)
    assert kind in ("race", "missing-wait")


# --- reductions by bulk copies

_REDUCE = (
    " cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [%r1], 256;"
    " cp.async.bulk.commit_group;"
)


@SCHEDULES
def test_bulk_reductions_of_ctas_are_atomic(schedule):
    out, _ = launch(_FILL + _ONE + _REDUCE + _WAIT + "E:", grid=5, schedule=schedule)
    np.testing.assert_array_equal(out[:64], 5 * np.arange(64))
    plain = _REDUCE + _WAIT + "ld.global.u32 %r5, [%d0+4]; st.global.u32 [%d1], %r5; E:"
    assert kind_of(_FILL + _ONE + plain, grid=2, schedule=schedule) == "race"
    mixed = " mov.u32 %r6, %ctaid.x; setp.eq.u32 %p2, %r6, 0; @%p2 bra S;"
    mixed += _REDUCE + " bra J; S:" + _STORE + " J:" + _WAIT + "E:"
    assert kind_of(_FILL + _ONE + mixed, grid=2, schedule=schedule) == "race"


@SCHEDULES
def test_tensor_reductions_of_ctas_are_atomic(schedule):
    start = _START.replace("ld.param.u64 %d0, [A];", "mov.b64 %d0, map; cvta.param.u64 %d0, %d0;")
    text = f"""{HEADER}.visible .entry k(.param .align 64 .b8 map[128], .param .u64 B) {{
{start}{_FILL}{_ONE}
 mov.u32 %r5, 0;
 cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%d0, {{%r5}}], [%r1];
 cp.async.bulk.commit_group; {_WAIT} E: ret;\n}}\n"""
    device, out = Device("sm_100a"), np.zeros(64, np.int32)
    arguments = [device.tensor_map(out, box=(64,)), np.zeros(1, np.int32)]
    device.load_ptx(text)["k"].launch(3, 64, arguments, schedule=schedule)
    np.testing.assert_array_equal(out, 3 * np.arange(64))


# --- several readers

_HALVES = """ @%first mbarrier.init.shared.b64 [%r2], 32; st.shared.u32 [%r3], %t; bar.sync 0;
 setp.eq.u32 %p2, %w, 0; setp.eq.u32 %p3, %w, 1; setp.eq.u32 %p4, %w, 2;
 @%p2 bra A; @%p3 bra B; @%p4 bra C; bra E;
A: {a} bra E;
B: {b} bra E;
C: W: mbarrier.try_wait.parity.shared.b64 %p5, [%r2], 0; @!%p5 bra W; {c}
E:"""
_ARRIVE = " mbarrier.arrive.shared.b64 _, [%r2];"


@SCHEDULES
def test_a_write_after_two_readers(schedule):
    read = " ld.shared.u32 %r5, [%r1+16];"
    write = " setp.eq.u32 %p6, %t, 64; @%p6 st.shared.u32 [%r1+16], 77;"
    right = _HALVES.format(a=read + _ARRIVE, b=read + _ARRIVE, c=write)
    launch(right.replace("[%r2], 32", "[%r2], 64"), threads=96, schedule=schedule)
    for a, b in ((read, read + _ARRIVE), (read + _ARRIVE, read)):
        body = _HALVES.format(a=a, b=b, c=write)
        assert kind_of(body, threads=96, schedule=schedule) == "race"


@SCHEDULES
def test_a_read_after_two_writers_of_one_word(schedule):
    def half(at):
        return f" @!%p{2 + at // 2} bra E; cvt.u16.u32 %h, %t; st.shared.u16 [%r1+{16 + at}], %h;"

    read = " ld.shared.u32 %r5, [%r1+16];"
    declared = " .reg .b16 %h;" + _HALVES
    right = declared.format(a=half(0) + _ARRIVE, b=half(2) + _ARRIVE, c=read)
    launch(right.replace("[%r2], 32", "[%r2], 64"), threads=96, schedule=schedule)
    for a, b in ((half(0), half(2) + _ARRIVE), (half(0) + _ARRIVE, half(2))):
        body = declared.format(a=a, b=b, c=read)
        assert kind_of(body, threads=96, schedule=schedule) == "race"


# --- phases

# Thread 0 completes a phase of an mbarrier in each iteration, all threads wait for it.
_PHASES = """ @%first mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; mov.u32 %r5, 0;
LOOP: @%first mbarrier.arrive.shared.b64 _, [%r2]; and.b32 %r6, %r5, 1;
W: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r6; @!%p1 bra W;
 @SYNC@ add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra LOOP;
"""


@pytest.mark.parametrize("schedule", ["late", "eager", *range(12)])
def test_a_phase_may_be_missed(schedule):
    launch(_PHASES.replace("@SYNC@", "bar.sync 0;"), threads=128, schedule=schedule)
    kind = kind_of(_PHASES.replace("@SYNC@", ""), threads=128, schedule=schedule)
    assert kind in ("missed-phase", "deadlock")


def test_a_delayed_warp_misses_phases():
    """Without the check a random schedule shows it as the deadlock that a GPU would run into."""
    body, stuck = _PHASES.replace("@SYNC@", ""), 0
    for schedule in range(24):
        try:
            launch(body, threads=128, schedule=schedule, sanitize=False)
        except EmulatorError as error:
            assert error.kind == "deadlock"
            stuck += 1
    assert stuck >= 4


# --- stores to tensor memory


def test_a_store_to_tensor_memory_is_late():
    """Without tcgen05.wait::st a load gets what was there before, unless the store is eager."""
    body = """ mov.u32 %v1, 5; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%v1}; @WAIT@
 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v2}, [%r3]; tcgen05.wait::ld.sync.aligned;
 tcgen05.wait::st.sync.aligned;
 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3+1], {%v2}; tcgen05.wait::st.sync.aligned;"""
    cells = np.full((128, 512), 9, np.uint32)

    def seen(wait, schedule):
        out, _ = run(build(body.replace("@WAIT@", wait)), cells, schedule=schedule, sanitize=False)
        return out[:, 1]

    for schedule in ("late", "eager", *range(4)):
        assert (seen("tcgen05.wait::st.sync.aligned;", schedule) == 5).all()
    assert (seen("", "late") == 9).all()
    assert (seen("", "eager") == 5).all()
