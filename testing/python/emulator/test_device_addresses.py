"""Device addresses that a program knows: in structures, chosen ones, and raw tensor maps."""

import ctypes
import re

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError, tensor_map
from tilelang.errors import UserError
from tilelang.runtime.toolchain import ToolNotFoundError, find_ptxas

# out[i] = in[i] + n, where a structure {in, out, n} is passed by value.
BY_VALUE = (
    HEADER
    + """.visible .entry k(.param .align 8 .b8 args[24]) {
  .reg .b64 %d<4>; .reg .b32 %r<4>;
  ld.param.u64 %d0, [args]; ld.param.u64 %d1, [args+8]; ld.param.u32 %r1, [args+16];
  mov.u32 %r0, %tid.x; mad.wide.u32 %d0, %r0, 4, %d0; mad.wide.u32 %d1, %r0, 4, %d1;
  ld.global.u32 %r2, [%d0]; add.u32 %r2, %r2, %r1; st.global.u32 [%d1], %r2; ret; }"""
)


class Arguments(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint64), ("out", ctypes.c_uint64), ("n", ctypes.c_uint32))


@pytest.mark.parametrize("form", ["numpy scalar", "numpy array", "ctypes", "bytes"])
@pytest.mark.parametrize("address", [None, 0x7F3A_1234_5600, 0x1_F000_0010_0010])
def test_addresses_in_a_structure(form, address):
    device = Device()
    x = np.random.default_rng(0).integers(0, 1 << 20, 64, dtype=np.uint32)
    out = np.zeros(96, np.uint32)
    with device.map(x[32:], address=address) as x_map, device.map(out[16:48]) as out_map:
        assert address in (None, x_map.address)
        layout = np.dtype([("x", "u8"), ("out", "u8"), ("n", "u4")], align=True)
        value = np.array((x_map.address, out_map.address, 7), layout)
        argument = {
            "numpy scalar": value[()],
            "numpy array": value,
            "ctypes": Arguments(x_map.address, out_map.address, 7),
            "bytes": value.tobytes(),
        }[form]
        kernel = device.load_ptx(BY_VALUE)["k"]
        kernel.launch(1, 32, [argument])
        np.testing.assert_array_equal(out[16:48], x[32:] + 7)
        assert not out[:16].any() and not out[48:].any()
        with pytest.raises(EmulatorError, match="out of bounds"):
            kernel.launch(1, 33, [argument])
    with pytest.raises(EmulatorError, match="no buffer of this launch"):
        kernel.launch(1, 32, [argument])


def test_a_mapping_is_a_pointer_and_its_array_keeps_its_address():
    device = Device()
    kernel = device.load_ptx(SHOW)["k"]
    x, out = np.zeros(8, np.uint32), np.zeros(1, np.uint64)
    mapping = device.map(x, address=1 << 40)
    for argument in (mapping, x, mapping.address):
        out[:] = 0
        kernel.launch(1, 1, [argument, out])
        assert out[0] == 1 << 40


SHOW = (
    HEADER
    + """.visible .entry k(.param .u64 p, .param .u64 out) { .reg .b64 %d<2>;
  ld.param.u64 %d0, [p]; ld.param.u64 %d1, [out]; st.global.u64 [%d1], %d0; ret; }"""
)


def test_chosen_addresses_that_cannot_be():
    device = Device()
    x, y, z = np.zeros(1024, np.uint8), np.zeros(1024, np.uint8), np.zeros(1024, np.uint8)
    base = (1 << 40) + 4096
    first = device.map(x, address=base, name="x")
    for array, address, complaint in [
        (y, base + 1023, "'x' lies there"),
        (y, base - 1023, "'y' of 1024 bytes"),
        (y, 1 << 35, "from 0x1000000000"),
        (y, 1 << 15, "from 0x10000 to 0x700000000"),
        (y, 0x7_0000_0000 - 1023, "from 0x10000 to 0x700000000"),
        (y, 1 << 49, "to 0x1fff000000000"),
        (y, (1 << 41) - 512, "does not cross"),
        (y, 0, "at least"),
        (y, -5, "at least"),
        (y, 1.5, "an integer"),
        (x, 1 << 41, "is mapped already"),
        ("text", 1 << 41, "no array"),
    ]:
        with pytest.raises(UserError, match=complaint):
            device.map(array, address=address, name="y")
    beside = device.map(y, address=base + 1024, name="y")
    first.release()
    third = device.map(z, address=base - 512)
    assert (beside.address, third.address) == (base + 1024, base - 512)


@pytest.mark.parametrize("address", [1 << 16, 0x29D4_3640, 0x7_0000_0000 - 8])
def test_low_addresses(address):
    """The heap of a host may lie there; nothing else is mapped there, then or later."""
    device, x = Device(), np.arange(8, dtype=np.uint8)
    kernel = device.load_ptx(SHOW)["k"]
    mapping = device.map(x, address=address)
    out = np.zeros(1, np.uint64)
    kernel.launch(1, 1, [mapping, out])
    assert out[0] == address
    mapping.release()
    other = device.map(np.zeros(8, np.uint8))
    assert other.address >= 1 << 36
    kernel.launch(1, 1, [x, out])
    assert out[0] >= 1 << 36


def test_arrays_beside_each_other_in_the_address_space():
    """An access that crosses from one to the next, which lies elsewhere on the host, is refused."""
    device = Device()
    x, y, out = np.arange(7, dtype=np.uint32), np.arange(7, 16, dtype=np.uint32), np.zeros(16, "u4")
    base = 0x55_0000_0100
    low, high = device.map(x, address=base), device.map(y, address=base + 28, name="y")
    with device.map(out) as to:
        device.load_ptx(BY_VALUE)["k"].launch(1, 16, [Arguments(base, to.address, 0)])
        np.testing.assert_array_equal(out, np.arange(16))
        wide = BY_VALUE.replace("global.u32 %r2, [%d0]", "global.v2.u32 {%r2, %r3}, [%d0]")
        wide = wide.replace("%r0, 4, %d0", "%r0, 8, %d0")
        wide = wide.replace("add.u32 %r2, %r2, %r1", "add.u32 %r2, %r2, %r3")  # reads both
        with pytest.raises(EmulatorError, match="out of bounds") as caught:
            device.load_ptx(wide)["k"].launch(1, 8, [Arguments(base, to.address, 0)])
        assert (caught.value.lane, caught.value.address) == (3, base + 24)
    high.release()
    with pytest.raises(EmulatorError, match="byte 28 of buffer 'array'") as caught:
        device.load_ptx(BY_VALUE)["k"].launch(1, 16, [Arguments(base, base, 0)])
    assert caught.value.lane == 7
    low.release()


def driver_enumeration(name):
    """The enumerators of CUDA's header by their numbers, without the common prefix."""
    try:
        text = (find_ptxas().parent.parent / "include" / "cuda.h").read_text()
    except (ToolNotFoundError, OSError):
        pytest.skip("no cuda.h")
    body = re.search(rf"enum {name}_enum \{{(.*?)\}}", text, re.DOTALL)[1]
    return re.findall(r"CU_TENSOR_MAP_[A-Z0]+?_(?:TYPE_)?(\w+)", re.sub(r"/\*.*?\*/", "", body))


def test_numbers_of_the_driver():
    names = [name.lower() for name in driver_enumeration("CUtensorMapDataType")]
    ours = {"int32": "s32", "int64": "s64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
            "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64",
            "bfloat16": "bf16", "float32_ftz": "f32_ftz", "tfloat32": "tf32",
            "tfloat32_ftz": "tf32_ftz", "16u4_align8b": "u4", "16u4_align16b": "u4_unpack_u8",
            "16u6_align16b": "u6_unpack_u8"}  # fmt: skip
    assert [ours[name] for name in names] == list(tensor_map._DRIVER_TYPES)


TYPES = {0: "uint8", 1: "uint16", 2: "uint32", 3: "int32", 4: "uint64", 5: "int64", 6: "float16",
         7: "float32", 8: "float64"}  # fmt: skip


@pytest.mark.parametrize("number", TYPES)
@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_maps_of_driver_fields(number, rank):
    """They are those of the array that the fields describe."""
    rng = np.random.default_rng(10 * number + rank)
    device = Device()
    size = np.dtype(TYPES[number]).itemsize
    shape = [int(n) for n in rng.integers(2, 5, rank - 1)] + [64]
    array = np.zeros(shape, TYPES[number])
    box, steps = [min(2, n) for n in shape[:-1]] + [16], [1] * rank
    expected = device.tensor_map(array, box=box, element_strides=steps, oob_fill="zeros")
    with device.map(array) as mapping:
        for address in (mapping.address, array, np.int64(mapping.address)):
            got = device.encode_tiled(
                data_type=number, rank=rank, global_address=address, global_dim=shape[::-1],
                global_strides=[int(s) for s in array.strides[::-1][1:]], box_dim=box[::-1],
                element_strides=steps, l2_promotion=2,
            )  # fmt: skip
            assert got.encoded == expected.encoded
    assert size == array.strides[-1]


FIELDS = {
    "data_type": 6, "rank": 2, "global_dim": (64, 8), "global_strides": (128,), "box_dim": (64, 8),
    "element_strides": (1, 1), "swizzle": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"data_type": 16}, "data_type must be at most 15"),
        ({"data_type": "f16"}, "an integer"),
        ({"rank": 6}, "rank must be at most 5"),
        ({"global_dim": (64,)}, "global_dim must have 2"),
        ({"global_strides": (2, 128)}, "global_strides must have 1"),
        ({"global_strides": (100,)}, "16"),
        ({"global_strides": 128}, "global_strides must have 1"),
        ({"box_dim": (65, 8)}, "boxDim"),
        ({"box_dim": (0, 8)}, "box"),
        ({"element_strides": (1, 9)}, "elementStrides"),
        ({"interleave": 3}, "interleave must be at most 2"),
        ({"swizzle": 7}, "swizzle must be at most 6"),
        ({"l2_promotion": 4}, "l2_promotion must be at most 3"),
        ({"oob_fill": 2}, "oob_fill must be at most 1"),
        ({"global_address": 8}, "16"),
        ({"global_address": None}, "global_address must be an integer"),
    ],
)
def test_illegal_driver_fields(change, complaint):
    fields = {**FIELDS, "global_address": 1 << 40}
    assert len(Device().encode_tiled(**fields).encoded) == 128
    with pytest.raises(UserError, match=complaint):
        Device().encode_tiled(**{**fields, **change})


def test_swizzles_of_blackwell_need_it():
    with pytest.raises(UserError, match="needs sm_100a"):
        Device("sm_90a").encode_tiled(**{**FIELDS, "swizzle": 4}, global_address=1 << 40)
