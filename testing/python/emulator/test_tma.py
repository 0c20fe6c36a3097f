"""Bulk tensor copies against the box walk of the PTX ISA, written in NumPy."""

import itertools

import numpy as np
import pytest
from emulator.tma_kernels import (
    _LOAD,
    _STORE,
    DEVICE,
    SWIZZLE_XOR,
    WIDTH,
    box_of,
    in_lines,
    kernel,
    load,
    random_array,
    swizzled,
)

from tilelang.emulator import EmulatorError, EmulatorWarning, Im2col
from tilelang.errors import UserError
from tilelang.jit import emulation


@pytest.mark.parametrize("schedule", ["late", "eager", 3])
@pytest.mark.parametrize("swizzle", SWIZZLE_XOR)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_swizzles(swizzle, dtype, schedule):
    rng = np.random.default_rng(1)
    size = np.dtype(dtype).itemsize
    array = random_array(rng, (70, 512 // size), dtype)
    box = (16, min(WIDTH.get(swizzle, 128) // size, 256))
    tensor_map = DEVICE.tensor_map(array, box=box, swizzle=swizzle)
    x, y = 160 // size, 33
    got = load(tensor_map, 16 * box[1] * size, [x, y], 2, schedule=schedule)
    np.testing.assert_array_equal(got, swizzled(box_of(array, box, (y, x), 0), swizzle))


SHAPES = {1: (200,), 2: (19, 40), 3: (7, 9, 24), 4: (4, 5, 6, 16), 5: (3, 4, 3, 5, 16)}
BOXES = {1: (64,), 2: (8, 32), 3: (3, 4, 16), 4: (2, 3, 4, 8), 5: (2, 2, 2, 3, 8)}


@pytest.mark.parametrize("edge", ["inside", "low", "high", "outside"])
@pytest.mark.parametrize("rank", SHAPES)
def test_ranks_and_edges(rank, edge):
    rng = np.random.default_rng(rank)
    array = random_array(rng, SHAPES[rank], np.int32)
    origin = {
        "inside": [1] * rank,
        "low": [-2] + [-1] * (rank - 1),
        "high": [n - b // 2 - 1 for n, b in zip(array.shape, BOXES[rank], strict=True)],
        "outside": [1000] * rank,
    }[edge]
    origin[-1] = origin[-1] // 4 * 4  # the innermost coordinate is a multiple of 16 bytes
    tensor_map = DEVICE.tensor_map(array, box=BOXES[rank])
    nbytes = 4 * int(np.prod(BOXES[rank]))
    got = load(tensor_map, nbytes, origin[::-1], rank)
    expected = box_of(array, BOXES[rank], origin, 0)
    np.testing.assert_array_equal(got.view(np.int32), expected.reshape(-1))


@pytest.mark.parametrize("dtype, start", [(np.uint8, 8), (np.float16, 4), (np.int32, -3)])
def test_start_off_the_grid_of_16_bytes_is_an_error(dtype, start):
    array = np.ones((8, 64), dtype)
    tensor_map = DEVICE.tensor_map(array, box=(4, 16))
    with pytest.raises(EmulatorError, match=r"innermost coordinate .* no multiple of 16 bytes"):
        load(tensor_map, 64 * array.itemsize, [start, 0], 2)


def test_strided_views_and_element_strides():
    rng = np.random.default_rng(4)
    whole = random_array(rng, (40, 3, 64), np.uint16)
    array = whole[:, 1, 8:56]
    tensor_map = DEVICE.tensor_map(array, box=(10, 16), element_strides=(3, 1))
    got = load(tensor_map, 4 * 32, [8, 5], 2)
    expected = box_of(array, (10, 16), (5, 8), 0, [3, 1])
    np.testing.assert_array_equal(got.view(np.uint16), expected.reshape(-1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_nan_fill(dtype):
    array = np.ones((8, 32), dtype)
    tensor_map = DEVICE.tensor_map(array, box=(8, 16), oob_fill="nan")
    got = load(tensor_map, 128 * np.dtype(dtype).itemsize, [24, 4], 2).view(dtype).reshape(8, 16)
    assert (got[:4, :8] == 1).all()
    assert np.isnan(got[4:]).all()
    assert np.isnan(got[:, 8:]).all()


@pytest.mark.parametrize("kind", ["tf32", "tf32_ftz"])
def test_tf32_elements_are_rounded(kind):
    rng = np.random.default_rng(13)
    array = rng.standard_normal((8, 32)).astype(np.float32)
    array[0, :4] = [np.inf, -np.inf, np.float32(3.4e38), -0.0]
    tensor_map = DEVICE.tensor_map(array, box=(8, 32), dtype=kind)
    exact = array.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unit = np.exp2(np.floor(np.log2(np.abs(exact), where=exact != 0)) - 10)
        nearest = np.sign(exact) * np.floor(np.abs(exact) / unit + 0.5) * unit
    nearest[0, [0, 1, 3]] = exact[0, [0, 1, 3]]
    bits = array.view(np.uint32)
    bits[2, :4] = [0x3F801000, 0x3F803000, 0xBF801001, 0xBF800FFF]  # two ties, which go to even
    nearest[2, :4] = [1, 1 + 2.0**-9, -1 - 2.0**-10, -1]
    got = load(tensor_map, 1024, [0, 0], 2).view(np.float32).reshape(8, 32)
    np.testing.assert_array_equal(got.astype(np.float64), nearest)
    assert not np.array_equal(got, array)


def test_gather_of_four_rows():
    rng = np.random.default_rng(5)
    array = random_array(rng, (50, 128), np.uint16)
    tensor_map = DEVICE.tensor_map(array, box=(1, 64), swizzle="128B")
    rows = [7, 49, 0, 60]
    got = load(tensor_map, 512, [32, *rows], 2, mode=".tile::gather4")
    expected = np.zeros((4, 64), np.uint16)
    for i, row in enumerate(rows[:3]):
        expected[i] = array[row, 32:96]
    np.testing.assert_array_equal(got, swizzled(expected, "128B"))


def test_a_gather_into_the_middle_of_a_swizzle_pattern():
    """Two copies of four rows fill one pattern of eight; rows of two patterns give a warning."""
    array = random_array(np.random.default_rng(6), (50, 64), np.uint16)
    text = kernel(_LOAD, 2, 5, bytes=512, mode=".tile::gather4", offsets="")
    text = text.replace("tile; mov.u32 %r2", "tile+512; mov.u32 %r2")
    image, rows = np.zeros(512, np.uint8), [7, 49, 0, 3]
    tensor_map = DEVICE.tensor_map(array, box=(1, 64), swizzle="128B")
    coords = np.array([0, *rows], np.int32)
    report = DEVICE.load_ptx(text)["k"].launch(1, 128, [tensor_map, image, coords])
    assert report.warnings == []
    eight = np.concatenate([np.zeros((4, 64), np.uint16), array[rows]])
    np.testing.assert_array_equal(image, swizzled(eight, "128B")[512:])

    box = DEVICE.tensor_map(array, box=(4, 64), swizzle="128B")
    text = text.replace(".tile::gather4", "").replace("%r5, %r6, %r7, %r8, %r9", "%r5, %r6")
    assert DEVICE.load_ptx(text)["k"].launch(1, 128, [box, image, coords]).warnings == []
    with pytest.warns(EmulatorWarning, match="swizzle pattern"):
        across = text.replace("tile+512", "tile+768")
        DEVICE.load_ptx(across)["k"].launch(1, 128, [box, image, coords])


@pytest.mark.parametrize("stride", [1, 2])
def test_im2col(stride):
    """A 3x3 convolution's window (r, s) = (2, 1) with padding 1 over an [N, H, W, C] array."""
    rng = np.random.default_rng(6)
    array = random_array(rng, (3, 6, 7, 16), np.uint16)
    pixels, (r, s), start = 30, (2, 1), (0, 2, 1)
    info = Im2col(lower=(-1, -1), upper=(-1, -1), channels=8, pixels=pixels)
    tensor_map = DEVICE.tensor_map(array, im2col=info, element_strides=(1, stride, stride, 1))
    n, h, w = start
    text = {"mode": ".im2col", "offsets": f", {{{s}, {r}}}"}
    got = load(tensor_map, pixels * 16, [8, w, h, n], 4, **text).view(np.uint16).reshape(-1, 8)
    expected = np.zeros((pixels, 8), np.uint16)
    for p in range(pixels):
        y, x = h + r, w + s
        if n < 3 and 0 <= y < 6 and 0 <= x < 7:
            expected[p] = array[n, y, x, 8:16]
        w += stride
        if w > 7 - 1 - 1:
            w, h = -1, h + stride
            if h > 6 - 1 - 1:
                h, n = -1, n + 1
    np.testing.assert_array_equal(got, expected)


WIDE = {"lower": (0, -1), "upper": (0, -1), "channels": 32}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("pixels", "halo", "offset"), [(17, 0, 1), (3, 2, 0), (2, 1, 2)])
def test_im2col_wide(pixels, halo, offset, stride):
    """Pixels of one row of each image, and on the last line a halo beyond the bounding box."""
    array = random_array(np.random.default_rng(8), (3, 6, 7, 64), np.uint16)
    info = Im2col(**WIDE, pixels=pixels)
    tensor_map = DEVICE.tensor_map(
        array, im2col=info, element_strides=(1, 1, stride, 1), swizzle="64B"
    )
    n, h, w = 1, 4, -1
    text = {"mode": ".im2col::w", "offsets": f", {{{halo}, {offset}}}"}
    got = load(tensor_map, (pixels + halo) * 64, [32, w, h, n], 4, **text)
    expected = np.zeros((pixels + halo, 32), np.uint16)
    w += offset
    for p in range(pixels + halo):
        if p < pixels and w > 7 - 1 - 1 + offset:
            w, n = -1 + offset, n + 1
        if n < 3 and 0 <= w < 7:
            expected[p] = array[n, h, w, 32:]
        w += stride
    np.testing.assert_array_equal(got, swizzled(expected, "64B"))


def test_wrong_im2col_wide():
    array = np.zeros((3, 6, 7, 64), np.uint16)
    for coords, pixels, swizzle, words in [
        ([0, 0, 0, 0], 9, "64B", "a halo and pixels of several lines"),
        ([0, 7, 0, 0], 2, "64B", "on the right of its bounding box"),
        ([0, 0, 0, 0], 2, None, "needs a swizzle"),
    ]:
        info = Im2col(**WIDE, pixels=pixels)
        tensor_map = DEVICE.tensor_map(array, im2col=info, swizzle=swizzle)
        text = {"mode": ".im2col::w", "offsets": ", {1, 0}"}
        with pytest.raises(EmulatorError, match=words):
            load(tensor_map, (pixels + 1) * 64, coords, 4, **text)


@pytest.mark.parametrize("kind", ["u4_unpack_u8", "u6_unpack_u8"])
def test_padded_small_types(kind):
    rng = np.random.default_rng(7)
    bits = int(kind[1])
    array = rng.integers(0, 256, (9, 256 * bits // 8), dtype=np.uint8)
    tensor_map = DEVICE.tensor_map(array, box=(4, 128), dtype=kind, swizzle="128B")
    # The mbarrier counts what the elements take in global memory.
    got = load(tensor_map, 512, [128, 6], 2, counted=64 * bits)
    expected = np.zeros((4, 8, 16), np.uint8)
    data = 16 * bits // 8
    expected[:3, :, :data] = array[6:9, 128 * bits // 8 :].reshape(3, 8, data)
    np.testing.assert_array_equal(got, swizzled(expected, "128B"))


@pytest.mark.parametrize("schedule", ["late", "eager", 2])
def test_pads_do_not_count_as_bytes_of_a_phase(schedule):
    tensor_map = DEVICE.tensor_map(np.zeros((4, 64), np.uint8), box=(4, 128), dtype="u4_unpack_u8")
    with pytest.raises(EmulatorError) as caught:
        load(tensor_map, 512, [0, 0], 2, schedule=schedule)
    assert caught.value.kind == "deadlock"


def store(tensor_map, image, coords, rank, instruction, **options):
    text = kernel(_STORE, rank, len(coords), bytes=image.nbytes, instruction=instruction)
    DEVICE.load_ptx(text)["k"].launch(
        1, 128, [tensor_map, image, np.array(coords, np.int32)], **options
    )


@pytest.mark.parametrize("schedule", ["late", "eager", 5])
@pytest.mark.parametrize("swizzle", [None, "64B", "128B"])
def test_store_clips(swizzle, schedule):
    rng = np.random.default_rng(8)
    array = random_array(rng, (20, 80), np.uint16)
    box = (16, 32)
    data = random_array(rng, box, np.uint16)
    expected = array.copy()
    expected[11:, 56:] = data[:9, :24]
    tensor_map = DEVICE.tensor_map(array, box=box, swizzle=swizzle)
    instruction = "cp.async.bulk.tensor.2d.global.shared::cta.tile"
    image = swizzled(in_lines(data, swizzle) if swizzle else data, swizzle)
    store(tensor_map, image, [56, 11], 2, instruction, schedule=schedule)
    np.testing.assert_array_equal(array, expected)


REDUCTIONS = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda a, b: np.where(a >= b, 0, a + 1),
    "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
}


@pytest.mark.parametrize("op", REDUCTIONS)
def test_integer_reductions(op):
    rng = np.random.default_rng(9)
    array = rng.integers(0, 200, (8, 64), dtype=np.uint32)
    data = rng.integers(0, 200, (8, 64), dtype=np.uint32)
    before = array.copy()
    tensor_map = DEVICE.tensor_map(array, box=(8, 64))
    store(
        tensor_map,
        data.view(np.uint8).reshape(-1),
        [0, 0],
        2,
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile",
    )
    np.testing.assert_array_equal(array, REDUCTIONS[op](before, data))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_float_addition(dtype):
    rng = np.random.default_rng(10)
    array, data = rng.standard_normal((2, 8, 64)).astype(dtype)
    array = array.copy()
    expected = (array.astype(np.float64) + data.astype(np.float64)).astype(dtype)
    tensor_map = DEVICE.tensor_map(array, box=(8, 64))
    store(
        tensor_map,
        np.ascontiguousarray(data).view(np.uint8).reshape(-1),
        [0, 0],
        2,
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile",
    )
    np.testing.assert_array_equal(array, expected)


def test_scatter_of_four_rows():
    rng = np.random.default_rng(11)
    array = random_array(rng, (30, 64), np.uint16)
    data = random_array(rng, (4, 64), np.uint16)
    expected = array.copy()
    rows = [29, 3, 11, 4]
    expected[rows] = data
    tensor_map = DEVICE.tensor_map(array, box=(1, 64))
    store(
        tensor_map,
        data.view(np.uint8).reshape(-1),
        [0, *rows],
        2,
        "cp.async.bulk.tensor.2d.tile::scatter4.global.shared::cta",
    )
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(("swizzle", "inner"), [("32B", 16), ("64B", 16), ("128B", 32)])
def test_narrow_boxes_begin_lines_of_their_swizzle(swizzle, inner):
    rng = np.random.default_rng(12)
    array = random_array(rng, (40, 64), np.uint16)
    tensor_map = DEVICE.tensor_map(array, box=(24, inner // 2), swizzle=swizzle)
    lines = in_lines(box_of(array, (24, inner // 2), (5, 8), 0), swizzle)
    text = kernel(_LOAD, 2, 2, bytes=24 * inner, mode="", offsets="")
    text = text.replace(f"%r21, {24 * inner}", f"%r21, {lines.size}")
    image = np.full(-(-lines.size // 512) * 512, 0xCC, np.uint8)
    DEVICE.load_ptx(text)["k"].launch(1, 128, [tensor_map, image, np.array([8, 5], np.int32)])
    expected, touched = swizzled(lines, swizzle), np.zeros_like(lines)
    touched[:, :inner] = 1
    here = swizzled(touched, swizzle) == 1
    np.testing.assert_array_equal(image[: lines.size][here], expected[here])
    assert not np.isin(image[: lines.size][~here], [0xCC]).any()  # nothing wrote there


@pytest.mark.parametrize("instruction", ["cp.async.bulk", "cp.reduce.async.bulk"])
@pytest.mark.parametrize("start", [(-8, 0), (0, -1)])
def test_stores_begin_at_no_negative_coordinate(start, instruction):
    array = np.zeros((20, 64), np.uint32)
    tensor_map = DEVICE.tensor_map(array, box=(16, 8))
    instruction += ".tensor.2d.global.shared::cta" + (".add" if "reduce" in instruction else "")
    with pytest.raises(EmulatorError, match="are not negative") as caught:
        store(tensor_map, np.zeros(512, np.uint8), list(start), 2, f"{instruction}.tile")
    assert caught.value.kind == "tensor-map"


def test_im2col_stores_stay_inside():
    array = np.zeros((2, 6, 7, 16), np.uint16)
    info = Im2col(lower=(0, -1), upper=(0, 0), channels=16, pixels=16)
    tensor_map = DEVICE.tensor_map(array, im2col=info)
    with pytest.raises(EmulatorError, match="bounding box inside"):
        store(tensor_map, np.zeros(512, np.uint8), [0, 0, 0, 0], 4,
              "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs")  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"box": (300, 16)}, "256"),
        ({"box": (4, 3)}, "multiple of 16"),
        ({"box": (4, 64), "swizzle": "64B"}, "more than the swizzle"),
        ({"box": (4, 16), "swizzle": "96B"}, "unknown"),
        ({"box": (4, 16), "element_strides": (9, 1)}, "elementStrides"),
        ({"box": (4, 16), "oob_fill": "nan"}, "float type"),
        ({"box": (4,)}, "extents"),
        ({"box": (4, 16), "interleave": "16B"}, "4 to 6 dimensions"),
        ({"box": (4, 64), "swizzle": "128B_atom64B"}, "chunks of 64 bytes"),
    ],
)
def test_illegal_maps(fields, complaint):
    with pytest.raises(UserError, match=complaint):
        DEVICE.tensor_map(np.zeros((64, 64), np.uint16), **fields)


INTERLEAVES = [("16B", None, 16), ("16B", "128B", 16), ("32B", "32B", 32)]


def sliced_box(array, box, origin, steps=None):
    """The box [N, C, spatial...] of an array [N, C, spatial..., c]: one slice of channels."""
    steps = steps or [1] * (array.ndim - 1)
    counts = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    counts[1] = 1
    out = np.zeros((*counts, array.shape[-1]), array.dtype)
    for index in itertools.product(*map(range, out.shape)):
        at = [o + i * s for o, i, s in zip(origin, index, steps, strict=False)]
        if all(0 <= a < extent for a, extent in zip(at, array.shape, strict=False)):
            out[index] = array[(*at, index[-1])]
    return out


@pytest.mark.parametrize("interleave, swizzle, size", INTERLEAVES)
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize("edge", ["inside", "low", "high", "no slice"])
@pytest.mark.parametrize("rank", [3, 4, 5])
def test_interleaved_loads(rank, edge, dtype, interleave, swizzle, size):
    rng = np.random.default_rng(rank)
    per = size // np.dtype(dtype).itemsize
    spatial = (4, 5, 19)[5 - rank :]
    whole = random_array(rng, (3, 5, *spatial, 2 * per), dtype)
    array = np.lib.stride_tricks.as_strided(
        whole[:, 1:], (3, 4, *spatial, per),
        [*whole.strides[:2], *(s // 2 for s in whole.strides[2:-1]), whole.itemsize],
    )  # fmt: skip
    box = (2, 3, *(2, 3, 16)[5 - rank :])
    origin = {
        "inside": [1, 2, *(1, 2, 3)[5 - rank :]],
        "low": [-1, 0, *(-1 for _ in spatial)],
        "high": [2, 3, *(extent - 1 for extent in spatial)],
        "no slice": [1, 4, *(0 for _ in spatial)],
    }[edge]
    tensor_map = DEVICE.tensor_map(array, box=box, swizzle=swizzle, interleave=interleave)
    coords = [*origin[:1:-1], origin[1], origin[0]]
    nbytes = box[0] * int(np.prod(box[2:])) * size
    got = load(tensor_map, nbytes, coords, rank)
    padded = np.zeros(-(-nbytes // 128) * 128, np.uint8)
    padded[:nbytes] = sliced_box(array, box, origin).reshape(-1).view(np.uint8)
    expected = swizzled(padded, swizzle)
    if swizzle != "128B":
        np.testing.assert_array_equal(got, expected[:nbytes])
    else:  # the swizzle may move the end of the box beyond it
        np.testing.assert_array_equal(got[: nbytes // 128 * 128], expected[: nbytes // 128 * 128])


def test_interleaved_rows_step_over_slices():
    rng = np.random.default_rng(3)
    array = random_array(rng, (3, 4, 6, 9, 8), np.uint16)
    box, steps, origin = (2, 2, 5, 8), [1, 1, 2, 3], [0, 1, 1, 1]
    tensor_map = DEVICE.tensor_map(array, box=box, interleave="16B", element_strides=steps)
    expected = sliced_box(array, box, origin, steps).reshape(-1)
    got = load(tensor_map, expected.nbytes, [1, 1, 1, 0], 4)
    np.testing.assert_array_equal(got.view(np.uint16), expected)


@pytest.mark.parametrize("interleave, swizzle, size", INTERLEAVES[::2])
@pytest.mark.parametrize("reduce", [None, "add", "max"])
def test_interleaved_stores_and_reductions(reduce, interleave, swizzle, size):
    rng = np.random.default_rng(9)
    per = size // 4
    array = rng.integers(0, 1000, (3, 4, 5, per), dtype=np.uint32)
    before = array.copy()
    data = rng.integers(0, 1000, (2, 16, per), dtype=np.uint32)
    tensor_map = DEVICE.tensor_map(array, box=(2, 1, 16), swizzle=swizzle, interleave=interleave)
    instruction = "cp.async.bulk" if reduce is None else "cp.reduce.async.bulk"
    instruction += ".tensor.3d.global.shared::cta" + (f".{reduce}" if reduce else "")
    store(tensor_map, swizzled(data, swizzle), [3, 2, 2], 3, f"{instruction}.tile")
    expected = before.copy()
    combine = {None: lambda a, b: b, "add": lambda a, b: a + b, "max": np.maximum}[reduce]
    expected[2, 2, 3:] = combine(before[2, 2, 3:], data[0, :2])
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("interleave, swizzle, size", INTERLEAVES[::2])
def test_interleaved_im2col(interleave, swizzle, size):
    """Window (r, s) = (2, 1) of a 3x3 convolution with padding 1 and stride 2."""
    rng = np.random.default_rng(6)
    per = size // 2
    array = random_array(rng, (3, 4, 6, 7, per), np.uint16)
    pixels, (r, s), (n, h, w) = 28, (2, 1), (0, 1, 1)
    info = Im2col(lower=(-1, -1), upper=(-1, -1), channels=per, pixels=pixels)
    tensor_map = DEVICE.tensor_map(
        array, im2col=info, element_strides=(1, 1, 2, 2), interleave=interleave, swizzle=swizzle
    )
    text = {"mode": ".im2col", "offsets": f", {{{s}, {r}}}"}
    got = load(tensor_map, pixels * size, [w, h, 2, n], 4, **text)
    expected = np.zeros((pixels, per), np.uint16)
    for p in range(pixels):
        y, x = h + r, w + s
        if n < 3 and 0 <= y < 6 and 0 <= x < 7:
            expected[p] = array[n, 2, y, x]
        w += 2
        if w > 7 - 1 - 1:
            w, h = -1, h + 2
            if h > 6 - 1 - 1:
                h, n = -1, n + 1
    np.testing.assert_array_equal(got, swizzled(expected, swizzle))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"interleave": "32B", "swizzle": "32B"}, "has 32 bytes, got 16"),
        ({"dtype": "u4_unpack_u8"}, "has 16 bytes, got 16|cannot be interleaved"),
        ({"box": (1, 8, 300)}, "boxDim"),
        ({"box": (1, 8, 5)}, "multiple of 16"),
        ({"box": (1, 8)}, "3 extents"),
        ({"element_strides": (1, 1, 9)}, "elementStrides"),
    ],
)
def test_illegal_interleaved_maps(fields, complaint):
    array = np.zeros((2, 4, 10, 8), np.uint16)
    if "dtype" in fields:
        array = array.view(np.uint8)
    with pytest.raises(UserError, match=complaint):
        DEVICE.tensor_map(array, **{"box": (1, 8, 8), "interleave": "16B", **fields})


def test_swizzled_slices_of_16_bytes_warn():
    array = np.ones((2, 4, 10, 8), np.uint16)
    tensor_map = DEVICE.tensor_map(array, box=(1, 1, 8), interleave="16B", swizzle="32B")
    with pytest.warns(UserWarning, match="slices of 16 bytes"):
        load(tensor_map, 128, [0, 0, 0], 3)


_PREFETCH = """
 @!%p0 bra END;
 cp.async.bulk.prefetch.tensor.{rank}d.L2.global{mode} [%d0, {{{coords}}}]{offsets};
END:
"""


@pytest.mark.parametrize("interleave", [None, "16B"])
@pytest.mark.parametrize("im2col", [False, True])
def test_prefetch_changes_nothing_and_checks_its_map(interleave, im2col):
    rng = np.random.default_rng(5)
    shape = (2, 4, 5, 10, 8) if interleave else (2, 5, 10, 16)
    array = random_array(rng, shape, np.uint16)
    before = array.copy()
    fields = {"im2col": Im2col((0, 0), (0, 0), 8, 16)} if im2col else {"box": (1, 1, 2, 8)}
    tensor_map = DEVICE.tensor_map(array, interleave=interleave, **fields)
    mode = {"mode": ".im2col" if im2col else ".tile", "offsets": ", {0, 0}" if im2col else ""}
    data = [tensor_map, np.zeros(512, np.uint8), np.zeros(4, np.int32)]
    DEVICE.load_ptx(kernel(_PREFETCH, 4, **mode))["k"].launch(1, 128, data)
    np.testing.assert_array_equal(array, before)
    with pytest.raises(EmulatorError, match="3-dimensional"):
        mode["offsets"] = ", {0}" if im2col else ""
        DEVICE.load_ptx(kernel(_PREFETCH, 3, **mode))["k"].launch(1, 128, data)


def test_slices_of_32_bytes_need_their_swizzle_and_alignment():
    array = np.zeros((2, 4, 10, 16), np.uint16)
    with pytest.raises(UserError, match="swizzle of 32 bytes"):
        DEVICE.tensor_map(array, box=(1, 1, 8), interleave="32B")
    slices = np.lib.stride_tricks.as_strided(array, (2, 3, 8, 16), (1296, 336, 32, 2))
    with pytest.raises(UserError, match="no multiple of 32"):
        DEVICE.tensor_map(slices, box=(1, 1, 8), interleave="32B", swizzle="32B")


def test_a_launch_describes_the_same_interleaved_map():
    """What the runtime tells the emulator is in the driver's terms."""
    array = np.zeros((2, 4, 10, 8), np.uint16)
    mine = DEVICE.tensor_map(array, box=(1, 16, 8), interleave="16B")
    described = emulation._tensor_map(DEVICE, {
        "address": array.ctypes.data, "element_bytes": 2, "dtype": "uint16", "dims": [10, 4, 2],
        "strides": [160, 640], "box": [8, 16, 1], "element_strides": [1, 1, 1], "swizzle": 0,
        "interleave": 1, "oob_fill": 0,
    }, array)  # fmt: skip
    assert described.encoded[8:] == mine.encoded[8:]


def test_strides_must_be_multiples_of_16_bytes():
    with pytest.raises(UserError, match="globalStrides"):
        DEVICE.tensor_map(np.zeros((64, 63), np.uint16), box=(4, 16))


def test_map_of_another_rank_is_reported():
    tensor_map = DEVICE.tensor_map(np.zeros((64, 64), np.uint16), box=(4, 16))
    with pytest.raises(EmulatorError, match="3-dimensional") as caught:
        load(tensor_map, 128, [0, 0, 0], 3)
    assert caught.value.kind == "tensor-map"


def test_bytes_that_never_come_are_a_deadlock():
    tensor_map = DEVICE.tensor_map(np.zeros((64, 64), np.uint16), box=(4, 16))
    with pytest.raises(EmulatorError, match="awaits 0 of 1 arrivals and 16 bytes") as caught:
        load(tensor_map, 128 + 16, [0, 0], 2)
    assert caught.value.kind == "deadlock"


def test_more_bytes_than_expected_underflow():
    tensor_map = DEVICE.tensor_map(np.zeros((64, 64), np.uint16), box=(4, 16))
    with pytest.raises(EmulatorError, match="underflow") as caught:
        load(tensor_map, 112, [0, 0], 2)
    assert caught.value.kind == "mbarrier"
