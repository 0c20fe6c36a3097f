"""mma.sp: shapes, metadata, selectors and refusals against the PTX ISA's formulas and ptxas."""

import itertools
import re

import mma_kernels
import numpy as np
import pytest
import sparse_kernels as kernels
from ptx_kernels import accepted_by_ptxas, run_warp
from sparse_kernels import Form

from tilelang.emulator import Device, EmulatorError

FORMS = kernels.mma_forms()
ORDERED = "sp::ordered_metadata"


def name_of(form):
    return form.opcode.removeprefix("mma.sp.sync.aligned.").replace(".row.col", "")


def run(form, data, target="sm_90a", body=None, **options):
    return run_warp(kernels.kernel(form, target, body), data.arrays, target, **options)


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_exact_sums(form):
    """Of small integers: what every arithmetic gives, with every selector."""
    fp8 = form.dense.a in ("e4m3", "e5m2")
    cases = [
        ("sp", 0, "sm_90a"),
        (ORDERED, 0, "sm_90a"),
        (ORDERED, 0, "sm_90a" if fp8 else "sm_80"),
    ]
    cases += [("sp", selector, "sm_100a") for selector in range(1, form.selectors)]
    for variant, selector, target in cases:
        own = form._replace(variant=variant, selector=selector)
        data = kernels.make_data(own, "small", selector)
        got = run(own, data, target)
        np.testing.assert_array_equal(got, kernels.expected(own, data), err_msg=target)


@pytest.mark.parametrize("data", ["wide", "subnormal"])
@pytest.mark.parametrize("form", [f for f in FORMS if mma_kernels.BITS[f.dense.a] >= 16],
                         ids=name_of)  # fmt: skip
def test_arithmetic_is_one_sum(form, data):
    operands = kernels.make_data(form, data, 1)
    np.testing.assert_array_equal(run(form, operands), kernels.expected(form, operands))


def test_mixed_types():
    for a, b in (("e4m3", "e5m2"), ("s8", "u8"), ("u4", "s4")):
        k, d = (64 if a == "u4" else 32), ("f32" if a == "e4m3" else "s32")
        form = Form(mma_kernels.Form(f"m16n8k{k}", d, a, b, d))
        data = kernels.make_data(form, "small", 5)
        np.testing.assert_array_equal(run(form, data), kernels.expected(form, data))


def test_integers_wrap_or_saturate():
    for saturate in (False, True):
        form = Form(mma_kernels.Form("m16n8k32", "s32", "s8", "s8", "s32", saturate=saturate))
        data = kernels.make_data(form, "bits", 2)
        extreme = np.where(data.c % 2, 2**31 - 1, -(2**31)).astype(np.int32)
        data = data._replace(c=extreme)
        data.arrays[2] = mma_kernels.words(form.dense, "c", extreme)
        np.testing.assert_array_equal(run(form, data), kernels.expected(form, data))


@pytest.mark.parametrize("form", FORMS[:6:2], ids=name_of)
def test_lines_of_b_that_no_element_meets_do_not_count(form):
    """They may be infinite or NaN; stored zeros meet infinities, though."""
    form = form._replace(variant=ORDERED)
    data = kernels.make_data(form, "small", 3)
    chunk = kernels.chunk_of(form.dense.a)
    rng = np.random.default_rng(0)
    a = kernels.compress(rng, data.a.stored, chunk, (0b0100,))  # the first half of each chunk
    data.arrays[3] = kernels.metadata_words(rng, form.dense.a, a.indices, 0)
    infinite = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000}[form.dense.a]
    b = data.b.copy()
    b[:, chunk - 1 :: chunk] = infinite
    data.arrays[1] = mma_kernels.words(form.full, "b", b)
    own = data._replace(a=a)
    np.testing.assert_array_equal(run(form, own), kernels.expected(form, own))
    # A stored zero times an infinity.
    a.stored[:, 0] = 0
    b[:, 0] = infinite
    data.arrays[0] = mma_kernels.words(form.dense, "a", a.stored)
    data.arrays[1] = mma_kernels.words(form.full, "b", b)
    assert (run(form, own) == (0x7FFF7FFF if form.dense.d == "f16" else 0x7FFFFFFF)).all()


# --- kinds and scale factors of sm_120a ---------------------------------------------------------


def test_kinds_with_scale_factors():
    """Scale factors of rows of A are 2 ** row, of columns of B 1; sums are exact."""
    rng = np.random.default_rng(7)
    for kind, a, scale, count in (
        ("f8f6f4", "e4m3", "", 0), ("mxf8f6f4", "e4m3", "ue8m0", 1), ("mxf4", "u4", "ue8m0", 2),
        ("mxf4nvf4", "u4", "ue8m0", 4),
    ):  # fmt: skip
        # Codes 0 and 2 of e2m1 are 0 and 1, of which sums are those of u4's 0 and 1.
        k = 64 if a == "u4" else 32
        form = Form(mma_kernels.Form(f"m16n8k{k}", "f32", a, a, "f32"), ORDERED)
        dense, full = form.dense, form.full
        if a == "u4":
            stored, b = (2 * rng.integers(0, 2, s).astype(np.uint8) for s in ((16, k), (8, 2 * k)))
            values = [x / 2 for x in (stored, b)]
        else:
            stored = mma_kernels.random_codes(rng, a, (16, k), "small")
            b = mma_kernels.random_codes(rng, a, (8, 2 * k), "small")
            values = [mma_kernels.values_of(a, x) for x in (stored, b)]
        sparse = kernels.compress(rng, stored, kernels.chunk_of(a), kernels.GROWING)
        exact = np.zeros((16, 2 * k))
        np.put_along_axis(exact, sparse.places, values[0], axis=1)
        c = rng.integers(-9, 9, (16, 8)).astype(np.float32)
        sums = exact @ values[1].T * (2.0 ** np.arange(16)[:, None] if scale else 1) + c
        vector = f".block_scale.scale_vec::{count}X" if scale else ""
        kinds = ("e2m1", "e2m1") if a == "u4" else (a, a)
        opcode = (
            f"mma.{ORDERED}.sync.aligned.m16n8k{2 * k}.row.col.kind::{kind}{vector}"
            f".f32.{kinds[0]}.{kinds[1]}.f32{'.' + scale if scale else ''}"
        )
        body = kernels.instruction(form).replace(form.opcode, opcode)
        if scale:
            body = body.replace(";", ", %i1, {0, 0}, %i2, {0, 0};")
            # Lane 4g + h has the factors of row g + 8h: 2 ** (g + 8h) in each byte.
            body = (
                " shr.u32 %i1, %i0, 2; and.b32 %i2, %i0, 1; mad.lo.u32 %i1, %i2, 8, %i1;"
                " add.u32 %i1, %i1, 127; mul.lo.u32 %i1, %i1, 0x01010101; mov.u32 %i2, 0x7F7F7F7F;"
            ) + body
        words = mma_kernels.words
        out = np.full((4, 32), mma_kernels.POISON, np.uint32)
        arrays = [words(dense, "a", stored), words(full, "b", b), words(dense, "c", c),
                  kernels.metadata_words(rng, a, sparse.indices, 0), out]  # fmt: skip
        got = run(form, kernels.Data(sparse, b, c, arrays), "sm_120a", body)
        wanted = words(dense, "d", sums.astype(np.float32))
        np.testing.assert_array_equal(got, wanted, err_msg=opcode)


# --- refusals -----------------------------------------------------------------------------------

HEAD = " .reg .b32 %b<99>; .reg .f32 %f<99>; .reg .f64 %q<99>;\n"


def head(target):
    return f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{\n{HEAD}"


def refusal(line, target):
    try:
        Device(target).load_ptx(f"{head(target)}{line}\nret;\n}}\n")
    except EmulatorError as error:
        return str(error)
    return None


def bare(shape, d, a, b, c, variant, selector, kind=""):
    def group(letter, first, count):
        return "{" + ",".join(f"%{letter}{first + i}" for i in range(max(count, 1))) + "}"

    k = int(shape.split("k")[1])
    bits = {"e2m3": 8, "e2m1": 8} | mma_kernels.BITS
    groups = [
        group("f" if d == "f32" else "b", 0, 2 if d == "f16" else 4),
        group("b", 20, 16 * k * bits[a] // 2048), group("b", 40, 8 * k * bits[b] // 1024),
        group("f" if c == "f32" else "b", 60, 2 if c == "f16" else 4),
    ]  # fmt: skip
    opcode = f"mma.{variant}.sync.aligned.{shape}.row.col{kind}.{d}.{a}.{b}.{c}"
    return f"{opcode} {', '.join(groups)}, %b80, {selector};"


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_combinations_are_those_of_ptxas(target, tmp_path):
    pairs = [*((k, k) for k in ("f16", "bf16", "tf32", "e4m3", "s8", "s4", "e2m3", "e2m1")),
             ("e4m3", "e5m2"), ("f16", "bf16"), ("s8", "u8"), ("s4", "s8")]  # fmt: skip
    lines = [
        bare(f"m16n8k{k}", d, a, b, c, variant, selector, kind)
        for k in (8, 16, 32, 64, 128)
        for a, b in pairs
        for d, c in (("f32", "f32"), ("f16", "f16"), ("s32", "s32"))
        if (d == "s32") == (a in ("s8", "s4"))
        for variant, selector, kind in [
            ("sp", 0, ""), (ORDERED, 0, ""), ("sp", 1, ""), (ORDERED, 3, ""), ("sp", 4, ""),
            (ORDERED, 0, ".kind::f8f6f4"), ("sp", 0, ".kind::f8f6f4"),
        ]
        if kind == "" or (k == 64 and a in ("e4m3", "e2m3", "e2m1"))
        if kind or not a.startswith("e2")
    ]  # fmt: skip
    wanted = accepted_by_ptxas(head(target), lines, target, tmp_path)
    assert 20 < sum(wanted) < len(lines) - 20
    # ptxas takes selectors of m16n8k32 of f16 of which the PTX ISA says that they are undefined.
    wanted = [
        accepted and not ("k32.row.col.f32.f16" in line and line.endswith(("3;", "4;")))
        for line, accepted in zip(lines, wanted, strict=True)
    ]
    wrong = [
        (line, accepted, refusal(line, target))
        for line, accepted in zip(lines, wanted, strict=True)
        if (refusal(line, target) is None) != accepted
    ]
    assert not wrong, (len(wrong), wrong[:5])


MMA = kernels.instruction(FORMS[3])  # f16, m16n8k32


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (MMA.replace("m16n8k32", "m16n8k8"), "of mma.sp of .f16 is .m16n8k16, .m16n8k32, not"),
        (MMA.replace("%e, 0", "%e, 2"), "the sparsity selector is 2, but 2 lanes of each four"),
        (MMA.replace("%e, 0", "7, 0"), "the metadata of mma.sp must be in a register"),
        (MMA.replace(", %e, 0", ""), "operand"),
        (MMA.replace("f16.f16.f32", "f64.f64.f32"), "mma.sp of .f64 does not exist"),
    ],
)
def test_refusals_say_why(line, message):
    form = FORMS[3]
    with pytest.raises(EmulatorError, match=re.escape(message)):
        run(form, kernels.make_data(form, "small", 0), body=line)


@pytest.mark.parametrize(
    ("form", "variant", "index", "legal"),
    [
        *itertools.product(
            [FORMS[3]], ["sp"], [0b0000, 0b0101, 0b1010, 0b1111], ["any but 0b0000"]
        ),
        (FORMS[3], ORDERED, 0b0001, "0b0100, 0b1000, 0b1001"),
        (FORMS[6], "sp", 0b1100, "0b0100 and 0b1110"),
    ],
)
def test_metadata_without_meaning(form, variant, index, legal):
    form = form._replace(variant=variant)
    data = kernels.make_data(form, "small", 0)
    indices = data.a.indices.copy()
    indices[9, 2] = index
    rng = np.random.default_rng(0)
    data.arrays[3] = kernels.metadata_words(rng, form.dense.a, indices, 0)
    chunk = kernels.chunk_of(form.dense.a)
    with pytest.raises(
        EmulatorError, match=rf"is 0b{index:04b} for row 9, elements {2 * chunk} to"
    ) as caught:
        run(form, data)
    assert legal in str(caught.value) and caught.value.kind == "illegal-operand"


def test_sparse_instructions_are_not_timed():
    form = FORMS[3]
    with pytest.raises(EmulatorError, match="the rate of sparse matrix instructions is not known"):
        run(form, kernels.make_data(form, "small", 0), timing=True)
