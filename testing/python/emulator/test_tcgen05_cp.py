"""tcgen05.cp in every shape, swizzle and format, and tcgen05.shift, against the PTX ISA."""

import numpy as np
import pytest
from emulator.tmem_kernels import COMMIT, build, random_cells, run

from emulator import tensor_core_model as model
from tilelang.emulator import EmulatorError

IMAGE_BYTES = 32 * 1024
# Spelling -> source rows, 16-byte units of a row, lanes of source row r.
SHAPES = {
    "128x256b": (128, 2, lambda r: [r]),
    "4x256b": (4, 2, lambda r: [32 * r]),
    "128x128b": (128, 1, lambda r: [r]),
    "64x128b.warpx2::02_13": (64, 1, lambda r: [r, r + 64]),
    "64x128b.warpx2::01_23": (64, 1, lambda r: [64 * (r // 32) + r % 32 + d for d in (0, 32)]),
    "32x128b.warpx4": (32, 1, lambda r: [r, r + 32, r + 64, r + 96]),
}


def body_for(spelling, column=0):
    return f"""
 @!%p0 bra ISSUED;
 ld.param.u64 %d20, [DESC];
 tcgen05.cp.cta_group::1.{spelling} [%r2+{column}], %d20;
{COMMIT}"""


def source_unit(image, swizzle, row, unit, lbo, sbo):
    width, xor = model.SWIZZLES[swizzle][1:]
    offset = row % 8 * (16 if swizzle == "none" else width) + row // 8 * sbo
    at = xor(offset + unit * (lbo if swizzle == "none" else 16))
    return image[at : at + 16]


def unpack(unit, fmt):
    """Sixteen bytes that a unit becomes: 4- and 6-bit values in containers of a byte."""
    if fmt == "plain":
        return unit
    bits = 4 if fmt == "b4x16_p64" else 6
    word = int.from_bytes(unit.tobytes(), "little")
    values = [(word >> (bits * i)) & ((1 << bits) - 1) for i in range(16)]
    return np.array([v << 2 if bits == 4 else v for v in values], np.uint8)


@pytest.mark.parametrize("base", range(1, 8))
def test_a_base_offset_without_a_swizzle_has_no_effect(base):
    """As of Triton's copies of scale factors."""
    check_copy("32x128b.warpx4", "none", "plain", base << 49)


@pytest.mark.parametrize("fmt", ["plain", "b6x16_p32", "b4x16_p64"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("shape", SHAPES)
def test_copy(shape, swizzle, fmt):
    check_copy(shape, swizzle, fmt)


def check_copy(shape, swizzle, fmt, descriptor_bits=0):
    rng = np.random.default_rng([len(shape), len(swizzle), len(fmt)])
    rows, units, lanes = SHAPES[shape]
    lbo, sbo = (128, 256) if swizzle == "none" else (16, 8 * model.SWIZZLES[swizzle][1])
    image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    column = int(rng.integers(0, 500))
    desc = model.descriptor(1024, lbo, sbo, swizzle)
    cells = random_cells(rng)
    expected = cells.copy()
    for row in range(rows):
        for unit in range(units):
            words = unpack(source_unit(image, swizzle, row, unit, lbo, sbo), fmt).view(np.uint32)
            for lane in lanes(row):
                expected[lane, column + 4 * unit : column + 4 * unit + 4] = words
    spelling = shape if fmt == "plain" else f"{shape}.b8x16.{fmt}"
    text = build(body_for(spelling, column), shared_bytes=IMAGE_BYTES, params=", .param .u64 DESC")
    out, report = run(text, cells, image, [desc | descriptor_bits])
    np.testing.assert_array_equal(out, expected)
    assert report.warnings == []


def test_copy_spelled_in_the_other_order():
    rng = np.random.default_rng(5)
    image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    cells = random_cells(rng)
    text = build(body_for("warpx4.32x128b"), shared_bytes=IMAGE_BYTES, params=", .param .u64 DESC")
    out, _ = run(text, cells, image, [model.descriptor(1024, 16, 128, "none")])
    words = image[:512].view(np.uint32).reshape(32, 4)
    np.testing.assert_array_equal(out[:, :4], np.tile(words, (4, 1)))
    np.testing.assert_array_equal(out[:, 4:], cells[:, 4:])


def test_copies_are_ordered_before_instructions_of_the_same_thread():
    """A copied over itself twice: the last one wins, without a wait in between."""
    rng = np.random.default_rng(6)
    image = rng.integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    cells = random_cells(rng)
    twice = body_for("128x128b")
    second = "tcgen05.cp.cta_group::1.128x128b [%r2], %d20; add.u64 %d20, %d20, 128;"
    twice = twice.replace(" tcgen05.cp", f" {second}\n tcgen05.cp", 1)
    text = build(twice, shared_bytes=IMAGE_BYTES, params=", .param .u64 DESC")
    out, _ = run(text, cells, image, [model.descriptor(1024, 16, 128, "none")])
    words = image[2048:4096].view(np.uint32).reshape(128, 4)
    np.testing.assert_array_equal(out[:, :4], words)


def test_shift_moves_rows_down_within_quarters():
    rng = np.random.default_rng(7)
    cells = random_cells(rng)
    body = f" @!%p0 bra ISSUED; tcgen05.shift.cta_group::1.down [%r2+20];\n{COMMIT}"
    out, _ = run(build(body), cells)
    expected = cells.copy()
    for lane in range(128):
        if lane % 32 != 31:
            expected[lane, 20:28] = cells[lane + 1, 20:28]
    np.testing.assert_array_equal(out, expected)


def test_shift_from_a_later_quarter():
    rng = np.random.default_rng(8)
    cells = random_cells(rng)
    body = f" @!%p0 bra ISSUED; tcgen05.shift.down.cta_group::1 [%r2+0x400003];\n{COMMIT}"
    out, _ = run(build(body), cells)
    expected = cells.copy()
    for lane in range(64, 127):
        if lane % 32 != 31:
            expected[lane, 3:11] = cells[lane + 1, 3:11]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("instruction", "kind", "complaint"),
    [
        ("tcgen05.shift.cta_group::1.down [%r2+0x100000];", "tmem", "multiple of 32"),
        ("tcgen05.shift.cta_group::1.down [%r2+508];", "tmem", "columns 508..515"),
        ("tcgen05.cp.cta_group::1.128x256b [%r2+505], %d20;", "tmem", "columns 505..512"),
        ("tcgen05.cp.cta_group::1.128x128b [%r2+0x10000], %d20;", "tmem", "lane 1"),
    ],
)
def test_wrong_places(instruction, kind, complaint):
    body = f" ld.param.u64 %d20, [DESC]; @!%p0 bra ISSUED; {instruction}\n{COMMIT}"
    text = build(body, shared_bytes=IMAGE_BYTES, params=", .param .u64 DESC")
    desc = model.descriptor(1024, 16, 128, "none")
    with pytest.raises(EmulatorError) as caught:
        run(text, np.zeros((128, 512), np.uint32), np.ones(IMAGE_BYTES, np.uint8), [desc])
    assert caught.value.kind == kind
    assert complaint in caught.value.reason


@pytest.mark.parametrize("spelling", ["64x128b", "32x128b", "64x128b.warpx4", "128x256b.warpx4"])
def test_shapes_that_do_not_exist(spelling):
    text = build(body_for(spelling), params=", .param .u64 DESC")
    with pytest.raises(EmulatorError, match="128x256b"):
        run(text, np.zeros((128, 512), np.uint32), None, [0])
