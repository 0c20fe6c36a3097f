"""Kernel arguments: Python values to the bytes of the parameter space."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from tilelang.emulator.memory import DeviceMemory, Mapping, is_array
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


_INTEGER_BITS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOAT_BITS = {2: "e", 4: "f", 8: "d"}


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
                return self._aggregate(param, value.encoded)
            return self._integer(param, value.address)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._aggregate(param, bytes(value))
        if param.array and isinstance(value, np.ndarray | np.void):
            return self._aggregate(param, value.tobytes())
        if is_array(value):
            return self._address(param, value, 0)
        if isinstance(value, np.generic):
            return self._scalar(param, value)
        if isinstance(value, bool | int):
            return self._integer_or_float(param, int(value))
        if isinstance(value, float):
            return self._float(param, value)
        raise UserError(f"argument {param.name!r} has type {type(value).__name__}")

    def _address(self, param: Param, array: Any, offset: int) -> bytes:
        if param.size != 8 or param.array:
            raise UserError(
                f"argument {param.name!r} is an array, but the parameter is .{param.type} of "
                f"{param.size} bytes, not a pointer"
            )
        mapping = self._memory.map(array, param.name)
        self.mappings.append(mapping)
        return struct.pack("<Q", mapping.address + offset)

    def _aggregate(self, param: Param, data: bytes) -> bytes:
        if len(data) != param.size:
            raise UserError(
                f"argument {param.name!r} has {len(data)} bytes, the parameter {param.size}"
            )
        return data

    def _scalar(self, param: Param, value: np.generic) -> bytes:
        if value.dtype.kind == "f" and param.type.startswith("f"):
            return self._float(param, float(value))
        if value.dtype.itemsize != param.size:
            if value.dtype.kind in "iub":
                return self._integer_or_float(param, int(value))
            raise UserError(
                f"argument {param.name!r} is {value.dtype} of {value.dtype.itemsize} bytes, the "
                f"parameter .{param.type} has {param.size}"
            )
        return value.tobytes()

    def _integer_or_float(self, param: Param, value: int) -> bytes:
        if param.type.startswith("f"):
            return self._float(param, float(value))
        return self._integer(param, value)

    def _integer(self, param: Param, value: int) -> bytes:
        code = _INTEGER_BITS.get(param.size)
        bits = 8 * param.size
        if code is None or param.array:
            raise UserError(f"argument {param.name!r} needs {param.size} bytes, got an integer")
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise UserError(f"argument {param.name!r} = {value} does not fit {bits} bits")
        return struct.pack("<" + code, value % (1 << bits))

    def _float(self, param: Param, value: float) -> bytes:
        code = _FLOAT_BITS.get(param.size)
        if code is None or param.array or param.type[0] not in "bf":
            raise UserError(
                f"argument {param.name!r} is a float, the parameter is .{param.type} of "
                f"{param.size} bytes"
            )
        if param.type == "bf16":
            return struct.pack("<f", value)[2:]
        return struct.pack("<" + code, value)
