"""What launches take as arguments, extents and settings, and what they refuse."""

import numpy as np
import pytest
import torch
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError, Options, Pointer
from tilelang.errors import ArgumentError, UserError

COPY_SCALAR = """
.visible .entry k(.param .u64 OUT, .param .{type} x) {{
 .reg .b64 %d, %v; .reg .b32 %r; .reg .b16 %h;
 ld.param.u64 %d, [OUT]; ld.param.b{bits} {register}, [x]; st.global.b{bits} [%d], {register};
 ret;
}}
"""
REGISTERS = {16: "%h", 32: "%r", 64: "%v"}

# Writes 7 to the word INDEX of B.
STORE = """
.visible .entry k(.param .u64 A, .param .u64 B, .param .u32 INDEX) {
 .reg .b64 %d<3>; .reg .b32 %r;
 ld.param.u64 %d0, [B]; ld.param.u32 %r, [INDEX]; mad.wide.u32 %d1, %r, 4, %d0;
 mov.u32 %r, 7; st.global.u32 [%d1], %r; ret;
}
"""


def store(args, target, index):
    """Launches a store of 7 to word ``index`` of one of two arrays."""
    kernel = Device("sm_100a").load_ptx(HEADER + STORE.replace("[B]", f"[{target}]"))["k"]
    kernel.launch(1, 1, [*args, index])


def bits_of(kind, value):
    """Returns the bits with which a parameter of this PTX type arrives."""
    bits = int(kind[1:])
    text = HEADER + COPY_SCALAR.format(type=kind, bits=bits, register=REGISTERS[bits])
    out = np.full(1, 0xA5, f"u{bits // 8}")
    Device("sm_100a").load_ptx(text)["k"].launch(1, 1, [out, value])
    return int(out[0])


ACCEPTED = [
    ("u32", 5, 5),
    ("u32", True, 1),
    ("u32", -3, 2**32 - 3),  # compilers spell signed parameters so, too
    ("u32", 2**32 - 1, 2**32 - 1),
    ("u32", np.int64(7), 7),
    ("u32", np.uint8(200), 200),
    ("s32", np.int8(-2), 2**32 - 2),
    ("u16", np.int64(65535), 65535),
    ("s64", -(2**63), 2**63),
    ("f32", 3, 0x40400000),
    ("f32", np.int32(3), 0x40400000),
    ("f32", np.int64(3), 0x40400000),
    ("f32", np.float64(0.1), 0x3DCCCCCD),
    ("f32", np.float16(1.5), 0x3FC00000),
    ("f32", float("-inf"), 0xFF800000),
    ("f64", np.float32(1), 0x3FF0000000000000),
    ("b32", 0x40400000, 0x40400000),
    ("b32", np.int64(3), 3),
    ("b32", np.float32(1), 0x3F800000),
    ("b32", 1.0, 0x3F800000),
    ("b64", 1.0, 0x3FF0000000000000),
    ("b16", np.float16(1), 0x3C00),
]


@pytest.mark.parametrize(("kind", "value", "bits"), ACCEPTED)
def test_numbers_arrive_as_their_parameter_holds_them(kind, value, bits):
    assert bits_of(kind, value) == bits


REFUSED = [
    ("u32", 1.5, "float.*u32"),
    ("u32", 1.0, "float.*u32"),
    ("u32", np.float32(1), "float.*u32"),
    ("s32", np.float64(2), "float.*s32"),
    ("u64", np.float64(2), "float.*u64"),
    ("u32", 2**32, "does not fit .u32"),
    ("u32", np.int64(2**40), "does not fit .u32"),
    ("s32", 2**31, "does not fit .s32"),
    ("u16", np.int32(-40000), "does not fit .u16"),
    ("f32", 1e39, "does not fit .f32"),
    ("f64", 10**400, "does not fit .f64"),
    ("b32", np.float64(1), "float64 of 8 bytes.*b32 has 4"),
    ("b32", np.float16(1), "float16 of 2 bytes"),
    ("b32", 2**32, "does not fit .b32"),
    ("f32", 1j, "complex"),
    ("f32", np.complex64(1), "complex"),
    ("u32", "1", "str"),
    ("u32", None, "NoneType"),
    ("u64", np.datetime64("2024-01-01"), "date"),
]


@pytest.mark.parametrize(("kind", "value", "message"), REFUSED)
def test_numbers_of_another_kind_or_range_are_refused(kind, value, message):
    with pytest.raises(UserError, match=message):
        bits_of(kind, value)


ARRAYS = {
    "objects": (lambda: np.array([object()] * 4, object), "dtype object"),
    "objects in structures": (lambda: np.zeros(4, [("x", "O")]), "arrays of numbers"),
    "dates": (lambda: np.zeros(4, "M8[s]"), "dtype datetime64"),
    "dates in structures": (lambda: np.zeros(4, [("x", "i4"), ("y", "M8[s]")]), "numbers"),
    "text": (lambda: np.zeros(4, "U4"), "arrays of numbers"),
    "byte order": (lambda: np.zeros(4, ">u4"), "byte order"),
    "byte order in structures": (lambda: np.zeros(4, [("x", ">u4")]), "byte order"),
    "sparse": (lambda: torch.ones(4).to_sparse(), "layout is sparse_coo"),
    "meta": (lambda: torch.ones(4, device="meta"), "meta device"),
    "conjugated": (lambda: torch.ones(4, dtype=torch.complex64).conj(), "resolve_conj"),
    "negated": (lambda: torch.ones(4, dtype=torch.complex64).conj().imag, "resolve_neg"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_without_numbers_in_memory_are_refused(case):
    make, message = ARRAYS[case]
    with pytest.raises(ArgumentError, match=rf"argument 'A' (.|\n)*{message}"):
        store([make(), np.zeros(4, np.uint32)], "A", 0)
    with pytest.raises(ArgumentError, match=message):
        store([Pointer(make(), 0), np.zeros(4, np.uint32)], "A", 0)
    with pytest.raises(ArgumentError, match=message):
        Device().tensor_map(make(), box=(4,), dtype="u32")


def test_structures_of_numbers_are_passed():
    array = np.zeros(4, [("x", "f4"), ("n", "u4", 2), ("v", "V4")])
    store([array, array], "A", 6)  # 16 bytes each: the second number n of the second
    assert array["n"].tolist() == [[0, 0], [0, 7], [0, 0], [0, 0]]
    assert not array["x"].any()


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_permission_does_not_depend_on_the_order_of_arguments(order):
    words = np.zeros(16, np.uint32)
    part = words[:8].view()
    part.setflags(write=False)
    given = {order[0]: words, order[1]: part}
    args = [given["A"], given["B"]]
    store(args, order[0], 10)  # only the writable array covers it
    store(args, order[1], 3)  # both cover it: the address is the same
    assert np.flatnonzero(words).tolist() == [3, 10]


@pytest.mark.parametrize("swap", [False, True])
def test_views_keep_their_own_bounds_and_permission(swap):
    words = np.zeros(16, np.uint32)
    low, high = words[:8].view(), words[8:]
    low.setflags(write=False)
    args, names = ([high, low], "AB") if swap else ([low, high], "BA")
    store(args, names[0], 2)
    with pytest.raises(EmulatorError, match="read-only"):
        store(args, names[1], 2)
    with pytest.raises(EmulatorError, match="out of bounds"):
        store(args, names[0], 8)
    assert np.flatnonzero(words).tolist() == [10]
    store([words[4:], words[:4]], "A", 0)  # what the launch before allowed is forgotten
    with pytest.raises(EmulatorError, match="out of bounds"):
        store([words[4:6], words[:4]], "A", 2)
    assert np.flatnonzero(words).tolist() == [4, 10]


EXTENTS = [
    ({"grid": None}, "grid.* integer, got None"),
    ({"grid": 1.5}, "grid.* integer, got 1.5"),
    ({"grid": (2, 1.5)}, "grid.* integer"),
    ({"grid": "2"}, "grid.* integer"),
    ({"grid": ()}, "one to three"),
    ({"grid": (1, 1, 1, 1)}, "one to three"),
    ({"grid": 0}, "at least 1, got 0"),
    ({"grid": (2**31,)}, "grid: extent x must be at most 2147483647"),
    ({"grid": (1, 65536)}, "grid: extent y must be at most 65535"),
    ({"grid": (1, 1, 65536)}, "grid: extent z must be at most 65535"),
    ({"block": (1, 1, 65)}, "block: extent z must be at most 64"),
    ({"block": 1025}, "block: extent x must be at most 1024"),
    ({"block": (1024, 2)}, "2048 threads"),
    ({"cluster": 0.5}, "cluster.* integer"),
    ({"smem": -1}, "smem must be at least 0"),
    ({"smem": "x"}, "smem must be an integer"),
    ({"smem": 300000}, "300000 bytes"),
    ({"threads": -1}, "threads must be at least 0"),
    ({"threads": "all"}, "threads must be an integer"),
    ({"instruction_limit": -1}, "instruction_limit must be at least 0"),
    ({"instruction_limit": None}, "instruction_limit must be an integer"),
    ({"schedule": 2**64}, "seed of schedule must be at most"),
    ({"schedule": -1}, "seed of schedule must be at least 0"),
    ({"schedule": None}, "seed of schedule must be an integer"),
    ({"lint": None}, "lint must be names"),
    ({"args": None}, "args must be a sequence .* got NoneType"),
    ({"args": np.zeros(3, np.uint32)}, "args must be a sequence"),
    ({"args": []}, "takes 3 arguments"),
]


@pytest.mark.parametrize(("change", "message"), EXTENTS)
def test_illegal_settings_are_named(change, message):
    kernel = Device().load_ptx(HEADER + STORE)["k"]
    words = np.zeros(4, np.uint32)
    settings = {"grid": 1, "block": 1, "args": [words, words, 0], **change}
    with pytest.raises(UserError, match=message):
        kernel.launch(**settings)
    assert not words.any()


def test_numpy_integers_are_extents_and_settings():
    kernel = Device().load_ptx(HEADER + STORE)["k"]
    words = np.zeros(4, np.uint32)
    kernel.launch(
        np.int64(2), np.array([32, 1]), [words, words, np.int64(1)], smem=np.int32(64),
        schedule=np.int64(3), threads=np.int8(1), instruction_limit=np.uint64(100),
    )  # fmt: skip
    assert words.tolist() == [0, 7, 0, 0]
    assert Options(schedule=np.int64(3)) == Options(schedule=3)


@pytest.mark.parametrize("offset", [1.5, "4", None, 2**64, -(2**63)])
def test_pointer_offsets_are_integers_of_64_bits(offset):
    words = np.zeros(4, np.uint32)
    with pytest.raises(UserError, match="offset"):
        store([Pointer(words, offset), words], "A", 0)


def test_ptx_may_be_bytes():
    text = (HEADER + STORE).encode() + b"\0"
    assert list(Device().load_ptx(text)) == ["k"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with .version and .target"),
        ("\0", "must begin with .version and .target"),
        (HEADER, "no kernel"),
        (None, "must be a text, got NoneType"),
        (b"\x7fELF\x02\xff", "binary data"),
        (HEADER + "\0" + STORE, "zero at character"),
    ],
)
def test_what_is_no_ptx_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        Device().load_ptx(text)


@pytest.mark.parametrize(
    ("array", "fields", "message"),
    [
        (np.zeros((0, 8), np.float32), {"box": (1, 8)}, r"not be empty, got shape \(0, 8\)"),
        (np.zeros((4, 8), np.float32)[::-1], {"box": (1, 8)}, "dimension 0 is -32 bytes"),
        (np.zeros((4, 8), np.float32), {"box": (1, 8.5)}, "box must be an integer, got 8.5"),
        (np.zeros((4, 8), np.float32), {"box": (1, 2**70)}, "box must be at most"),
        ([[1.0]], {"box": (1, 1)}, "no array but a list"),
        (np.zeros((), np.float32), {"box": ()}, "1 to 5 dimensions"),
    ],
)
def test_illegal_arrays_of_tensor_maps_are_named(array, fields, message):
    with pytest.raises(UserError, match=message):
        Device().tensor_map(array, **fields)
