"""wgmma: fragments, layouts, types and arithmetic against the NumPy model of the PTX ISA."""

import numpy as np
import pytest
import wgmma_kernels as kernels
from wgmma_kernels import COMMIT, FENCE, WAIT, Form, instruction

from emulator import tensor_core_model as model
from tilelang.emulator import Device, EmulatorError

TYPES = [
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"), ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f16"),
    ("s8", "u8", "s32"), ("u8", "u8", "s32"), ("b1", "b1", "s32"),
]  # fmt: skip
SWIZZLES = ["none", "32B", "64B", "128B"]


def run(form, data, body=None, **options):
    proxy_fence = options.pop("proxy_fence", True)
    arrays = [array.copy() for array in data.arrays]
    module = Device("sm_90a").load_ptx(kernels.kernel(form, body, proxy_fence))
    report = module["k"].launch(1, kernels.THREADS, arrays, **options)
    assert not report.warnings, report.warnings
    return arrays[-1]


def check(form, kind="small", seed=0, body=None, **options):
    data = kernels.make_data(form, kind, seed)
    np.testing.assert_array_equal(run(form, data, body, **options), kernels.expected(form, data))


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize(("a", "b", "d"), TYPES)
def test_types(a, b, d, registers):
    for accumulate in (False, True):
        form = Form(a, b, d, 48, registers, accumulate=accumulate)
        check(form)
        if d != "s32":
            check(form._replace(negate_a=True))
            check(form._replace(negate_b=True, b_swizzle="none"))


@pytest.mark.parametrize(("a", "b", "d"), TYPES[::2])
@pytest.mark.parametrize("n", [8, 16, 24, 32, 80, 112, 240, 256])
def test_columns(a, b, d, n):
    check(Form(a, b, d, n, n % 16 == 0))


@pytest.mark.parametrize("n", [40, 104, 248])
def test_columns_that_only_floats_have(n):
    check(Form("bf16", "bf16", "f32", n))
    with pytest.raises(EmulatorError, match=r"N of .* must be 8, 24 or a multiple of 16"):
        check(Form("s8", "s8", "s32", n))


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("b_major", ["K", "MN"])
@pytest.mark.parametrize("a_major", ["K", "MN"])
@pytest.mark.parametrize("n", [24, 136])
def test_majorness_and_swizzles(n, a_major, b_major, swizzle):
    other = SWIZZLES[SWIZZLES.index(swizzle) - 1]
    check(Form("bf16", "bf16", "f32", n, False, swizzle, other, a_major, b_major))


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("a", ["tf32", "e4m3", "u8", "b1"])
def test_swizzles_of_k_major_types(a, swizzle):
    d = "s32" if a in ("u8", "b1") else "f32"
    check(Form(a, a, d, 32, False, swizzle, SWIZZLES[SWIZZLES.index(swizzle) - 1]))


@pytest.mark.parametrize(("swizzle", "steps"), [("32B", 1), ("64B", 2), ("128B", 4)])
def test_k_advances_inside_a_swizzle_atom(swizzle, steps):
    for step in range(steps):
        form = Form("f16", "f16", "f32", 64, False, swizzle, swizzle)
        check(form._replace(a_step=step, b_step=steps - 1 - step))


def test_transposed_b_with_a_in_registers():
    check(Form("f16", "f16", "f16", 40, True, b_major="MN", b_swizzle="64B", negate_a=True))


@pytest.mark.every_schedule
@pytest.mark.parametrize("data", ["normal", "wide", "subnormal", "cancel", "bits"])
@pytest.mark.parametrize(("a", "b", "d"), TYPES[:6])
def test_arithmetic_is_one_truncated_sum(a, b, d, data):
    check(Form(a, b, d, 24, repeat=3), data, seed=5)


def test_integers_wrap_or_saturate():
    for saturate in (False, True):
        form = Form("s8", "s8", "s32", 32, saturate=saturate, repeat=2)
        data = kernels.make_data(form, "bits", 1)
        limit = np.where(data.c < 0, -(2**31), 2**31 - 1).astype(np.int32)
        data = data._replace(c=limit)
        data.arrays[2] = kernels.accumulator_words(form, limit)
        wanted = kernels.expected(form, data)
        assert (wanted == np.uint32(0x7FFFFFFF)).any() == saturate
        np.testing.assert_array_equal(run(form, data), wanted)


def test_infinities_and_nan():
    form = Form("bf16", "bf16", "f32", 32)
    data = kernels.make_data(form, "special", 0)
    a, b = kernels.values_of("bf16", data.a), kernels.values_of("bf16", data.b)
    with np.errstate(invalid="ignore"):
        exact = a @ b.T + data.c
    got = run(form, data).view(np.float32)
    wanted = kernels.accumulator_words(form, exact.astype(np.float32)).view(np.float32)
    unusual = ~np.isfinite(wanted)
    assert np.isnan(wanted).any() and np.isinf(wanted).any()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(got[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(got[~unusual]).all()
    assert (got[np.isnan(got)].view(np.uint32) == 0x7FFFFFFF).all()


def test_registers_change_when_the_operation_acts():
    """Without the sanitizer a missing wait shows as old accumulators, if operations act late."""
    form = Form("f16", "f16", "f32", 16)
    data = kernels.make_data(form, "small", 0)
    keep = "".join(f" mov.b32 %k{i}, %d{i};\n" for i in range(form.accumulators))
    back = "".join(f" mov.b32 %d{i}, %k{i};\n" for i in range(form.accumulators))
    declare = f" .reg .b32 %k<{form.accumulators}>;\n"
    body = declare + FENCE + f" {instruction(form)}\n" + COMMIT + keep + WAIT + back
    old, new = data.arrays[2], kernels.expected(form, data)
    late = run(form, data, body, sanitize=False, schedule="late")
    np.testing.assert_array_equal(late, old)
    # It acts when the last of the four warps executes it: that one sees the result.
    eager = run(form, data, body, sanitize=False, schedule="eager").reshape(-1, 4, 32)
    seen = [np.array_equal(eager[:, w], new.reshape(-1, 4, 32)[:, w]) for w in range(4)]
    assert sum(seen) == 1


@pytest.mark.every_schedule
def test_groups_complete_in_order():
    """Two accumulators in two groups; the first is read while the second is in flight."""
    form = Form("f16", "f16", "f32", 16)
    data = kernels.make_data(form, "small", 2)
    second = instruction(form).replace("%d", "%k").replace("%kesc", "%desc")
    body = f" .reg .b32 %k<{form.accumulators}>;\n"
    body += "".join(f" mov.b32 %k{i}, 0;\n" for i in range(form.accumulators))
    body += FENCE + f" {instruction(form)}\n" + COMMIT + f" {second}\n" + COMMIT
    body += " wgmma.wait_group.sync.aligned 1;\n"
    body += "".join(f" add.f32 %d{i}, %d{i}, 0f00000000;\n" for i in range(form.accumulators))
    body += WAIT
    body += "".join(f" add.f32 %d{i}, %d{i}, %k{i};\n" for i in range(form.accumulators))
    got = run(form, data, body).view(np.float32)
    one = kernels.expected(form, data).view(np.float32)
    both = one + kernels.expected(form, data._replace(c=np.zeros_like(data.c))).view(np.float32)
    np.testing.assert_array_equal(got, both)


def test_fragments_of_an_accumulator_are_fragments_of_a():
    """Two k-steps of f32 accumulators packed to f16 are the A of the next multiplication."""
    form = Form("f16", "f16", "f32", 16, accumulate=False)
    data = kernels.make_data(form, "small", 3)
    chained = instruction(form._replace(registers=True))
    body = FENCE + f" {instruction(form)}\n" + COMMIT + WAIT
    body += "".join(f" cvt.rn.f16x2.f32 %a{i}, %d{2 * i + 1}, %d{2 * i};\n" for i in range(4))
    body += FENCE + f" {chained}\n" + COMMIT + WAIT
    a, b = kernels.values_of("f16", data.a), kernels.values_of("f16", data.b)
    product = (a @ b.T) @ b.T  # [64, 16] @ [16, 16]
    wanted = kernels.accumulator_words(form, product.astype(np.float32))
    np.testing.assert_array_equal(run(form, data, body), wanted)


def test_warpgroups_multiply_by_themselves():
    """Three warpgroups, of which the second does not take part."""
    form = Form("f16", "f16", "f32", 8)
    data = kernels.make_data(form, "small", 4)
    text = kernels.kernel(form)
    text = text.replace("%i0, %tid.x;", "%i0, %tid.x; and.b32 %i0, %i0, 127;")
    text = text.replace(FENCE, " mov.u32 %i6, %tid.x; shr.u32 %i6, %i6, 7;\n"
                        " setp.eq.u32 %p1, %i6, 1; @%p1 bra SKIP;\n" + FENCE)  # fmt: skip
    text = text.replace(WAIT, WAIT + "SKIP:\n @%p1 ret;\n")
    arrays = [array.copy() for array in data.arrays]
    Device("sm_90a").load_ptx(text)["k"].launch(1, 384, arrays)
    np.testing.assert_array_equal(arrays[-1], kernels.expected(form, data))


def test_instructions_count_as_those_of_the_tensor_core():
    form = Form("f16", "f16", "f32", 8)
    data = kernels.make_data(form, "small", 0)
    report = Device("sm_90a").load_ptx(kernels.kernel(form))["k"].launch(1, 128, data.arrays)
    assert report.by_class["tensor core"].instructions == 4 * 4


def test_model_places_every_element_once():
    for d in ("f32", "f16"):
        rows, columns = kernels.accumulator_places(Form("f16", "f16", d, 24))
        places = set(zip(rows.ravel().tolist(), columns.ravel().tolist(), strict=True))
        assert len(places) == rows.size == 64 * 24


def test_model_offsets_are_the_tables_of_the_isa():
    assert model.offsets_of("128B", "K", 2, 64, 16)[:2] == (16, 1024)
    assert model.offsets_of("128B", "MN", 2, 64, 16)[1] == 1024
