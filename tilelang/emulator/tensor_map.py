"""Tensor maps: how bulk tensor copies see an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilelang import _ffi
from tilelang.emulator.memory import DeviceMemory, Mapping, check_array, is_array
from tilelang.emulator.numbers import integer
from tilelang.errors import UserError

# Codes of the hardware's encoding, and bits of an element in global memory.
_TYPES = {
    "u8": (0, 8),
    "u16": (1, 16),
    "u32": (2, 32),
    "s32": (3, 32),
    "u64": (4, 64),
    "s64": (5, 64),
    "f16": (6, 16),
    "f32": (7, 32),
    "f32_ftz": (8, 32),
    "f64": (9, 64),
    "bf16": (10, 16),
    "u4": (11, 4),
    "u4_unpack_u8": (12, 4),
    "u6_unpack_u8": (13, 6),
    "tf32": (14, 32),
    "tf32_ftz": (15, 32),
}
_DTYPES = {
    "uint8": "u8",
    "int8": "u8",
    "float8_e4m3fn": "u8",
    "float8_e5m2": "u8",
    "uint16": "u16",
    "int16": "u16",
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}
_SWIZZLES = {
    None: 0,
    "none": 0,
    "32B": 1,
    "64B": 2,
    "128B": 3,
    "128B_atom32B": 4,
    "128B_atom32B_flip8B": 5,
    "128B_atom64B": 6,
}
#: Their names by their codes.
SWIZZLE_NAMES = {code: name for name, code in _SWIZZLES.items()}
_FILLS = {"zeros": 0, "nan": 1}
_INTERLEAVES = {None: 0, "none": 0, "16B": 1, "32B": 2}
_SLICE_BYTES = (0, 16, 32)  # by the code of the interleave
# The codes of the CUDA driver API's enumeration CUtensorMapDataType, in its order.
_DRIVER_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32",
    "tf32_ftz", "u4", "u4_unpack_u8", "u6_unpack_u8",
)  # fmt: skip
_PROMOTIONS = 4  # none, 64, 128 and 256 bytes
_MAX_RANK = 5
_MAX_FIELD = (1 << 63) - 1


class TensorMap:
    """An encoded tensor map of an array in place; pass it as a kernel argument.

    Attributes:
        encoded: the 128 bytes, for a parameter ``.b8 name[128]``.
        address: where a copy of them lies in emulated memory, for a pointer parameter.
    """

    def __init__(self, memory: DeviceMemory, array_mapping: Mapping | None, encoded: bytes) -> None:
        self.encoded = encoded
        # Keeps the array mapped as long as the map is used; None: the caller does.
        self._array_mapping = array_mapping
        self._copy = np.frombuffer(encoded, dtype=np.uint8).copy()
        self._mapping = memory.map(self._copy, "tensor map")
        self.address = self._mapping.address


class Im2col(NamedTuple):
    """The bounding box of an im2col map: corner offsets of the spatial dimensions in the array's
    order, channels per pixel and pixels per column."""

    lower: Sequence[int]
    upper: Sequence[int]
    channels: int
    pixels: int


def make_tensor_map(
    memory: DeviceMemory,
    array: Any,
    *,
    box: Sequence[int] | None = None,
    swizzle: str | None = None,
    interleave: str | None = None,
    oob_fill: str = "zeros",
    element_strides: Sequence[int] | None = None,
    dtype: str | None = None,
    im2col: Im2col | None = None,
) -> TensorMap:
    """Encodes a map of ``array`` (1 to 5 dimensions, the last one contiguous).

    An interleaved map is that of an array [N, C, spatial..., c] whose last dimension, a slice of
    c channels, has 16 or 32 bytes (NC/8HWC8 and NC/16HWC16 of 16-bit elements); the slices of a
    row follow one another. Its dimensions are [N, C, spatial...], where C counts slices; a kernel
    gives the coordinates {W, H, D, C, N}. A copy takes one slice of channels, whatever the box
    says of C; in shared memory a box lies as [N, spatial..., c]. The driver wants the extent of
    the box along W to be a multiple of 16 bytes, taken as elements.

    Args:
        memory: where the array gets its emulated address.
        array: NumPy array or CPU torch tensor, used in place.
        box: elements of a box in each dimension, in the array's order (not CUDA's reverse one);
            for an interleaved map [N, C, spatial...].
        swizzle: None, ``"32B"``, ``"64B"``, ``"128B"``, ``"128B_atom32B"`` or
            ``"128B_atom32B_flip8B"``; ``"128B_atom64B"`` is refused, since no source says which
            rows exchange their halves.
        interleave: None, ``"16B"``, or ``"32B"`` (with ``swizzle="32B"``).
        oob_fill: ``"zeros"`` or ``"nan"``: what elements outside of the array read as.
        element_strides: step between elements of a box, in the order of ``box``.
        dtype: element type if not the array's: ``"bfloat16"``, ``"tf32"`` or, on a uint8 array,
            ``"u4"``.
        im2col: makes an im2col map of an array [N, spatial..., C], or of an interleaved one,
            instead of a tiled one.

    Raises:
        UserError: a field breaks a rule of the CUDA driver API's tensor maps.
    """
    check_array("array", array)
    modes = [_choice("interleave", interleave, _INTERLEAVES)]
    modes += [_choice("swizzle", swizzle, _SWIZZLES), _choice("oob_fill", oob_fill, _FILLS)]
    type_name = _DTYPES.get(str(dtype), dtype) or _type_of(array)
    code, bits = _choice("dtype", type_name, _TYPES)
    dims, strides = _geometry(array, bits, _SLICE_BYTES[modes[0]])
    rank = len(dims)
    if not 1 <= rank <= _MAX_RANK:
        raise UserError(f"tensor maps have 1 to 5 dimensions, that of this array has {rank}")
    if im2col is not None:
        box = [1] * (rank - 1) + [im2col.channels]
    box = _one_each("box", box, rank)
    steps = _one_each("element_strides", element_strides or [1] * rank, rank)
    mapping = memory.map(array, "tensor")
    fields = [code, rank, mapping.address, *modes]
    pixels = integer("im2col.pixels", im2col.pixels, 0, _MAX_FIELD) if im2col else 0
    fields += [int(im2col is not None), pixels]
    fields += _padded(dims, strides, box[::-1], steps[::-1])
    return TensorMap(memory, mapping, _encode(fields + _corners(im2col, rank)))


def encode_tiled(
    memory: DeviceMemory,
    *,
    data_type: int,
    rank: int,
    global_address: Any,
    global_dim: Sequence[int],
    global_strides: Sequence[int],
    box_dim: Sequence[int],
    element_strides: Sequence[int],
    interleave: int = 0,
    swizzle: int = 0,
    l2_promotion: int = 0,
    oob_fill: int = 0,
) -> TensorMap:
    """Encodes a tiled map from the arguments of the driver's ``cuTensorMapEncodeTiled``.

    Dimensions are in the driver's order, the contiguous one first; enumerations are its numbers
    (CUDA driver API, "Tensor Map Object Management").

    Args:
        memory: of the device.
        data_type: ``CUtensorMapDataType``, 0 to 15.
        rank: number of dimensions, 1 to 5.
        global_address: a device address (of a :class:`~tilelang.emulator.Mapping`, which the
            caller keeps), or an array, which the map keeps.
        global_dim: ``rank`` extents in elements.
        global_strides: ``rank - 1`` strides in bytes, that of dimension 1 first.
        box_dim, element_strides: ``rank`` extents and steps in elements.
        interleave, swizzle, oob_fill: ``CUtensorMapInterleave``, ``CUtensorMapSwizzle`` and
            ``CUtensorMapFloatOOBfill``.
        l2_promotion: ``CUtensorMapL2promotion``; it has no effect here.

    Raises:
        UserError: a field breaks a rule of the driver API.
    """
    rank = integer("rank", rank, 1, _MAX_RANK)
    code, _ = _TYPES[_DRIVER_TYPES[integer("data_type", data_type, 0, len(_DRIVER_TYPES) - 1)]]
    modes = [
        integer("interleave", interleave, 0, len(_INTERLEAVES) - 2),
        integer("swizzle", swizzle, 0, max(_SWIZZLES.values())),
        integer("oob_fill", oob_fill, 0, max(_FILLS.values())),
    ]
    integer("l2_promotion", l2_promotion, 0, _PROMOTIONS - 1)
    dims = _one_each("global_dim", global_dim, rank)
    strides = [0, *_one_each("global_strides", global_strides, rank - 1)]
    box = _one_each("box_dim", box_dim, rank)
    steps = _one_each("element_strides", element_strides, rank)
    mapping = None
    if is_array(global_address):
        mapping = memory.map(global_address, "tensor")
        global_address = mapping.address
    address = integer("global_address", global_address, 0, _MAX_FIELD)
    fields = [code, rank, address, *modes, 0, 0]
    fields += _padded(dims, strides, box, steps) + _corners(None, rank)
    return TensorMap(memory, mapping, _encode(fields))


def _padded(*fields: Sequence[int]) -> list[int]:
    """Extents, strides, box and steps, innermost first, each with the fillers of a lower rank."""
    padded: list[int] = []
    for values, filler in zip(fields, (1, 0, 1, 1), strict=True):
        padded += list(values) + [filler] * (_MAX_RANK - len(values))
    return padded


def _encode(fields: list[int]) -> bytes:
    try:
        return bytes(_ffi.get("emulator.EncodeTensorMap")(fields))
    except ValueError as error:
        raise UserError(f"illegal tensor map: {error}") from None


def _choice(name: str, value: Any, known: dict[Any, Any]) -> Any:
    if value not in known:
        choices = ", ".join(repr(choice) for choice in known)
        raise UserError(f"{name}={value!r} is unknown; choose from {choices}")
    return known[value]


def _one_each(name: str, values: Sequence[int] | None, rank: int) -> Sequence[int]:
    try:
        given = -1 if values is None else len(values)
    except TypeError:
        given = -1
    if values is None or given != rank:
        raise UserError(f"{name} must have {rank} extents, one for each dimension, got {values}")
    return [integer(name, value, 0, _MAX_FIELD) for value in values]


def _corners(im2col: Im2col | None, rank: int) -> list[int]:
    """Returns the lower and upper corner, innermost first, three values each."""
    values: list[int] = []
    for corner in (im2col.lower, im2col.upper) if im2col else ((), ()):
        if im2col and len(corner) != rank - 2:
            raise UserError(f"an im2col corner has {rank - 2} offsets, got {corner}")
        offsets = [integer("an im2col corner", value, -_MAX_FIELD, _MAX_FIELD) for value in corner]
        values += offsets[::-1] + [0] * (3 - len(corner))
    return values


def _type_of(array: Any) -> str:
    name = str(array.dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise UserError(f"tensor maps have no element type for {name}; give dtype=")
    return _DTYPES[name]


def _geometry(array: Any, bits: int, slice_bytes: int) -> tuple[list[int], list[int]]:
    """Extents and byte strides of the map, innermost first; the innermost stride is implied."""
    if isinstance(array, np.ndarray):
        itemsize, strides = array.itemsize, list(array.strides)
    else:
        itemsize = array.element_size()
        strides = [stride * itemsize for stride in array.stride()]
    if 0 in array.shape:
        raise UserError(f"a tensor map's array must not be empty, got shape {tuple(array.shape)}")
    if not strides:
        raise UserError("tensor maps have 1 to 5 dimensions, this array has none")
    if array.shape[-1] > 1 and strides[-1] != itemsize:
        raise UserError("the last dimension of a tensor map's array must be contiguous")
    for dim, (extent, stride) in enumerate(zip(array.shape, strides, strict=True)):
        if extent > 1 and stride < 0:
            raise UserError(
                f"the strides of a tensor map's array must not be negative, that of dimension "
                f"{dim} is {stride} bytes; pass a copy"
            )
    dims = list(array.shape)[::-1]
    dims[0] = dims[0] * itemsize * 8 // bits
    strides = [0, *strides[::-1][1:]]
    if slice_bytes:
        return _slices(dims, strides, bits, slice_bytes)
    return dims, strides


def _slices(
    dims: list[int], strides: list[int], bits: int, slice_bytes: int
) -> tuple[list[int], list[int]]:
    """Returns the geometry of an interleaved map, from an array with the slice as a dimension."""
    if not 4 <= len(dims) <= _MAX_RANK + 1:
        raise UserError(
            "an interleaved map is of an array [N, C, spatial..., c] with 4 to 6 dimensions, "
            f"got {len(dims)}"
        )
    if dims[0] * bits != slice_bytes * 8:
        raise UserError(
            f"the last dimension of an array for interleave='{slice_bytes}B' has {slice_bytes} "
            f"bytes, got {dims[0] * bits / 8:g}"
        )
    if dims[1] > 1 and strides[1] != slice_bytes:
        raise UserError(f"the slices of a row must follow one another, {slice_bytes} bytes apart")
    return dims[1:], [0, *strides[2:]]
