"""Loads, stores and atomics that ptxas refuses are refused here too, by name and line."""

import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError


def load(instruction):
    Device("sm_100a").load_ptx(
        f"{HEADER}.visible .entry k() {{ .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .b16 %h<4>;"
        f" .reg .f32 %f<4>; .shared .b32 sm; .local .b32 lo;\n{instruction}\n ret;\n}}"
    )


@pytest.mark.parametrize(
    "instruction",
    [
        "st.acquire.gpu.global.u32 [%d1], %r1;",
        "ld.release.gpu.global.u32 %r1, [%d1];",
        "ld.acquire.global.u32 %r1, [%d1];",
        "st.relaxed.global.u32 [%d1], %r1;",
        "ld.gpu.global.u32 %r1, [%d1];",
        "ld.volatile.gpu.global.u32 %r1, [%d1];",
        "st.global.nc.u32 [%d1], %r1;",
        "red.acquire.gpu.global.add.u32 [%d1], %r1;",
        "red.acq_rel.gpu.global.add.u32 [%d1], %r1;",
        "atom.global.and.u32 %r1, [%d1], %r2;",
        "atom.global.exch.f32 %f1, [%d1], %f2;",
        "atom.shared.cas.u32 %r1, [sm], %r2, %r3;",
        "atom.global.add.f16 %h1, [%d1], %h2;",
        "atom.global.add.noftz.f32 %f1, [%d1], %f2;",
        "red.local.add.u32 [lo], %r1;",
    ],
)
def test_refused(instruction):
    with pytest.raises(EmulatorError) as caught:
        load(instruction)
    assert caught.value.kind == "illegal-operand"
    assert caught.value.ptx_line == 5
    assert instruction in caught.value.ptx_text


@pytest.mark.parametrize(
    "instruction",
    [
        "st.release.gpu.global.u32 [%d1], %r1;",
        "ld.acquire.cluster.u32 %r1, [%d1];",
        "ld.mmio.relaxed.sys.global.u32 %r1, [%d1];",
        "st.volatile.shared.u32 [sm], %r1;",
        "ld.weak.global.u32 %r1, [%d1];",
        "ld.global.nc.u32 %r1, [%d1];",
        "red.release.gpu.global.add.u32 [%d1], %r1;",
        "atom.acq_rel.gpu.global.exch.b32 %r1, [%d1], %r2;",
        "atom.global.cas.b16 %h1, [%d1], %h2, %h3;",
        "atom.global.add.noftz.f16 %h1, [%d1], %h2;",
        "atom.global.add.f32 %f1, [%d1], %f2;",
    ],
)
def test_accepted(instruction):
    load(instruction)
