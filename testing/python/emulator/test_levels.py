"""Findings have levels: those that break a program, and those against the letter of the PTX ISA."""

from __future__ import annotations

import dataclasses
import re
import warnings

import numpy as np
import pytest
from emulator.test_sanitizer import COMMIT, IMAGE, ONE, SETUP, SS
from emulator.tmem_kernels import build, run

from tilelang.emulator import EmulatorError, EmulatorWarning, options
from tilelang.emulator.launch_options import FINDINGS
from tilelang.emulator.levels import LETTERS, causes, level_of
from tilelang.errors import UserError

LOAD = " tcgen05.ld.sync.aligned.32x32b.x4.b32 {%v20, %v21, %v22, %v23}, [%r3];\n"
ADD = " add.u32 %v30, %v20, %v21; add.u32 %v31, %v22, %v23;\n"
WAIT_LD = " tcgen05.wait::ld.sync.aligned;\n"
BEFORE, AFTER = " tcgen05.fence::before_thread_sync;\n", " tcgen05.fence::after_thread_sync;\n"
MEET = " bar.sync 0;\n"
#: The tensor core writes the cells that all warps have loaded.
OVERWRITE = SETUP + ONE + SS + COMMIT


@pytest.fixture(autouse=True)
def _defaults():
    """The tests of this project let letters fail."""
    with options(letters="count"):
        yield


def launch(body: str, **how):
    """Runs a body between filling tensor memory and returning it."""
    cells = np.random.default_rng(3).integers(0, 2**32, (128, 512), dtype=np.uint32)
    image = np.zeros(IMAGE, np.uint8)
    return run(build(body, shared_bytes=IMAGE), cells, image, **how)[1]


def report(body: str, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmulatorWarning)
        return launch(body, sanitize="report", **how)


def kinds(found) -> set[str]:
    return {each.kind for each in found}


@pytest.mark.every_schedule
def test_a_letter_is_counted_in_one_line(capsys) -> None:
    body = LOAD + ADD + WAIT_LD
    with pytest.warns(
        EmulatorWarning, match=r"1 finding of level letter.*ld-before-wait \(8"
    ) as told:
        found = launch(body)
    assert len(told) == 1
    assert not found.findings and kinds(found.letters) == {"ld-before-wait"}
    assert {each.level for each in found.letters} == {"letter"}
    assert sum(each.count for each in found.letters) == 8  # two instructions of four warps
    capsys.readouterr()
    report(body)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_letters_can_fail() -> None:
    with pytest.raises(EmulatorError, match=r"before tcgen05\.wait::ld") as caught:
        launch(LOAD + ADD + WAIT_LD, letters="fail")
    assert caught.value.level == "letter"
    found = report(LOAD + ADD + WAIT_LD, letters="fail")
    assert kinds(found.findings) == {"ld-before-wait"} and not found.letters
    with pytest.raises(UserError, match="letters must be 'count' or 'fail'"):
        launch("", letters="list")


def test_levels_are_of_known_kinds() -> None:
    assert set(LETTERS) <= set(FINDINGS)
    assert level_of("race") == level_of("deadlock") == "breaks"


@pytest.mark.parametrize(
    ("uses", "kind"),
    [
        (WAIT_LD + BEFORE, None),
        (ADD, "ld-before-wait"),
        (" setp.eq.u32 %p5, %v20, 7; mov.b32 %v40, %v21; add.u32 %v30, %v40, 1;"
         " mov.b64 %d20, {%v22, %v23}; add.u64 %d21, %d20, 1;\n", "ld-before-wait"),
        (" mov.u32 %v20, 0; mov.u32 %v21, 0; add.u32 %v30, %v22, %v23;\n", "ld-before-wait"),
        (" add.u32 %v30, %v20, %v21; add.u32 %v31, %v22, 1;\n", "missing-wait"),
        (" mov.b32 %v40, %v20; mov.b32 %v41, %v21; add.u32 %v31, %v22, %v23;\n", "missing-wait"),
        (" mov.b32 %v40, %v20; mov.u32 %v40, 0; add.u32 %v30, %v21, 0;"
         " add.u32 %v31, %v22, %v23;\n", "missing-wait"),
        ("", "missing-wait"),
    ],
)  # fmt: skip
@pytest.mark.every_schedule
def test_a_load_is_over_once_all_its_registers_were_used(uses: str, kind: str | None) -> None:
    """Reading or overwriting a register waits for its load; a move may be none in machine code."""
    found = report(LOAD + uses + MEET + AFTER + OVERWRITE)
    if kind == "missing-wait":
        assert kinds(found.findings) == {kind}
        return
    assert not found.findings
    assert (kind in kinds(found.letters)) == (kind is not None)
    overwritten = [each for each in found.letters if "tcgen05.mma" in each.ptx_text]
    assert kinds(overwritten) == ({kind} if kind else set())


def test_a_load_is_not_over_before_its_registers_were_used() -> None:
    assert kinds(report(LOAD + MEET + ADD + AFTER + OVERWRITE).findings) == {"missing-wait"}
    found = report(LOAD + LOAD.replace("%v2", "%v5") + ADD + MEET + AFTER + OVERWRITE)
    assert kinds(found.findings) == {"missing-wait"}  # of the second load
    found = report(LOAD + LOAD.replace("%v2", "%v5") + ADD.replace("%v2", "%v5") + MEET + OVERWRITE)
    assert kinds(found.findings) == {"missing-wait"}  # of the first


@pytest.mark.every_schedule
def test_the_worst_conflict_of_a_line_is_reported() -> None:
    """Warp 0 alone lacks a fence only: what lanes 0 to 31 lack must not hide the others."""
    waits = " @%p1 bra NOT;" + LOAD + WAIT_LD + " bra BOTH;\nNOT:" + LOAD + "BOTH:\n"
    found = report(waits + MEET + AFTER + OVERWRITE)
    assert kinds(found.findings) == {"missing-wait"}


def test_a_missing_fence_is_a_letter() -> None:
    found = report(LOAD + WAIT_LD + MEET + AFTER + OVERWRITE)
    assert not found.findings and kinds(found.letters) == {"missing-tcgen05-fence"}
    assert all("tcgen05.mma" in each.ptx_text and each.earlier_line for each in found.letters)


@pytest.mark.parametrize("how", [{"sanitize": False}, {"timing": True}, {"sanitize": "report"}])
def test_these_launches_never_stop_at_a_finding(how: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmulatorWarning)
        found = launch(LOAD + ADD + MEET + OVERWRITE, letters="fail", **how)
    assert "ld-before-wait" in kinds(found.findings)


@dataclasses.dataclass
class Found:
    kind: str
    places: list
    count: int = 1


def test_findings_that_share_a_place_are_one_cause() -> None:
    found = [
        Found("race", ["b", "a"]), Found("race", ["c", "a"]), Found("race", ["d", "c"]),
        Found("race", ["x"]), Found("missed-phase", ["b", "a"]),
    ]  # fmt: skip
    assert [[each.places[0] for each in group] for group in causes(found)] == [
        ["b", "c", "d"], ["x"], ["b"]
    ]  # fmt: skip
    assert causes([]) == []


def test_a_store_that_the_exit_leaves_unread_is_a_letter() -> None:
    body = (
        " ld.param.u64 %d22, [DATA]; @%p0 cp.async.bulk.global.shared::cta.bulk_group"
        " [%d22], [%r5], 16;\n @%p0 cp.async.bulk.commit_group;\n"
    )
    found = report(" st.shared.b32 [%r5], 0; fence.proxy.async;" + MEET + body)
    assert not found.findings and kinds(found.letters) == {"store-at-exit"}
    (one,) = found.letters
    assert re.search("may still read its shared memory", one.reason)
