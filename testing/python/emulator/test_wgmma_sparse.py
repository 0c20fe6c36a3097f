"""wgmma.mma_async.sp: types, layouts, metadata and ordering against the NumPy model."""

import gpu_cases
import gpu_cases_sparse as gpu
import numpy as np
import pytest
import sparse_kernels as kernels
from emulator.test_against_gpu import emulate
from gpu_cases_sparse import WGMMA_TYPES
from wgmma_kernels import COMMIT, FENCE, THREADS, WAIT, Form

from tilelang.emulator import Device, EmulatorError


def run(form, data, selector=0, body=None, edit=lambda text: text, **options):
    arrays = [array.copy() for array in data.arrays]
    text = edit(kernels.wgmma_kernel(form, selector, body))
    report = Device("sm_90a").load_ptx(text)["k"].launch(1, THREADS, arrays, **options)
    assert not report.warnings, report.warnings
    return arrays[-1]


def check(form, kind="small", selector=0, **options):
    data = kernels.make_wgmma_data(form, kind, selector)
    got = run(form, data, selector, **options)
    np.testing.assert_array_equal(got, kernels.wgmma_expected(form, data))


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize(("a", "b", "d"), WGMMA_TYPES)
def test_types(a, b, d, registers):
    for selector in range(1 if a in ("e4m3", "s8") else 2):
        check(Form(a, b, d, 48, registers), selector=selector)
        check(Form(a, b, d, 8, registers, accumulate=False), selector=selector)
    if d != "s32":
        check(Form(a, b, d, 16, registers, negate_a=True))


@pytest.mark.parametrize("swizzle", ["none", "32B", "128B"])
@pytest.mark.parametrize("majors", ["KK", "KM", "MK", "MM"])
def test_majorness_and_swizzles(majors, swizzle):
    major = {"K": "K", "M": "MN"}
    other = "128B" if swizzle == "32B" and majors[1] == "K" else swizzle
    check(Form("bf16", "bf16", "f32", 64, False, swizzle, other, *(major[m] for m in majors)))


@pytest.mark.every_schedule
@pytest.mark.parametrize("data", ["wide", "subnormal"])
def test_arithmetic_is_that_of_dense_instructions(data):
    for a, b, d in WGMMA_TYPES[:5]:
        check(Form(a, b, d, 24), data)


def test_rows_longer_than_the_swizzle():
    with pytest.raises(EmulatorError, match="rows of 64 bytes along K, which are longer than a 32"):
        check(Form("f16", "f16", "f32", 16, b_swizzle="32B"))


def test_metadata_is_read_until_the_group_is_complete():
    form = Form("f16", "f16", "f32", 16)
    data = kernels.make_wgmma_data(form, "small", 0)
    body = FENCE + kernels.wgmma_instruction(form, 0) + COMMIT + " mov.b32 %a4, 0;\n" + WAIT
    with pytest.raises(EmulatorError) as caught:
        run(form, data, body=body)
    assert caught.value.kind == "missing-wait" and "%a4" in str(caught.value)


def test_metadata_needs_the_fence():
    form = Form("f16", "f16", "f32", 16)
    data = kernels.make_wgmma_data(form, "small", 0)
    body = FENCE + " or.b32 %a4, %a4, 0;\n" + kernels.wgmma_instruction(form, 0) + COMMIT + WAIT
    with pytest.raises(EmulatorError) as caught:
        run(form, data, body=body)
    assert caught.value.kind == "missing-wgmma-fence"


def test_metadata_without_meaning():
    form = Form("f16", "f16", "f32", 16)
    data = kernels.make_wgmma_data(form, "small", 0)
    data.arrays[1][4, 36] = data.arrays[1][4, 36] & 0xFFFF0FFF  # row 17, elements 12 to 15
    with pytest.raises(EmulatorError, match="is 0b0000 for row 17, elements 12 to 15") as caught:
        run(form, data)
    assert caught.value.kind == "illegal-operand"


@pytest.mark.parametrize(
    ("form", "old", "new", "message"),
    [
        (Form("f16", "f16", "f32", 16), "%a4, 0", "%a4, 2", "selector of .* 0 or 1, not 2"),
        (Form("s8", "s8", "s32", 16), "%a4, 0", "%a4, 1", "selector of .* is 0, not 1"),
        (Form("f16", "f16", "f32", 16), "k32.", "k16.", "must be .m64nNk32"),
        (Form("f16", "f16", "f32", 16), "%a4, 0", "7, 0", "the metadata .* must be in a register"),
        (Form("b1", "b1", "s32", 16), "%a4, 0", "%a4, 0", "mma_async.sp of .b1 does not exist"),
    ],
)  # fmt: skip
def test_refusals_say_why(form, old, new, message):
    known = form if form.a != "b1" else form._replace(a="s8", b="s8")
    data = kernels.make_wgmma_data(known, "small", 0)
    with pytest.raises(EmulatorError, match=message):
        run(form, data, edit=lambda text: text.replace(old, new))


def test_cases_for_a_gpu_follow_the_model():
    cases = gpu.sparse_cases()
    assert len(cases) > 250
    for name, make, exact in cases[::25]:
        if exact:
            case, wanted = make()
            np.testing.assert_array_equal(emulate(case), wanted, err_msg=name)


@pytest.mark.requires_cuda
def test_equal_to_a_gpu_to_the_last_bit():
    device = gpu_cases.Gpu()
    for name, make, exact in gpu.sparse_cases():
        if exact:
            case, wanted = make()
            got = device.run(case)
            np.testing.assert_array_equal(got, wanted, err_msg=name)
            np.testing.assert_array_equal(emulate(case), got, err_msg=name)
