"""Launches of this compiler's kernels as they were measured: PTX and arguments, kept in files.

So a prediction is for the code that ran on the GPU, also when the compiler has changed since.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilelang.runtime import emulation


class _Stop(Exception):
    """Ends a call whose launch is known."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """One grid.

    ``args`` are ``["tensor", i]``, the i-th tensor of the call; ``["bytes", hex]``; or
    ``["map", i, description]``, a tensor map of it.
    """

    ptx: str
    entry: str
    grid: list[int]
    block: list[int]
    cluster: list[int]
    smem: int
    registers: int
    args: list[Any]

    def save(self, stem: Path) -> None:
        """Writes the file of a launch."""
        stem.with_suffix(".launch").write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def load(cls, stem: Path) -> Recorded:
        """Reads what ``save`` wrote."""
        return cls(**json.loads(stem.with_suffix(".launch").read_text()))


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int)):
        return value
    return [int(x) for x in value]


def record(kernel: Any, arguments: list[Any]) -> Recorded:
    """What a kernel of one grid launches for CPU tensors, without running it.

    Outputs that the kernel allocates itself follow the tensors of the call.
    """
    tensors = [x for x in arguments if hasattr(x, "data_ptr")]
    places = {x.data_ptr(): i for i, x in enumerate(tensors)}
    found: list[Recorded] = []

    def place(address: int) -> int:
        return places.setdefault(address, len(places))

    def argument(arg: Any) -> list[Any]:
        if isinstance(arg, bytes):
            return ["bytes", arg.hex()]
        if isinstance(arg, Mapping) or hasattr(arg, "items"):
            fields = {str(key): value for key, value in arg.items()}
            index = place(int(fields.pop("address")))
            return ["map", index, {key: _plain(value) for key, value in fields.items()}]
        return ["tensor", place(int(arg.data_ptr()))]

    def note(self, name, grid, block, cluster, shared_memory, args, pointees=()):
        sizes = [[int(x) for x in extents] for extents in (grid, block, cluster)]
        registers = kernel.resource_usage[str(name)].registers
        found.append(Recorded(kernel.get_ptx(), str(name), *sizes, int(shared_memory), registers,
                              [argument(arg) for arg in args]))  # fmt: skip
        raise _Stop

    original, emulation.Emulation.__call__ = emulation.Emulation.__call__, note
    try:
        kernel(*arguments)
    except Exception:
        if not found:
            raise
    finally:
        emulation.Emulation.__call__ = original
    return found[0]


def replay(recorded: Recorded, device: Any, tensors: list[Any], **options: Any) -> Any:
    """Launches it on the emulator; ``tensors`` as of ``record``, with the outputs."""

    def argument(arg: list[Any]) -> Any:
        if arg[0] == "bytes":
            return bytes.fromhex(arg[1])
        tensor = tensors[arg[1]]
        if arg[0] == "map":
            return emulation._tensor_map(device, {**arg[2], "address": tensor.data_ptr()})
        return emulation._array(_Tensor(tensor))

    return device.load_ptx(recorded.ptx)[recorded.entry].launch(
        recorded.grid, recorded.block, [argument(arg) for arg in recorded.args],
        cluster=recorded.cluster or None, smem=recorded.smem, **options,
    )  # fmt: skip


class _Tensor:
    """A tensor of torch with the attributes of those of tvm-ffi."""

    def __init__(self, tensor: Any) -> None:
        self.shape, self.strides, self.dtype = tensor.shape, tensor.stride(), tensor.dtype
        self.data_ptr = tensor.data_ptr
