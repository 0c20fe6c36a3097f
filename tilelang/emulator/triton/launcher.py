"""Launches Triton programs: PTX, arguments, and scratch memory."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from triton.runtime import _allocation
from triton.runtime import driver as drivers

from tilelang.emulator.device import Device, Kernel
from tilelang.emulator.errors import EmulatorWarning
from tilelang.emulator.memory import extent_of
from tilelang.emulator.reachable import live_tensors
from tilelang.emulator.tensor_map import Im2col
from tilelang.errors import UserError
from tilelang.runtime.resources import ResourceUsage

_MARK = "\n// registers of a thread: "
# Triton numbers the element types of tensor maps as the PTX ISA does; the driver's are others.
_DRIVER_TYPES = {8: 10, 9: 8, 10: 9}
_TF32 = 11
_SWIZZLES = (None, "32B", "64B", "128B")
_FLOATS: dict[str, type[np.floating[Any]]] = {
    "fp16": np.float16, "fp32": np.float32, "f32": np.float32, "fp64": np.float64,
}  # fmt: skip


class Program:
    """A compiled program: PTX, and the registers that ptxas gives a thread of it.

    Args:
        binary: what :meth:`binary` made.
        name: of the kernel.
    """

    def __init__(self, binary: bytes, name: str) -> None:
        self.ptx, _, registers = binary.decode().rpartition(_MARK)
        self.registers = int(registers)
        self._name = name
        self._loaded: dict[tuple[str, str], Kernel] = {}

    @staticmethod
    def binary(ptx: str, registers: int) -> bytes:
        """Returns the data that Triton stores as machine code of the program."""
        return f"{ptx}{_MARK}{registers}".encode()

    @staticmethod
    def ptx_of(binary: bytes) -> str:
        """Returns the PTX of what :meth:`binary` made, and "" for machine code of a GPU."""
        return binary.decode().rpartition(_MARK)[0] if _MARK.encode() in binary else ""

    def on(self, device: Device, file: str = "") -> Kernel:
        """Returns the kernel, loaded once for each architecture.

        Args:
            file: where its source is. Triton's cache keeps a program by its text alone, so that the
                PTX may name another file, or one that has been moved since.
        """
        key = device.arch, file
        if key not in self._loaded:
            module = device.load_ptx(_with_file(self.ptx, file))
            if self.registers:
                module.resources = {self._name: ResourceUsage(self.registers)}
            self._loaded[key] = module[self._name]
        return self._loaded[key]


def _with_file(ptx: str, file: str) -> str:
    """Returns names ``file`` in place of another one of this name."""

    def named(directive: re.Match[str]) -> str:
        same = os.path.basename(directive[2]) == os.path.basename(file)
        return f'{directive[1]}"{file if same else directive[2]}"'

    return re.sub(r'^(\s*\.file\s+\d+\s+)"([^"]*)"', named, ptx, flags=re.M)


def _file_of(src: Any) -> str:
    """Returns the file of a function that was compiled; "" of a program in an intermediate form."""
    code = getattr(getattr(getattr(src, "fn", None), "fn", None), "__code__", None)
    return code.co_filename if code is not None else ""


class Launcher:
    """Launches a program with the arguments of a Triton function.

    Args:
        src: what was compiled, with the types of its parameters.
        metadata: what the compiler found out.
    """

    def __init__(self, src: Any, metadata: Any) -> None:
        self._file = _file_of(src)
        self._signature = tuple(src.signature.values())
        self._metadata = metadata
        self._maps = list(getattr(metadata, "tensordesc_meta", None) or ())

    def __call__(
        self, grid_x: int, grid_y: int, grid_z: int, stream: Any, function: Program,
        packed: Any, launch_metadata: Any, enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        if enter is not None:
            enter(launch_metadata)
        if grid_x * grid_y * grid_z > 0:
            self._launch(function, (grid_x, grid_y, grid_z), args)
        if leave is not None:
            leave(launch_metadata)

    def _launch(self, program: Program, grid: tuple[int, int, int], args: Sequence[Any]) -> None:
        driver: Any = drivers.active
        device: Device = driver.device
        kernel = program.on(device, self._file)
        ctas = self._metadata.num_ctas
        extents = (grid[0] * ctas, *grid[1:])
        with contextlib.ExitStack() as mapped:
            values = list(self._values(device, mapped, args))
            values += self._scratch(kernel, len(values), int(np.prod(extents)), driver)
            driver.emulation.last_launch = kernel.launch(
                extents,
                kernel.reqntid or 32 * self._metadata.num_warps,
                values,
                cluster=(ctas, 1, 1) if ctas > 1 else None,
                smem=self._metadata.shared,
                programmatic=self._metadata.launch_pdl and device.stream.may_overlap,
            )

    def _scratch(self, kernel: Kernel, given: int, blocks: int, driver: Any) -> list[Any]:
        """Returns the scratch memory after the arguments: of the program and of its profiler."""
        meta = self._metadata
        pointers: list[Any] = []
        size = meta.global_scratch_size * blocks
        if size:
            # What an allocator gives holds no values; nothing lies beyond it.
            pointers.append(np.full(size, 0xFF, np.uint8))
            if isinstance(_allocation._allocator.get(), _allocation.NullAllocator):
                warnings.warn(
                    f"{kernel.name} needs {size} bytes of scratch memory: on a GPU the program "
                    "has to call triton.set_allocator",
                    EmulatorWarning,
                    stacklevel=2,
                )
        else:
            pointers.append(0)
        profiled = getattr(meta, "profile_scratch_size", 0) * blocks
        pointers.append(np.zeros(profiled, np.uint8) if profiled else 0)
        return pointers[: len(kernel.params) - given]

    def _values(
        self, device: Device, mapped: contextlib.ExitStack, args: Sequence[Any]
    ) -> Iterator[Any]:
        flat = list(_flattened(self._signature, args))
        for tensor in live_tensors(_addresses(flat)):  # pointers in memory are those of the host
            mapped.enter_context(device.map(tensor, address=tensor.data_ptr(), name="pointee"))
        maps = iter(self._maps)
        for kind, value in flat:
            if kind.startswith("tensordesc"):
                yield from _descriptor(device, mapped, value, next(maps, None), kind)
            else:
                yield _value(kind, value)


def _flattened(kinds: Iterable[Any], values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yields type and value of each argument that is one of the program's, tuples taken apart."""
    for kind, value in zip(kinds, values, strict=False):
        if isinstance(kind, tuple):
            yield from _flattened(kind, value)
        elif kind != "constexpr":
            yield kind, value


def _addresses(flat: Iterable[tuple[str, Any]]) -> np.ndarray:
    """Returns the possible addresses among the arguments and in integer tensors."""
    words = [np.zeros(0, np.uint64)]
    for kind, value in flat:
        if kind in ("i64", "u64"):
            words.append(np.array([int(value) % 2**64], np.uint64))
        elif kind in ("*i64", "*u64") and hasattr(value, "untyped_storage"):
            dtype = np.int64 if kind == "*i64" else np.uint64
            words.append(np.array(value.detach().flatten().tolist(), dtype).view(np.uint64))
    return np.concatenate(words)


def _tensor(value: Any) -> Any:
    """Returns the array of a pointer argument; a wrapper only reads it as another type."""
    while not hasattr(value, "untyped_storage") and hasattr(value, "base"):
        value = value.base
    if not hasattr(value, "untyped_storage"):
        raise UserError(
            f"a pointer argument is a {type(value).__name__}: tensors of torch are expected"
        )
    return value.detach()


def _value(kind: str, value: Any) -> Any:
    if kind.startswith("*"):
        if value is None or isinstance(value, int):
            return value or 0
        tensor = _tensor(value)
        extent_of(tensor)  # tells of a tensor that is not on the CPU
        return tensor if tensor.numel() else 0
    if kind == "bf16":
        return np.uint16(_bfloat16(float(value)))
    if kind in _FLOATS:
        return _FLOATS[kind](value)
    return int(value)


def _bfloat16(value: float) -> int:
    """Bits of the nearest bfloat16, ties to even; NaN stays one."""
    (bits,) = struct.unpack("<I", np.float32(value).tobytes())
    if value != value:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _descriptor(
    device: Device, mapped: contextlib.ExitStack, value: Any, meta: Any, kind: str
) -> Iterator[Any]:
    """Converts a host tensor descriptor to a tensor map, or to its fields if there is no TMA."""
    tensor = _tensor(value.base)
    shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
    if meta is None:
        yield tensor
        yield from (*shape, *strides, int(value.padding == "nan"))
        if hasattr(value, "round_f32_to_tf32"):
            yield int(value.round_f32_to_tf32)
    else:
        yield _tensor_map(device, mapped, tensor, value, meta)
    yield from (*shape, *strides)


def _tensor_map(
    device: Device, mapped: contextlib.ExitStack, tensor: Any, value: Any, meta: Mapping[str, Any]
) -> Any:
    make: Callable[..., Any] = device.tensor_map
    if meta.get("is_im2col"):
        pixels, channels = meta["block_size"]
        return make(
            tensor,
            swizzle=_SWIZZLES[meta["swizzle"]],
            oob_fill="nan" if value.padding == "nan" else "zeros",
            element_strides=value.element_strides,
            im2col=Im2col(
                value.pixel_box_lower_corner, value.pixel_box_upper_corner, channels, pixels
            ),
        )
    size, kind = meta["elem_size"], meta["elem_type"]
    shape = [int(n) for n in value.shape]
    if meta.get("fp4_padded"):
        shape[-1] *= 2
    if getattr(value, "round_f32_to_tf32", False):
        data_type = _TF32
    else:
        data_type = _DRIVER_TYPES.get(kind, kind)
    mapping = mapped.enter_context(device.map(tensor, name="descriptor"))
    return device.encode_tiled(
        data_type=data_type,
        rank=len(shape),
        global_address=mapping.address,
        global_dim=shape[::-1],
        global_strides=[int(n) * size for n in value.strides[-2::-1]],
        box_dim=list(meta["block_size"])[::-1],
        element_strides=[1] * len(shape),
        swizzle=meta["swizzle"],
        oob_fill=int(value.padding == "nan"),
    )
