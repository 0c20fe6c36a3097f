"""Several findings in one launch, and findings that are not wanted."""

import re
import warnings

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang import emulator
from tilelang.emulator import Device, EmulatorError, EmulatorWarning
from tilelang.emulator.levels import causes
from tilelang.errors import UserError

# Two races and a missing proxy fence.
TEXT = (
    HEADER
    + """.visible .entry k(.param .u64 A) {
 .shared .align 16 .b8 s[512]; .reg .b32 %r<9>; .reg .pred p;
 .file 1 "/home/user/kernel.cu"
 .reg .b64 d; ld.param.u64 d, [A]; mov.u32 %r1, %tid.x; xor.b32 %r2, %r1, 32; mov.u32 %r3, s;
 shl.b32 %r1, %r1, 2; shl.b32 %r2, %r2, 2; add.u32 %r1, %r1, %r3; add.u32 %r2, %r2, %r3;
 st.shared.u32 [%r1], 0; st.shared.u32 [%r1+256], 0; bar.sync 0;
 .loc 1 10 0
 st.shared.u32 [%r1], %r2; st.shared.u32 [%r1+256], %r2;
 .loc 1 20 0
 ld.shared.u32 %r4, [%r2];
 .loc 1 30 0
 ld.shared.u32 %r5, [%r2+256];
 bar.sync 0; add.u32 %r4, %r4, %r5; mov.u32 %r6, %tid.x; setp.ne.u32 p, %r6, 0;
 @p ret;
 .loc 1 40 0
 cp.async.bulk.global.shared::cta.bulk_group [d], [s], 256;
 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
}
"""
)
LINES = TEXT.split("\n")


def line_of(part):
    return next(i + 1 for i, line in enumerate(LINES) if part in line)


WRITES, FIRST, SECOND = map(line_of, ("[%r1], %r2", "%r4, [%r2]", "%r5, [%r2+256]"))
STORE = line_of("cp.async.bulk.global")


def launch(**options):
    out = np.zeros(128, np.uint32)
    report = Device().load_ptx(TEXT)["k"].launch(1, 64, [out], **options)
    return out, report


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
def test_all_are_collected(schedule, capsys):
    out, report = launch(sanitize="report", schedule=schedule)
    found = {(finding.kind, finding.ptx_line) for finding in report.findings}
    assert ("missing-proxy-fence", STORE) in found
    races = {line for kind, line in found if kind == "race"}
    assert races <= {WRITES, FIRST, SECOND}
    assert len(found) == len(report.findings) == 1 + len(races)
    assert races & {FIRST, SECOND} or WRITES in races
    assert out[1] != 0  # the launch went on
    text = capsys.readouterr().err
    groups = causes(report.findings)
    assert f"k: {len(groups)} findings" in text and len(text.splitlines()) == 1 + len(groups)
    for first, *others in groups:
        more = f" and {len(others)} more" if others else ""
        assert re.search(rf"{first.kind}, PTX line {first.ptx_line}{more} \(", text)
    assert len([group for group in groups if group[0].kind == "race"]) == 1  # they share lines


def test_both_places_are_told():
    _, report = launch(sanitize="report")
    (fence,) = (finding for finding in report.findings if finding.kind == "missing-proxy-fence")
    assert isinstance(fence, EmulatorError)
    assert (fence.ptx_line, fence.span.line) == (STORE, 40)
    assert (fence.earlier_line, fence.earlier_span.line) == (WRITES, 10)
    assert fence.count >= 1
    for race in report.findings:
        assert {race.ptx_line, race.earlier_line} <= {WRITES, FIRST, SECOND, STORE}


def test_by_default_the_first_is_an_error():
    with pytest.raises(EmulatorError):
        launch()
    _, report = launch(sanitize=False)
    assert report.findings == []


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize(
    "places",
    [
        {"race": WRITES, "missing-proxy-fence": STORE},
        {"race": "kernel.cu:10", "missing-proxy-fence": "user/kernel.cu:40"},
        {"race": f"k.ptx:{WRITES}", "missing-proxy-fence": f"other.ptx:{WRITES}"},
        {"race": "k", "missing-proxy-fence": "k"},
    ],
)
def test_suppressed(places, schedule):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(suppress=places.items(), schedule=schedule)
        with emulator.options(suppress=list(places.items()), schedule=schedule):
            launch()


@pytest.mark.parametrize(
    "place",
    [("race", "kernel.cu:11"), ("race", "l.cu:10"), ("race", "other"), ("missed-phase", "k")],
)
def test_something_else_is_suppressed(place):
    with pytest.raises(EmulatorError) as caught:
        launch(suppress=[place, ("missing-proxy-fence", "k")])
    assert caught.value.kind == "race"


def test_unused_suppressions_are_remarked():
    everything = [("race", "k"), ("missing-proxy-fence", "k")]
    unused = ("missing-wait", "kernel.cu:7")
    with pytest.warns(EmulatorWarning, match=r"'missing-wait' was found at 'kernel.cu:7'"):
        launch(suppress=[*everything, unused])
    with (
        pytest.warns(EmulatorWarning, match=r"'missing-wait' was found") as caught,
        emulator.options(suppress=[*everything, unused]),
    ):
        launch()
        launch()
    assert len(caught) == 1


def test_findings_before_an_error():
    text = TEXT.replace("cp.async.bulk.wait_group 0; ret;", "trap;")
    with pytest.raises(EmulatorError) as caught:
        Device().load_ptx(text)["k"].launch(1, 64, [np.zeros(128, np.uint32)], sanitize="report")
    assert caught.value.kind == "trap"
    assert "missing-proxy-fence" in {finding.kind for finding in caught.value.findings}


@pytest.mark.parametrize(
    "suppress",
    [[("races", "k")], [("race", "kernel.cu:")], [("race", "")], [("race", 0)], ["race"], "race",
     5, [("race", "kernel.cu:99999999999")], [("deadlock", "k")]],
)  # fmt: skip
def test_wrong_suppressions(suppress):
    with pytest.raises(UserError, match="suppress"):
        launch(suppress=suppress)


def test_wrong_modes():
    with pytest.raises(UserError, match="sanitize must be"):
        launch(sanitize="all")
