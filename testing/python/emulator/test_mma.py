"""mma.sync: fragments, arithmetic and refusals against the formulas of the PTX ISA and ptxas."""

import itertools
import re

import mma_kernels as kernels
import numpy as np
import pytest
from mma_kernels import Form
from ptx_kernels import accepted_by_ptxas, run_warp

from tilelang.emulator import Device, EmulatorError

FLOATS = [
    *(Form(f"m16n8k{k}", d, "f16", "f16", d) for k in (8, 16) for d in ("f16", "f32")),
    *(Form(f"m16n8k{k}", "f32", "bf16", "bf16", "f32") for k in (8, 16)),
    *(Form(f"m16n8k{k}", "f32", "tf32", "tf32", "f32") for k in (4, 8)),
]
FP8 = [
    Form(f"m16n8k{k}", d, a, b, d)
    for k in (16, 32)
    for d in ("f16", "f32")
    for a, b in itertools.product(("e4m3", "e5m2"), repeat=2)
]
DOUBLE = [Form(s, "f64", "f64", "f64", "f64") for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")]
INTEGERS = [
    Form(shape, "s32", a, b, "s32", saturate=saturate)
    for shapes, types in [
        (("m8n8k16", "m16n8k16", "m16n8k32"), ("s8", "u8")),
        (("m8n8k32", "m16n8k32", "m16n8k64"), ("s4", "u4")),
    ]
    for shape in shapes
    for a, b in itertools.product(types, repeat=2)
    for saturate in (False, True)
]
BINARY = [
    Form(shape, "s32", "b1", "b1", "s32", operation=operation)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256")
    for operation in ("xor", "and")
]
QUADS = [
    Form("m8n8k4", d, "f16", "f16", c, a_layout, b_layout)
    for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))
    for a_layout, b_layout in itertools.product(("row", "col"), repeat=2)
]
FORMS = QUADS + FLOATS + FP8 + DOUBLE + INTEGERS + BINARY


def name_of(form):
    return form.opcode.removeprefix("mma.sync.aligned.").replace(".row.col", "")


def run(form, data, target="sm_90a", body=None, **options):
    return run_warp(kernels.kernel(form, target, body), data.arrays, target, **options)


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_exact_sums(form):
    """Of small integers: what every arithmetic gives."""
    data = kernels.make_data(form, "small", 0)
    np.testing.assert_array_equal(run(form, data), kernels.expected(form, data))
    if not form.operation:
        sums = kernels.values_of(form.a, data.a) @ kernels.values_of(form.b, data.b).T
        sums = (kernels.own_columns(sums) if form.quads else sums) + data.c
        exact = kernels.words(form, "d", sums.astype(kernels.DTYPES[form.d]))
        np.testing.assert_array_equal(run(form, data), exact)


@pytest.mark.parametrize("data", ["normal", "wide", "subnormal", "cancel", "bits"])
@pytest.mark.parametrize("form", QUADS + FLOATS + FP8 + DOUBLE, ids=name_of)
def test_arithmetic(form, data):
    operands = kernels.make_data(form, data, 1)
    # sm_100a does as sm_90a.
    for target, sm in (("sm_80", 80), ("sm_90a", 90), ("sm_100a", 100))[
        : 3 if data == "bits" else 2
    ]:
        if sm < 90 and (form in FP8 or (form in DOUBLE and form.shape != "m8n8k4")):
            continue
        np.testing.assert_array_equal(
            run(form, operands, target), kernels.expected(form, operands, sm), err_msg=target
        )


@pytest.mark.parametrize("form", INTEGERS + BINARY, ids=name_of)
def test_integers_wrap_or_saturate(form):
    data = kernels.make_data(form, "bits", 2)
    extreme = np.where(data.c % 2, 2**31 - 1, -(2**31)).astype(np.int32)
    data = data._replace(c=extreme)
    data.arrays[2] = kernels.words(form, "c", extreme)
    np.testing.assert_array_equal(run(form, data, "sm_80"), kernels.expected(form, data))


# --- refusals -----------------------------------------------------------------------------------


def refusal(line, target="sm_90a"):
    """The message, or None."""
    registers = " .reg .b32 %b<99>; .reg .f32 %f<99>; .reg .f64 %q<99>;\n"
    text = f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
    try:
        Device(target).load_ptx(f"{text}{registers}{line}\nret;\n}}\n")
    except EmulatorError as error:
        return str(error)
    return None


def bare(form):
    """The instruction on any registers, as many as the types say."""
    prefix = {"f64": "q", "f32": "f"}
    groups = []
    for at, (name, count) in enumerate(form.registers.items()):
        kind = getattr(form, name)
        letter = prefix.get(kind, "b")
        groups.append("{" + ",".join(f"%{letter}{20 * at + i}" for i in range(max(count, 1))) + "}")
    return f"{form.opcode} {', '.join(groups)};"


SHAPES = [
    *(f"m8n8k{k}" for k in (4, 16, 32, 128)),
    *(f"m16n8k{k}" for k in (4, 8, 16, 32, 64, 128, 256)),
]
PAIRS = [
    *((kind, kind) for kind in ("f16", "bf16", "tf32", "e4m3", "f64", "s8", "s4", "b1")),
    ("e4m3", "e5m2"), ("f16", "bf16"), ("s8", "u8"), ("u4", "s4"), ("s8", "s4"), ("e4m3", "s8"),
]  # fmt: skip
ACCUMULATORS = [("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("f16", "f32"), ("s32", "s32"),
                ("f64", "f64")]  # fmt: skip


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_combinations_are_those_of_ptxas(target, tmp_path):
    forms = [
        Form(shape, d, a, b, c, operation="xor" if a == "b1" else "")
        for shape in SHAPES
        for a, b in PAIRS
        for d, c in ACCUMULATORS
    ]
    lines = [bare(form) for form in forms]
    head = f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k() {{\n"
    head += " .reg .b32 %b<99>; .reg .f32 %f<99>; .reg .f64 %q<99>;\n"
    wanted = accepted_by_ptxas(head, lines, target, tmp_path)
    assert 20 < sum(wanted) < 100
    wrong = [
        line
        for line, accepted in zip(lines, wanted, strict=True)
        if (refusal(line, target) is None) != accepted
    ]
    assert not wrong


MMA = kernels.instruction(FLOATS[3])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (MMA.replace("%d0, ", ""), "needs 4 registers for D, not 3"),
        (MMA.replace(".aligned", ""), ".sync.aligned is mandatory"),
        (MMA.replace(".row.col", ".row"), "needs the layouts of A and B"),
        (MMA.replace(".row.col", ".row.row"), "the layouts of this mma must be .row.col"),
        (MMA.replace(".row.col", ".row.col.satfinite"), "allows .satfinite only for"),
        (MMA.replace(".m16n8k16", ""), "needs a shape"),
        (MMA.replace("m16n8k16", "m16n8k32"), "is .m8n8k4, .m16n8k8, .m16n8k16, not .m16n8k32"),
        (MMA.replace(".f32.f16.f16.f32", ".f32.f16.bf16.f32"), "does not multiply .f16 with .bf16"),
        (MMA.replace(".f32;", ".f32.xor.popc;").replace(".f32 {", ".f32.xor.popc {"), "popc"),
        (MMA.replace(".row.col", ".row.col.kind::f8f6f4"), "kind::f8f6f4"),
        (MMA.replace(".row.col", ".row.col.kind::mxf4.block_scale"), "kind::mxf4"),
    ],
)
def test_refusals_say_why(line, message):
    data = kernels.make_data(FLOATS[3], "small", 0)
    with pytest.raises(EmulatorError, match=re.escape(message)):
        run(FLOATS[3], data, body=line)


def test_all_lanes_execute_it():
    data = kernels.make_data(FLOATS[3], "small", 0)
    body = f".reg .pred %p0; setp.lt.u32 %p0, %i0, 16; @%p0 {MMA}"
    with pytest.raises(EmulatorError):
        run(FLOATS[3], data, body=body)


def test_d_may_be_a():
    """Registers of D that are those of A or C: all is read before anything is written."""
    form = Form("m16n8k8", "f16", "f16", "f16", "f16")
    data = kernels.make_data(form, "small", 3)
    body = kernels.instruction(form).replace("%d", "%a") + " mov.b32 %d0, %a0; mov.b32 %d1, %a1;"
    np.testing.assert_array_equal(run(form, data, body=body), kernels.expected(form, data))
