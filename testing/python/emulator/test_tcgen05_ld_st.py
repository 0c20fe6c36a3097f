"""Every shape and repetition of tcgen05.ld and st against the formulas of the PTX ISA."""

import warnings

import numpy as np
import pytest
from emulator.tmem_kernels import build, random_cells, run

from tilelang.emulator import Device, EmulatorError

# Thread t, register r -> lane, column; relative to the address (of the half for 16x32bx2).
LAYOUTS = {
    "32x32b": lambda t, r: (t, r),
    "16x64b": lambda t, r: (t // 4 + 8 * (t % 2), t // 2 % 2 + 2 * r),
    "16x128b": lambda t, r: (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)),
    "16x256b": lambda t, r: (t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)),
    "16x32bx2": lambda t, r: (t % 16, r),
}
PER_REPETITION = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
LARGEST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}
COLUMNS_PER = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}
CASES = [
    (shape, 1 << n, packed)
    for shape in LAYOUTS
    for n in range(8)
    for packed in (False, True)
    if 1 << n <= LARGEST[shape]
]


def half_offset(shape, columns, rng):
    """16 lanes and some columns further, as compilers use it."""
    return 16 << 16 | int(rng.integers(0, 513 - 2 * columns)) if shape == "16x32bx2" else None


def places(shape, count, packed, first_column, lane_offset, half):
    """Lanes and first columns [warp, thread, register] that the access touches."""
    lanes = np.zeros((4, 32, count), int)
    columns = np.zeros_like(lanes)
    for t in range(32):
        for r in range(count):
            lane, column = LAYOUTS[shape](t, r)
            column = first_column + column * (2 if packed else 1)
            if half is not None and t >= 16:
                lane, column = lane + (half >> 16), column + (half & 0xFFFF)
            lanes[:, t, r] = 32 * np.arange(4) + lane + lane_offset
            columns[:, t, r] = column
    return lanes, columns


def setup(shape, repetition, packed, seed):
    rng = np.random.default_rng(seed)
    count = PER_REPETITION[shape] * repetition
    columns = COLUMNS_PER[shape] * repetition * (2 if packed else 1)
    half = half_offset(shape, columns, rng)
    room = 512 - columns - (half & 0xFFFF if half else 0)
    first = int(rng.integers(0, room + 1))
    lane_offset = 16 if shape in ("16x64b", "16x128b", "16x256b") and rng.random() < 0.5 else 0
    spots = places(shape, count, packed, first, lane_offset, half)
    return rng, count, spots, f"[%r3+{first + (lane_offset << 16)}]", half


@pytest.mark.parametrize(("shape", "repetition", "packed"), CASES)
def test_load(shape, repetition, packed):
    rng, count, (lanes, columns), address, half = setup(shape, repetition, packed, repetition)
    if packed and columns.max() > 510:
        pytest.skip("does not fit")
    registers = ", ".join(f"%v{i}" for i in range(count))
    modifier = ".pack::16b" if packed else ""
    tail = f", {half}" if half is not None else ""
    stores = "\n".join(f" st.global.b32 [%d10+{4 * i}], %v{i};" for i in range(count))
    body = f"""
 tcgen05.ld.sync.aligned.{shape}.x{repetition}{modifier}.b32 {{{registers}}}, {address}{tail};
 tcgen05.wait::ld.sync.aligned;
 ld.param.u64 %d10, [VALUES]; mul.wide.u32 %d11, %r0, {4 * count}; add.u64 %d10, %d10, %d11;
{stores}
"""
    cells = random_cells(rng)
    values = np.zeros((4, 32, count), np.uint32)
    out, report = run(build(body, params=", .param .u64 VALUES"), cells, args=[values])
    expected = cells[lanes, columns]
    if packed:
        expected = expected & 0xFFFF | cells[lanes, columns + 1] << 16
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(out, cells)
    assert report.warnings == []


@pytest.mark.parametrize(("shape", "repetition", "packed"), CASES)
def test_store(shape, repetition, packed):
    rng, count, (lanes, columns), address, half = setup(shape, repetition, packed, 99 + repetition)
    registers = ", ".join(f"%v{i}" for i in range(count))
    modifier = ".unpack::16b" if packed else ""
    middle = f", {half}" if half is not None else ""
    loads = "\n".join(f" ld.global.b32 %v{i}, [%d10+{4 * i}];" for i in range(count))
    body = f"""
 ld.param.u64 %d10, [VALUES]; mul.wide.u32 %d11, %r0, {4 * count}; add.u64 %d10, %d10, %d11;
{loads}
 tcgen05.st.sync.aligned.{shape}.x{repetition}{modifier}.b32 {address}{middle}, {{{registers}}};
 tcgen05.wait::st.sync.aligned;
"""
    cells = random_cells(rng)
    values = rng.integers(0, 2**32, (4, 32, count), dtype=np.uint32)
    out, _ = run(build(body, params=", .param .u64 VALUES"), cells, args=[values])
    expected = cells.copy()
    if packed:
        expected[lanes, columns] = values & 0xFFFF
        expected[lanes, columns + 1] = values >> 16
    else:
        expected[lanes, columns] = values
    np.testing.assert_array_equal(out, expected)


def error_of(body, **options):
    with pytest.raises(EmulatorError) as caught:
        run(build(body), np.zeros((128, 512), np.uint32), **options)
    return caught.value


QUARTERS = [(0, 0, 0, 0), (0, 1, 2, 3), (3, 2, 1, 0), (1, 1, 1, 1)]


@pytest.mark.parametrize("quarters", QUARTERS)
@pytest.mark.parametrize("shape", ["32x32b", "16x64b"])
def test_a_warp_reaches_its_own_quarter_whatever_the_address_names(quarters, shape):
    """Several compilers give all warps the address of lane 0. One warning for each instruction."""
    low = 16 if shape == "16x64b" else 0  # the second half of the quarter
    table = sum((32 * quarter + low) << (8 * warp) for warp, quarter in enumerate(quarters))
    body = (
        f" and.b32 %r20, %r1, 3; shl.b32 %r20, %r20, 3; mov.b32 %r21, {table};"
        " shr.u32 %r21, %r21, %r20; and.b32 %r21, %r21, 255; shl.b32 %r21, %r21, 16;"
        " add.u32 %r21, %r2, %r21;\n"
        f" tcgen05.ld.sync.aligned.{shape}.x1.b32 {{%v0}}, [%r21];\n tcgen05.wait::ld.sync.aligned;"
        " add.u32 %v0, %v0, 1;\n"
        f" tcgen05.st.sync.aligned.{shape}.x1.b32 [%r21], {{%v0}};\n tcgen05.wait::st.sync.aligned;"
    )
    cells = random_cells(np.random.default_rng(1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out, _ = run(build(body), cells)
    expected = cells.copy()
    if shape == "32x32b":
        expected[:, 0] += 1
    else:
        expected.reshape(4, 32, 512)[:, 16:, :2] += 1
    np.testing.assert_array_equal(out, expected)
    texts = [str(w.message) for w in caught if "lane" in str(w.message)]
    assert len(texts) == (0 if quarters == (0, 1, 2, 3) else 2)
    assert all("(warp index modulo 4)" in text for text in texts)


@pytest.mark.parametrize(("shape", "lane"), [("32x32b", 16), ("16x64b", 8), ("32x32b", 128)])
def test_lanes_within_a_quarter(shape, lane):
    body = f" tcgen05.ld.sync.aligned.{shape}.x1.b32 {{%v0}}, [%r20];"
    error = error_of(f" add.u32 %r20, %r2, {lane << 16};" + body)
    assert error.kind == "tmem-lanes"
    assert f"starts at lane {lane}" in error.reason


def test_columns_outside_of_tensor_memory():
    error = error_of(" tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%r3+511];")
    assert error.kind == "tmem"
    assert "columns 511..512" in error.reason


def test_address_must_be_the_same_in_all_threads():
    error = error_of(
        " add.u32 %r20, %r3, %r0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r20];"
    )
    assert error.kind == "illegal-operand"
    assert error.lane == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcgen05.ld.sync.aligned.16x128b.x128.b32 {%v0}, [%r3];", "at most x64"),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%v0}, [%r3];", "at most x32"),
        ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%v0, %v1}, [%r3];", "needs 4 registers, not 2"),
        ("tcgen05.ld.sync.aligned.32x32b.x3.b32 {%v0, %v1, %v2}, [%r3];", "repetition"),
        ("tcgen05.ld.aligned.32x32b.x1.b32 {%v0}, [%r3];", "mandatory"),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%v0, %v1}, %v2, [%r3];", "sm_103a"),
        ("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r6], 64;", "same .cta_group"),
    ],
)
def test_illegal_forms_are_refused_when_loaded(text, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        Device().load_ptx(build(" " + text))["k"]
    assert caught.value.ptx_line > 0


# --- tcgen05.ld.red, of sm_103a -----------------------------------------------------------------

REDUCTIONS = [
    (operation, modifiers, dtype)
    for operation in ("min", "max")
    for modifiers, dtype in (
        ("", np.uint32), ("", np.int32), ("", np.float32), (".abs", np.float32),
        (".NaN", np.float32), (".abs.NaN", np.float32),
    )
]  # fmt: skip
PTX_TYPES = {np.uint32: "u32", np.int32: "s32", np.float32: "f32"}


def reduced(values, operation, modifiers, dtype):
    """Along the last axis, by the PTX ISA's min and max."""
    values = values.view(dtype)
    if dtype is not np.float32:
        return getattr(values, operation)(axis=-1).view(np.uint32)
    values = np.abs(values) if "abs" in modifiers else values
    lost = -np.inf if operation == "max" else np.inf
    nan = np.isnan(values)
    every = nan.any(axis=-1) if "NaN" in modifiers else nan.all(axis=-1)
    # -0 is less than +0: as integers they are ordered.
    bits = np.where(nan, np.float32(lost), values).astype(np.float32).view(np.int32)
    ordered = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    result = getattr(ordered, operation)(axis=-1)
    result = np.where(result < 0, result ^ 0x7FFFFFFF, result).astype(np.int32)
    return np.where(every, np.uint32(0x7FFFFFFF), result.view(np.uint32))


@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
@pytest.mark.parametrize("repetition", [2, 8, 64])
@pytest.mark.parametrize(("operation", "modifiers", "dtype"), REDUCTIONS)
def test_loads_that_reduce(operation, modifiers, dtype, repetition, shape):
    rng, count, (lanes, columns), address, half = setup(shape, repetition, False, repetition)
    registers = ", ".join(f"%v{i}" for i in range(count))
    form = f"tcgen05.ld.red.sync.aligned.{shape}.x{repetition}.{operation}{modifiers}"
    tail = f", {half}" if half is not None else ""
    body = f"""
 {form}.{PTX_TYPES[dtype]} {{{registers}}}, %r30, {address}{tail};
 tcgen05.wait::ld.sync.aligned;
 ld.param.u64 %d5, [GOT]; mul.wide.u32 %d6, %r0, {4 * count + 4}; add.u64 %d5, %d5, %d6;
 {" ".join(f"st.global.b32 [%d5+{4 * i}], %v{i};" for i in range(count))}
 st.global.b32 [%d5+{4 * count}], %r30;"""
    text = build(body, params=", .param .u64 GOT", registers=max(160, count + 1))
    cells = random_cells(rng)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32).view(np.uint32)
    chosen = rng.random(cells.shape) < 0.5
    cells[chosen] = rng.choice(special, chosen.sum())
    cells[5] = special[0]
    got = np.zeros((128, count + 1), np.uint32)
    run(text, cells, args=[got], arch="sm_103a")
    loaded = cells[lanes, columns].reshape(128, count)
    np.testing.assert_array_equal(got[:, :-1], loaded)
    np.testing.assert_array_equal(got[:, -1], reduced(loaded, operation, modifiers, dtype))


REDUCING = "tcgen05.ld.red.sync.aligned"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{REDUCING}.32x32b.x1.max.f32 {{%v0}}, %v2, [%r3];", "x2 to .x128"),
        (f"{REDUCING}.16x64b.x2.max.f32 {{%v0, %v1}}, %v2, [%r3];", "must be 32x32b or 16x32bx2"),
        (f"{REDUCING}.32x32b.x2.add.u32 {{%v0, %v1}}, %v2, [%r3];", "min or .max"),
        (f"{REDUCING}.32x32b.x2.max.abs.u32 {{%v0, %v1}}, %v2, [%r3];", "only with .f32"),
        (f"{REDUCING}.32x32b.x2.max.b32 {{%v0, %v1}}, %v2, [%r3];", "type"),
        (f"{REDUCING}.32x32b.x2.pack::16b.max.u32 {{%v0, %v1}}, %v2, [%r3];", "pack::16b"),
    ],
)
def test_reducing_forms_that_do_not_exist(text, complaint):
    with pytest.raises(EmulatorError, match=complaint):
        Device("sm_103a").load_ptx(build(" " + text).replace("sm_100a", "sm_103a"))["k"]
