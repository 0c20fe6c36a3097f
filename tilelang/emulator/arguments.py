"""Kernel arguments: Python values to the bytes of the parameter space."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tilelang.emulator.memory import DeviceMemory, Mapping, check_array, is_array
from tilelang.emulator.numbers import integer
from tilelang.errors import UserError


class Pointer(NamedTuple):
    """The address of an array plus ``offset`` bytes, as a kernel argument."""

    array: Any
    offset: int = 0


class Param(NamedTuple):
    """A kernel parameter: PTX type, and offset, size and alignment in bytes."""

    name: str
    type: str
    offset: int
    size: int
    align: int
    array: bool


_FLOATS = {"f16": "e", "f32": "f", "f64": "d"}
_FLOATS_BY_SIZE = {2: "e", 4: "f", 8: "d"}
_INTEGER_SIZES = (1, 2, 4, 8)
_BYTES = (bytes, bytearray, memoryview, ctypes.Structure, ctypes.Union, ctypes.Array)


class Binder:
    """Packs the arguments of one launch; holds the mappings of its arrays."""

    def __init__(self, memory: DeviceMemory, params: list[Param], total: int) -> None:
        self._memory = memory
        self._params = params
        self._bytes = bytearray(total)
        self.mappings: list[Mapping] = []
        self._keep: list[Any] = []

    def pack(self, args: Any) -> bytes:
        """Returns the parameter space for ``args``, one for each parameter.

        Raises:
            UserError: wrong number of arguments, or one does not fit its parameter.
        """
        if not isinstance(args, Iterable) or isinstance(args, str | bytes) or is_array(args):
            raise UserError(
                f"args must be a sequence of arguments, one for each parameter, got "
                f"{type(args).__name__}"
            )
        args = list(args)
        if len(args) != len(self._params):
            names = ", ".join(f"{p.type} {p.name}" for p in self._params)
            raise UserError(
                f"the kernel takes {len(self._params)} arguments ({names}), got {len(args)}"
            )
        for param, value in zip(self._params, args, strict=True):
            data = self._encode(param, value)
            self._bytes[param.offset : param.offset + len(data)] = data
        return bytes(self._bytes)

    def release(self) -> None:
        """Unmaps the arrays."""
        for mapping in self.mappings:
            mapping.release()

    def _encode(self, param: Param, value: Any) -> bytes:
        if isinstance(value, Pointer):
            return self._address(param, value.array, value.offset)
        if hasattr(value, "encoded") and hasattr(value, "address"):  # a tensor map
            if param.array:
                return _aggregate(param, value.encoded)
            return encode_scalar(param, value.address)
        if isinstance(value, Mapping) and not param.array:
            return encode_scalar(param, value.address)
        if isinstance(value, _BYTES):
            return _aggregate(param, bytes(value))
        if is_array(value):
            if param.array and isinstance(value, np.ndarray):
                check_array(param.name, value)
                if param.size != 8 or value.nbytes == 8:
                    return _aggregate(param, value.tobytes())
            return self._address(param, value, 0)
        if param.array and isinstance(value, np.generic) and not value.dtype.hasobject:
            return _aggregate(param, value.tobytes())
        return encode_scalar(param, value)

    def _address(self, param: Param, array: Any, offset: Any) -> bytes:
        # Eight untyped bytes are a struct of one pointer, which CuTe DSL passes for a tensor.
        if param.size != 8 or (param.array and param.align != 8):
            raise UserError(
                f"argument {param.name!r} is an array, but the parameter is .{param.type} of "
                f"{param.size} bytes, not a pointer"
            )
        mapping = self._memory.map(array, param.name)
        self.mappings.append(mapping)
        address = mapping.address + integer(f"the offset of argument {param.name!r}", offset)
        if not 0 <= address < 1 << 64:
            raise UserError(
                f"argument {param.name!r}: with offset {offset} its address exceeds 64 bits"
            )
        return struct.pack("<Q", address)


def _aggregate(param: Param, data: bytes) -> bytes:
    if len(data) != param.size:
        raise UserError(
            f"argument {param.name!r} has {len(data)} bytes, but the parameter has {param.size}"
        )
    return data


def encode_scalar(param: Param, value: Any) -> bytes:
    """Returns the bytes of a number as ``param`` holds it.

    A parameter ``.f`` takes integers and floats, rounded; ``.s`` integers of its range; ``.u``
    those of its range or of the signed one (compilers spell signed parameters so, too). NumPy
    scalars are numbers like Python's. A parameter ``.b`` has no kind: an integer gives its bits, a
    Python float is rounded to the float of its size, and other NumPy scalars must have its size.

    Raises:
        UserError: the value is no number, of another kind, or out of range.
    """
    untyped = param.type.startswith("b") and param.type not in ("bf16", "bf16x2")
    if isinstance(value, np.generic):
        if untyped and value.dtype.kind not in "biu":
            return _bits(param, value)
        value = value.item()
    if param.array or not isinstance(value, int | float):
        kind = type(value).__name__
        raise UserError(
            f"argument {param.name!r} is a number ({kind}), but the parameter is an array of "
            f"{param.size} bytes"
            if param.array
            else f"argument {param.name!r} must be a number, got {kind}"
        )
    code = _FLOATS.get(param.type)
    if code is None and untyped and isinstance(value, float):
        code = _FLOATS_BY_SIZE.get(param.size)
    return _float(param, code, value) if code else _integer(param, value)


def _bits(param: Param, value: np.generic) -> bytes:
    if value.dtype.hasobject or value.dtype.itemsize != param.size:
        raise UserError(
            f"argument {param.name!r} is {value.dtype} of {value.dtype.itemsize} bytes, but the "
            f"parameter .{param.type} has {param.size}"
        )
    return value.tobytes()


def _integer(param: Param, value: float) -> bytes:
    if not isinstance(value, int) or param.size not in _INTEGER_SIZES:
        raise UserError(
            f"argument {param.name!r} = {value} is a {type(value).__name__}, but the parameter is "
            f".{param.type} of {param.size} bytes"
        )
    bits = 8 * param.size
    end = 1 << (bits - 1 if param.type.startswith("s") else bits)
    if not -(1 << (bits - 1)) <= value < end:
        raise UserError(f"argument {param.name!r} = {value} does not fit .{param.type}")
    return (value % (1 << bits)).to_bytes(param.size, "little")


def _float(param: Param, code: str, value: float) -> bytes:
    try:
        return struct.pack("<" + code, float(value))
    except OverflowError:
        raise UserError(f"argument {param.name!r} = {value} does not fit .{param.type}") from None
