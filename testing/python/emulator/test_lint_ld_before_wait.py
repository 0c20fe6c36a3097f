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
