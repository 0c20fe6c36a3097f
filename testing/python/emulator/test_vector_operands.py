"""Which operands stand in braces: what ptxas says of each instruction is what loading it says."""

import pytest
from ptx_kernels import HEADER, accepted_by_ptxas

from tilelang.emulator import Device, EmulatorError
from tilelang.runtime.toolchain import ToolNotFoundError

_DECLARATIONS = (
    ".reg .b32 %r<9>; .reg .b64 %d<3>; .reg .b16 %h<3>; .reg .f32 %f<4>; .reg .f64 %g<4>;"
    " .shared .align 128 .b8 sm[512]; .shared .b64 bar; mov.u64 %d1, map;"
)
_MMA = (
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
    "{{%f0, %f1, %f2, %f3}}, {{%r1, %r2}}, {}, {{%f0, %f1, %f2, %f3}};"
)
_TMA = (
    "cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes "
    "[sm], {}, [bar]{};"
)
#: Instructions, and whether they are legal.
_CASES = {
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [sm];": True,
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r1, [sm];": False,
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [sm], {%r1};": True,
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [sm], %r1;": False,
    _MMA.format("{%r3}"): True,
    _MMA.format("%r3"): False,
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g0, %g1}, {%g2}, {%g3}, {%g0, %g1};": True,
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g0, %g1}, %g2, {%g3}, {%g0, %g1};": False,
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];": True,
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r1, [%r2];": False,
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1};": True,
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], %r1;": False,
    _TMA.format(1, "tile", "[%d1, {%r1}]", ""): True,
    _TMA.format(1, "tile", "[%d1, %r1]", ""): False,
    _TMA.format(2, "tile", "[%d1, {%r1, %r2}]", ""): True,
    _TMA.format(2, "tile", "[%d1, {%r1}]", ""): False,
    _TMA.format(2, "tile", "[%d1]", ""): False,
    _TMA.format(3, "im2col", "[%d1, {%r1, %r2, %r3}]", ", {%h1}"): True,
    _TMA.format(3, "im2col", "[%d1, {%r1, %r2, %r3}]", ", %h1"): False,
    "ld.global.u32 {%r1}, [%d1];": True,
    "mov.b32 {%r1}, %r2;": True,
    "atom.global.add.u32 %r1, [%d1], {%r2};": False,
    "add.u32 {%r1}, %r1, %r2;": False,
}  # fmt: skip


_HEAD = f"{HEADER}.visible .entry k(.param .align 64 .b8 map[128]) {{\n{_DECLARATIONS}\n"


@pytest.mark.parametrize("instruction", _CASES)
def test_braces(instruction):
    text = f"{_HEAD}{instruction}\nret; }}"
    if _CASES[instruction]:
        Device("sm_100a").load_ptx(text)
        return
    with pytest.raises(EmulatorError) as caught:
        Device("sm_100a").load_ptx(text)
    assert caught.value.kind == "illegal-operand"
    assert instruction in caught.value.ptx_text


def test_the_cases_are_those_of_ptxas(tmp_path):
    try:
        accepted = accepted_by_ptxas(_HEAD, list(_CASES), "sm_100a", tmp_path)
    except ToolNotFoundError:
        pytest.skip("no ptxas")
    assert dict(zip(_CASES, accepted, strict=True)) == _CASES
