"""Values of tcgen05.ld that are used before tcgen05.wait::ld are reported unless told otherwise."""

import numpy as np
import pytest
from emulator.tmem_kernels import build, run

from tilelang.emulator import EmulatorError

LOAD = " tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v20, %v21}, [%r3];\n"
WAIT = " tcgen05.wait::ld.sync.aligned;\n"
USES = {
    "arithmetic": " add.u32 %v30, %v21, 1;\n",
    "store": " ld.param.u64 %d20, [OUT]; st.global.b32 [%d20], %v20;\n",
    "after a move": " mov.b32 %v25, %v20; mov.b64 %d21, {%v25, %v1}; add.u64 %d22, %d21, 1;\n",
    "as an address": " st.shared.b32 [%v20], %v1;\n",
}


def launch(body, **options):
    text = build(body)
    return text, lambda: run(text, np.full((128, 512), 1024, np.uint32), **options)


@pytest.mark.parametrize("use", USES)
def test_use_before_the_wait(use):
    text, go = launch(LOAD + USES[use] + WAIT)
    with pytest.raises(EmulatorError, match=r"before tcgen05\.wait::ld") as caught:
        go()
    error = caught.value
    assert error.kind == "ld-before-wait"
    lines = text.split("\n")
    load = next(i + 1 for i, line in enumerate(lines) if "%v20, %v21" in line)
    assert f"PTX line {load} " in error.reason
    assert lines[error.ptx_line - 1].strip() == USES[use].strip()


@pytest.mark.parametrize("use", USES)
def test_use_after_the_wait(use):
    _, go = launch(
        LOAD + WAIT + USES[use].replace("st.shared", "@!%p0 bra S; st.shared") + "S:\n",
        sanitize=False,
    )
    go()


def test_overwritten_registers_are_fine():
    _, go = launch(LOAD + " mov.u32 %v20, 5; add.u32 %v30, %v20, 1;\n" + WAIT)
    go()


def test_moves_alone_are_fine():
    _, go = launch(LOAD + " mov.b32 %v25, %v20;\n" + WAIT + " add.u32 %v30, %v25, 1;\n")
    go()


@pytest.mark.parametrize("off", [{"lint": []}, {"suppress": [("ld-before-wait", "k")]}])
def test_switched_off(off):
    _, go = launch(LOAD + USES["arithmetic"] + WAIT, **off)
    go()


UPPER = " setp.ge.u32 %p4, %r0, 112;\n"  # half of the last warp


def test_a_lane_uses_it_while_others_are_at_the_wait():
    text, go = launch(
        UPPER + LOAD + " @%p4 bra READ;\nBACK:" + WAIT + " bra OVER;\n"
        "READ: add.u32 %v30, %v20, 1;\n bra BACK;\nOVER:\n"
    )
    with pytest.raises(EmulatorError) as caught:
        go()
    assert caught.value.kind == "ld-before-wait"
    assert "add.u32 %v30" in text.split("\n")[caught.value.ptx_line - 1]


def test_a_lane_uses_it_while_others_are_at_the_next_load():
    _, go = launch(
        UPPER + " mov.u32 %v35, 0;\nLOOP:" + LOAD + WAIT + " @%p4 bra READ;\n"
        "BACK: add.u32 %v35, %v35, 1; setp.lt.u32 %p5, %v35, 3;\n @%p5 bra LOOP;\n bra OVER;\n"
        "READ: add.u32 %v30, %v20, 1;\n bra BACK;\nOVER:\n"
    )
    go()


def test_lanes_that_overwrite_it_do_not_hide_others():
    _, go = launch(UPPER + LOAD + " @%p4 mov.u32 %v20, 5;\n add.u32 %v30, %v20, 1;\n" + WAIT)
    with pytest.raises(EmulatorError, match=r"before tcgen05\.wait::ld"):
        go()
    _, go = launch(UPPER + LOAD + " @%p4 mov.u32 %v20, 5;\n @%p4 add.u32 %v30, %v20, 1;\n" + WAIT)
    go()


def test_the_address_of_another_load_is_a_use():
    _, go = launch(LOAD + " tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v22}, [%v20];\n" + WAIT)
    with pytest.raises(EmulatorError, match=r"before tcgen05\.wait::ld"):
        go()
