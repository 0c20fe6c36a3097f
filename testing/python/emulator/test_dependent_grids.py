"""griddepcontrol: grids that may overlap, and what is a race between them."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError, EmulatorWarning, Stream

WAIT = "griddepcontrol.wait;"
RELEASE = "griddepcontrol.launch_dependents;"
LOAD = " ld.global.u32 %r2, [%d2];"
STORE = " st.global.u32 [%d3], %r2;"
N = 256

_KERNEL = """
.visible .entry {name}(.param .u64 IN, .param .u64 OUT) {{
 .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
 .shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar;
 ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 64, %r0;
 mul.wide.u32 %d4, %r1, 4; add.u64 %d2, %d0, %d4; add.u64 %d3, %d1, %d4;
 setp.eq.u32 %p0, %r0, 0; mov.u32 %r2, 7;
{body}
 ret;
}}"""


def kernel(device, name, body):
    return device.load_ptx(HEADER + _KERNEL.format(name=name, body=body))[name]


def run(first, second, arrays=None, **options):
    """``first`` from x to y, then ``second`` from y to z; returns z."""
    device = Device("sm_100a")
    x, y, z = np.arange(N, dtype=np.uint32), np.zeros(N, np.uint32), np.full(N, 99, np.uint32)
    kernel(device, "first", first).launch(4, 64, [x, y], **options)
    later = kernel(device, "second", second)
    arrays = [y, z] if arrays is None else [(x, y, z)[i] for i in arrays]
    report = later.launch(4, 64, arrays, programmatic=True, **options)
    return z, report


FIRST = RELEASE + LOAD + " add.u32 %r2, %r2, 1;" + STORE


@pytest.mark.every_schedule
@pytest.mark.parametrize("threads", [1, 3])
def test_wait_orders_the_grids(threads):
    z, report = run(FIRST, WAIT + LOAD + STORE, threads=threads)
    np.testing.assert_array_equal(z, np.arange(N) + 1)
    assert not report.findings


def race(first, second, arrays=None, **options):
    with pytest.raises(EmulatorError) as caught:
        run(first, second, arrays, **options)
    assert caught.value.kind == "race"
    return str(caught.value)


def test_reads_before_the_wait():
    text = race(FIRST, LOAD + WAIT + STORE)
    assert "read of global memory" in text and "before griddepcontrol.wait" in text
    assert "the grid of first before this one writes it at PTX line" in text


def test_without_a_wait():
    assert "read of global memory" in race(FIRST, LOAD + STORE, threads=1)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_dependent_must_wait(threads):
    """Also where it touches nothing of the first grid: the grid after it would not know."""
    _, report = run(FIRST, " mov.u32 %r2, 5;" + STORE, sanitize="report", threads=threads)
    (finding,) = report.findings
    assert finding.kind == "missing-wait" and finding.kernel == "second"
    assert "the grid of first before this one may still run" in finding.reason
    with pytest.raises(EmulatorError, match=r"griddepcontrol\.wait"):
        run(FIRST, " mov.u32 %r2, 5;" + STORE)


def test_both_lines_are_named():
    device = Device("sm_100a")
    x, y, z = (np.zeros(N, np.uint32) for _ in range(3))
    store = ".loc 1 41 0\n" + STORE
    module = HEADER + '.file 1 "first.py"\n' + _KERNEL.format(name="first", body=RELEASE + store)
    device.load_ptx(module)["first"].launch(4, 64, [x, y])
    later = kernel(device, "second", "\n" + LOAD + WAIT + STORE)
    with pytest.raises(EmulatorError, match=r"first\.py:41") as caught:
        later.launch(4, 64, [y, z], programmatic=True)
    line = next(i for i, text in enumerate(module.splitlines(), 1) if "[%d3]" in text)
    assert caught.value.earlier_line == line
    assert caught.value.earlier_span.line == 41
    assert "ld.global" in caught.value.ptx_text


def test_writes_before_the_wait():
    """Of what the first grid reads, and of what it writes."""
    assert "before this one reads it" in race(FIRST, STORE + WAIT, arrays=[1, 0])
    assert "before this one writes it" in race(FIRST, STORE + WAIT, arrays=[0, 1])


def test_what_the_first_grid_does_not_touch():
    z, _ = run(FIRST, " mov.u32 %r2, 5;" + STORE + WAIT)
    assert (z == 5).all()


def test_reads_of_what_both_only_read():
    z, _ = run(FIRST, LOAD + STORE + WAIT, arrays=[0, 2])
    np.testing.assert_array_equal(z, np.arange(N))


def test_atomics_of_both():
    add = " red.global.add.u32 [%d3], 1;"
    run(RELEASE + add, add + WAIT, arrays=[0, 1])
    text = race(RELEASE + add, " ld.global.u32 %r2, [%d3];" + WAIT, arrays=[0, 1])
    assert "read of global memory" in text


@pytest.mark.every_schedule
def test_one_thread_waits_for_its_block():
    guarded = f" @!%p0 bra MEET; {WAIT} MEET: "
    z, _ = run(FIRST, guarded + "bar.sync 0;" + LOAD + STORE)
    np.testing.assert_array_equal(z, np.arange(N) + 1)
    assert "read of global memory" in race(FIRST, guarded + LOAD + STORE)


FENCE = " fence.acq_rel.gpu;"
EARLY = LOAD + " add.u32 %r2, %r2, 1;" + STORE


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "release",
    ["bar.sync 0;" + FENCE + RELEASE, "bar.sync 0; @!%p0 bra DONE;" + FENCE + RELEASE + "DONE:"],
)
def test_what_is_released_before_the_dependents(release):
    """Stores before a fence and launch_dependents are there when the dependents begin."""
    z, report = run(EARLY + release, LOAD + STORE + WAIT)
    np.testing.assert_array_equal(z, np.arange(N) + 1)
    assert not report.findings


@pytest.mark.parametrize(
    "first",
    [
        EARLY + RELEASE,  # no fence
        EARLY + FENCE + RELEASE,  # the first warp of a CTA does not know of the second
        EARLY + " fence.acq_rel.cta;" + RELEASE,
        EARLY + RELEASE + FENCE,
        FENCE + RELEASE + EARLY + FENCE + RELEASE,  # the dependents may begin at the first
        FENCE + RELEASE + EARLY,
        "@!%p0 bra DONE;" + FENCE + RELEASE + "DONE:" + EARLY,
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_not_released_before_the_dependents(first, threads):
    assert "read of global memory" in race(first, LOAD + STORE + WAIT, threads=threads)


def values(first, second, schedule):
    """What the second grid computes, whatever is found."""
    return run(first, second, sanitize="report", schedule=schedule)


def test_the_first_grid_stores_late():
    """Reads before the wait get what was there before; by other schedules some or none."""
    early = LOAD + WAIT + STORE
    assert (values(FIRST, early, "late")[0] == 0).all()
    np.testing.assert_array_equal(values(FIRST, early, "eager")[0], np.arange(N) + 1)
    seen = set()
    for seed in range(24):
        z, _ = values(FIRST, early, seed)
        assert np.isin(z, [0, *range(1, N + 1)]).all()
        seen.add(int((z == 0).sum()))
    assert len(seen) > 2


def test_the_first_grid_stores_over_the_second():
    """What is written before the wait is lost; y is what the first grid writes."""
    device = Device("sm_100a")
    for schedule, kept in [("late", False), ("eager", True)]:
        x, y = np.arange(N, dtype=np.uint32), np.zeros(N, np.uint32)
        options = {"schedule": schedule, "sanitize": "report"}
        kernel(device, "first", FIRST).launch(4, 64, [x, y], **options)
        later = kernel(device, "second", " mov.u32 %r2, 5;" + STORE + WAIT)
        later.launch(4, 64, [x, y], programmatic=True, **options)
        np.testing.assert_array_equal(y, np.full(N, 5) if kept else np.arange(N) + 1)


@pytest.mark.every_schedule
def test_atomics_before_the_wait_are_kept():
    add = " red.global.add.u32 [%d3], 1;"
    device = Device("sm_100a")
    x, y = np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    kernel(device, "first", RELEASE + add).launch(4, 64, [x, y])
    kernel(device, "second", add + WAIT).launch(4, 64, [x, y], programmatic=True)
    assert (y == 2).all()


def test_memory_is_as_left_after_an_error():
    device = Device("sm_100a")
    x, y, z = np.arange(N, dtype=np.uint32), np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    kernel(device, "first", FIRST).launch(4, 64, [x, y])
    with pytest.raises(EmulatorError, match="read of global memory"):
        kernel(device, "second", LOAD + WAIT).launch(4, 64, [y, z], programmatic=True)
    np.testing.assert_array_equal(y, np.arange(N) + 1)


def test_the_host_changes_what_the_first_grid_left():
    """On the GPU that is work between the two."""
    device = Device("sm_100a")
    x, y, z = np.arange(N, dtype=np.uint32), np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    kernel(device, "first", FIRST).launch(4, 64, [x, y])
    y *= 2
    later = kernel(device, "second", LOAD + WAIT + STORE)
    report = later.launch(4, 64, [y, z], programmatic=True)
    np.testing.assert_array_equal(z, 2 * np.arange(N) + 2)
    assert not report.findings


def test_streams_of_two_devices():
    """Kernels of one stream follow each other; others do not."""
    one, other, stream = Device("sm_100a"), Device("sm_100a"), Stream()
    x, y, z = (np.zeros(N, np.uint32) for _ in range(3))
    later = kernel(other, "second", LOAD + WAIT + STORE)
    kernel(one, "first", FIRST).launch(4, 64, [x, y], stream=stream)
    assert stream.may_overlap and not one.stream.may_overlap
    with pytest.raises(EmulatorError, match="read of global memory"):
        later.launch(4, 64, [y, z], stream=stream, programmatic=True)
    kernel(one, "first", FIRST).launch(4, 64, [x, y], stream=stream)
    with pytest.warns(EmulatorWarning, match="no effect"):
        later.launch(4, 64, [y, z], programmatic=True)


COPY = """
 mov.u32 %r3, tile; mov.u32 %r4, bar;
 @!%p0 bra LANDED;
 mbarrier.init.shared::cta.b64 [%r4], 1; fence.mbarrier_init.release.cluster; {before}
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%d2], 256, [%r4];
LANDED: bar.sync 0;
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], 0; @!%p1 bra AGAIN;
 {after} mad.lo.u32 %r5, %r0, 4, %r3; ld.shared.u32 %r2, [%r5];
"""


@pytest.mark.every_schedule
def test_asynchronous_copies():
    z, _ = run(FIRST, COPY.format(before=WAIT, after="") + STORE)
    np.testing.assert_array_equal(z, np.arange(N) + 1)
    assert "read of global memory" in race(FIRST, COPY.format(before="", after=WAIT) + STORE)


def test_findings_are_collected():
    _, report = run(FIRST, LOAD + WAIT + STORE, sanitize="report")
    assert [finding.kind for finding in report.findings] == ["race"]


@pytest.mark.parametrize(
    ("first", "options"), [(LOAD + STORE, {}), (FIRST, {"sanitize": False})]
)  # fmt: skip
def test_grids_that_cannot_overlap(first, options):
    """The first one does not release dependents; or nobody looks."""
    with pytest.warns(EmulatorWarning, match="programmatic=True has no effect on second"):
        run(first, LOAD + STORE, **options)


def test_only_the_launch_just_before_counts():
    device = Device("sm_100a")
    x, y, z = (np.zeros(N, np.uint32) for _ in range(3))
    kernel(device, "first", FIRST).launch(4, 64, [x, y])
    kernel(device, "other", WAIT + LOAD + STORE).launch(4, 64, [y, z])
    with pytest.warns(EmulatorWarning, match="no effect"):
        kernel(device, "second", LOAD + STORE).launch(4, 64, [y, x], programmatic=True)


def test_griddepcontrol_of_nothing():
    with pytest.raises(EmulatorError, match=r"griddepcontrol needs \.launch_dependents or \.wait"):
        run("griddepcontrol;", WAIT)
