"""The table of instructions, and what a PTX text uses of it."""

from __future__ import annotations

from tilelang.emulator.instructions import fidelities, instructions, page

PTX = """
.visible .entry k(.param .u64 A) {
 .reg .b32 %r<4>; .reg .f32 %f<3>; .reg .pred %p;
 // a comment with ex2.approx.f32
 ld.param.u64 %rd1, [A]; add.u32 %r1, %r2, 1;
L: @%p ex2.approx.ftz.f32 %f1, %f2;
 div.rn.f32 %f1, %f1, %f2; /* rsqrt.approx.f32 */
 @!%p bra L;
 cp.async.bulk.prefetch.L2.global [%rd1], 16;
 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1], [%r1];
 tcgen05.wait::ld.sync.aligned; tex.2d.v4.f32.f32 {%f1}, [t, {%f1}];
 ret;
}
"""


def test_families_of_a_text() -> None:
    assert fidelities(PTX) == {
        "exact": ["add", "bra", "cp.async.bulk.tensor", "div", "ld", "ret", "tcgen05.wait::ld"],
        "approximate": ["ex2"], "no effect": ["cp.async.bulk.prefetch"],
        "not modelled": ["tex.2d.v4.f32.f32"],
    }  # fmt: skip
    assert fidelities("div.full.f32 %f1, %f1, %f2;")["approximate"] == ["div"]


def test_every_difference_has_its_reason() -> None:
    for each in instructions().values():
        assert (each.fidelity == "exact") == (not each.why) and each.targets
    assert instructions()["tcgen05.mma"].fidelity == "approximate"
    assert "| `ex2` | float |" in page() and "tilelang.index" not in page()
