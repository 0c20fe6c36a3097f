"""Which forms of tcgen05.mma are decoded, and how the others are refused."""

import itertools

import pytest

from tilelang.emulator import Device, EmulatorError

KINDS = ("f16", "tf32", "f8f6f4", "i8")
HEADER = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k() {
 .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<9>;
 setp.ne.u32 %p1, %r0, %r0;
"""


def legal_forms(group):
    """Every dense form of one CTA, or of two."""
    masks = ", ".join(f"%r{i}" for i in range(4, 4 + 4 * group))
    for kind, ws, in_tmem in itertools.product(KINDS, (False, True)[: 3 - group], (False, True)):
        name = f"tcgen05.mma{'.ws' if ws else ''}.cta_group::{group}.kind::{kind}"
        operands = f"[%r1], {'[%r2]' if in_tmem else '%d1'}, %d2, %r3, "
        buffers = ("b0", "b1", "b2", "b3") if ws else ("a",)
        uses = [f".collector::{b}::{u}" for b in buffers
                for u in ("fill", "use", "lastuse", "discard")]  # fmt: skip
        uses += [""]
        if in_tmem and not ws:
            uses += [".ashift", ".ashift.collector::a::lastuse", ".ashift.collector::a::discard"]
        tails = ["%p1"]
        if ws:
            tails += ["%p1, %d3", "%p1, 0"]
        else:
            tails += [f"{{{masks}}}, %p1", "!%p1"]
            if kind in ("f16", "tf32"):
                tails += ["%p1, 0", "%p1, 15", f"{{{masks}}}, %p1, 3"]
        yield from (f"{name}{use} {operands}{tail};" for use in uses for tail in tails)


@pytest.mark.parametrize("group", [1, 2])
def test_every_form_is_decoded(group):
    forms = list(legal_forms(group))
    assert len(forms) > (200, 100)[group - 1]
    body = "".join(f" @%p1 {form}\n" for form in forms)
    kernel = Device("sm_100a").load_ptx(HEADER + body + " ret;\n}")["k"]
    kernel.launch(1, 32, [], sanitize=False)  # registers that it does not initialise


MMA = "tcgen05.mma.cta_group::1.kind::f16"
WS = "tcgen05.mma.ws.cta_group::1.kind::i8"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcgen05.mma.cta_group::3.kind::f16 [%r1], %d1, %d2, %r3, %p1", "cta_group::2"),
        ("tcgen05.mma.ws.cta_group::2.kind::f16 [%r1], %d1, %d2, %r3, %p1", "needs .cta_group::1"),
        (
            "tcgen05.mma.cta_group::2.kind::f16 [%r1], %d1, %d2, %r3, {%r4, %r5, %r6, %r7}, %p1",
            "eight",
        ),
        (
            f"{MMA} [%r1], %d1, %d2, %r3, {{%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}}, %p1",
            "eight",
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::1X [%r1], %d1, %d2, "
            "%r3, [%r4], [%r5], %p1",
            "kind::mxf4nvf4 has no .scale_vec::1X",
        ),
        (f"{MMA}.ashift [%r1], %d1, %d2, %r3, %p1", "A in tensor memory"),
        (f"{MMA}.ashift.collector::a::fill [%r1], [%r2], %d2, %r3, %p1", "ashift"),
        (f"{MMA}.collector::b0::fill [%r1], %d1, %d2, %r3, %p1", "collector"),
        (f"{MMA}.collector::a::keep [%r1], %d1, %d2, %r3, %p1", "::keep"),
        (f"{WS}.collector::a::use [%r1], %d1, %d2, %r3, %p1", "::b0"),
        (f"{WS}.collector::b4::use [%r1], %d1, %d2, %r3, %p1", "::b0"),
        (f"{WS}.ashift [%r1], [%r2], %d2, %r3, %p1", "ashift"),
        (f"{WS} [%r1], %d1, %d2, %r3, {{%r4, %r5, %r6, %r7}}, %p1", "disable-output-lane"),
        (f"{MMA} [%r1], %d1, %d2, %r3, {{%r4, %r5}}, %p1", "four words"),
        (f"{MMA} [%r1], %d1, %d2, %r3, %p1, 16", "0..15"),
        ("tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r3, %p1, 1", "scale-input-d"),
        ("tcgen05.mma.cta_group::1.kind::f64 [%r1], %d1, %d2, %r3, %p1", "needs a kind"),
        (f"{MMA}.relu [%r1], %d1, %d2, %r3, %p1", "relu"),
    ],
)
def test_other_forms_are_refused_by_name(text, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        Device("sm_100a").load_ptx(f"{HEADER} {text};\n ret;\n}}")["k"].launch(1, 32, [])
    assert caught.value.ptx_line == 7
