"""Runs what a program has told: the launches of its kernels, on memory of this process.

A replica holds copies of the memory of a program, by their addresses there. It can be made anew
from the same events with other inputs, for another schedule of asynchronous operations. Whatever
the program computes outside of the events is then missing, or belongs to other inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..emulator import Device, EmulatorError, LaunchReport, Stream
from ..emulator.device import Kernel, Module
from ..emulator.elements import copied, forget
from ..emulator.extents import Extents
from ..emulator.named_tiles import NamedTile
from ..emulator.watch import Packed
from ..errors import TileLangError
from ..runtime import poison, toolchain
from ..runtime.regions import Span
from .host_bytes import HostBytes, at
from .wire import Message, tensor_at


class Modules:
    """The modules that a program has loaded, loaded again here."""

    def __init__(self) -> None:
        self._modules: list[Module] = []

    def __getitem__(self, number: int) -> Module:
        return self._modules[number]

    def load(self, fields: dict[str, Any]) -> None:
        """Loads a module on a device of its own, with its variables where the program has them."""
        module = Module(Device(fields["arch"]), fields["text"], fields["globals"])
        if toolchain.find_ptxas() is None:
            module.assembly_log = lambda: str(fields["log"])
        for name, known in fields["kernels"].items():
            kernel = module.kernels[name]
            kernel.tiles = [_tile(each) for each in known["tiles"]]
            kernel.fragments = [_tile(each) for each in known["fragments"]]
        self._modules.append(module)


def _tile(fields: dict[str, Any]) -> NamedTile:
    uses = frozenset((str(file), int(line)) for file, line in fields["uses"])
    return NamedTile(**{**fields, "uses": uses})


class Replica:
    """The memory of a program, and its launches.

    Args:
        modules: of the program; events of another replica may have loaded them.
        inputs: tensors that the program gets.
        allowed: returns whether an operation of torch of this name may run.
    """

    def __init__(
        self, modules: Modules, inputs: Sequence[torch.Tensor], allowed: Callable[[str], bool]
    ) -> None:
        self._modules, self._inputs, self._allowed = modules, inputs, allowed
        self._memory, self._stream = HostBytes(_fresh, copied), Stream()
        self._filled: dict[int, list[poison.Filled]] = {}
        self._results: list[torch.Tensor] = []

    def apply(self, message: Message) -> Message | None:
        """Does what an event says; returns the answer if the program waits for one.

        Raises:
            TileLangError: a launch ends so.
            Exception: the event cannot be.
        """
        fields, arrays = message
        return getattr(self, f"_on_{fields['event']}")(fields, arrays)  # type: ignore[no-any-return]

    def tensor(self, fields: dict[str, Any]) -> torch.Tensor:
        """Returns a tensor of the program, in place until the next event."""
        begin, end = _extent(fields)
        return tensor_at(self._memory.view(begin, end), fields)  # type: ignore[no-any-return]

    def _on_module(self, fields: dict[str, Any], _: Any) -> None:
        self._modules.load(fields)

    def _on_write(self, fields: dict[str, Any], arrays: list[np.ndarray]) -> None:
        for (begin, end), data in zip(fields["places"], arrays, strict=True):
            self._memory.view(begin, end)[:] = data

    def _on_inputs(self, fields: dict[str, Any], _: Any) -> None:
        for place, value in zip(fields["tensors"], self._inputs, strict=True):
            if value.numel():
                self.tensor(place).copy_(value)

    def _on_fill(self, fields: dict[str, Any], _: Any) -> None:
        watch = poison.current()
        second = watch is not None and watch.second
        filled = []
        for each in fields["outputs"]:
            span = Span(int(each["address"]), tuple(each["shape"]), tuple(each["strides"]),
                               int(each["itemsize"]))  # fmt: skip
            data = self._memory.view(span.address, span.end)
            array = np.ndarray(span.shape, f"u{span.itemsize}", data, 0, span.strides)
            array[...] = poison.pattern(each["dtype"], array.dtype, second)
            filled.append((span, poison.pattern(each["dtype"], array.dtype, second)))
        self._filled[fields["number"]] = filled  # type: ignore[assignment]

    def _on_filled(self, fields: dict[str, Any], _: Any) -> None:
        watch, found = poison.current(), []
        for span, value in self._filled.pop(fields["number"]):
            data = self._memory.view(span.address, span.end)  # type: ignore[attr-defined]
            array = np.ndarray(span.shape, f"u{span.itemsize}", data, 0, span.strides)  # type: ignore[attr-defined]
            found.append((array, value))
        if watch is not None:
            watch.tell(fields["name"], found)

    def _on_operation(self, fields: dict[str, Any], _: Any) -> None:
        if not self._allowed(fields["name"]):
            raise ValueError(f"the operation {fields['name']} is not allowed")
        function = getattr(getattr(torch.ops.aten, fields["name"]), fields["overload"] or "default")
        args, kwargs = self._unpacked(fields["args"]), self._unpacked(fields["kwargs"])
        found = torch.utils._pytree.tree_leaves(function(*args, **kwargs))
        self._results = [each for each in found if isinstance(each, torch.Tensor)]

    def _on_results(self, fields: dict[str, Any], _: Any) -> None:
        values = [each.clone() for each in self._results]
        for place, value in zip(fields["tensors"], values, strict=True):
            if value.numel():
                self.tensor(place).copy_(value)

    def _unpacked(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._unpacked(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return self.tensor(value["tensor"])
        if "list" in value:
            return self._unpacked(value["list"])
        if "torch" in value:
            return getattr(torch, value["torch"])
        if "float" in value:
            return float.fromhex(value["float"])
        if "unknown" in value:
            raise ValueError(f"an operation of torch with an argument of type {value['unknown']}")
        return {key: self._unpacked(each) for key, each in value.items()}

    def _on_launch(self, fields: dict[str, Any], _: Any) -> Message:
        kernel = self._modules[fields["module"]][fields["kernel"]]
        dims = Extents(kernel, fields["grid"], fields["block"], fields["cluster"],
                       fields["preferred"], fields["smem"])  # fmt: skip
        params = bytes.fromhex(fields["params"])
        if len(params) != kernel.param_bytes:
            raise ValueError("parameters of another size")
        overlaps = bool(fields["programmatic"]) and self._stream.may_overlap
        packed = Packed(dims, fields["smem"], params, overlaps, self._stream)
        for each in fields["storages"]:  # joins what overlaps, so that nothing moves later
            self._memory.view(each["begin"], each["begin"] + max(each["size"], 1))
        with self._mapped(kernel, fields["storages"]) as views:
            before = [data.copy() for _, data in views]
            report = kernel.launch_packed(packed, {})
            changed = [
                (place, data.copy())
                for (place, data), old in zip(views, before, strict=True)
                if not np.array_equal(data, old)
            ]
        return (
            {"changed": [place for place, _ in changed], "report": described(report)},
            [data for _, data in changed],
        )

    @contextlib.contextmanager
    def _mapped(
        self, kernel: Kernel, storages: list[dict[str, Any]]
    ) -> Iterator[list[tuple[tuple[int, int], np.ndarray]]]:
        """Maps memory where the program has mapped it; yields the parts that may be written."""
        memory, written = kernel.module.device.memory, []
        with contextlib.ExitStack() as stack:
            for each in storages:
                begin, size = each["begin"], each["size"]
                own = self._memory.view(begin, begin + max(size, 1))
                root = at(own.ctypes.data, max(size, 1))
                for first, last, writable in each["views"]:
                    view = root[first - begin : last - begin]
                    view.flags.writeable = bool(writable)
                    address = each["address"] + first - begin
                    stack.enter_context(memory.map(view, each["name"], address))
                    if writable and last > first:
                        written.append(((first, last), view))
            yield written


def _fresh(begin: int, end: int) -> np.ndarray:
    """Returns new memory, whose floats have no elements of the algebraic mode."""
    data = np.zeros(end - begin, np.uint8)
    forget(data)
    return data


def _extent(fields: dict[str, Any]) -> tuple[int, int]:
    begin, size = int(fields["at"]), getattr(torch, fields["dtype"]).itemsize
    if 0 in fields["shape"]:
        return begin, begin
    steps = zip(fields["shape"], fields["strides"], strict=True)
    return begin, begin + (sum((n - 1) * s for n, s in steps) + 1) * size


def described(report: LaunchReport) -> dict[str, Any]:
    """Returns the report of a launch as JSON, without times."""
    return {
        "by_class": {
            name: [count.instructions, count.lane_instructions]
            for name, count in report.by_class.items()
        },
        "findings": [each.fields for each in report.findings],
        "letters": [each.fields for each in report.letters],
        "instructions": report.instructions, "lane_instructions": report.lane_instructions,
        "seconds": report.seconds, "output": report.output, "warnings": report.warnings,
        "producer": report.producer, "waived": report.waived,
    }  # fmt: skip


def refused(error: TileLangError) -> Message:
    """Returns the answer to a launch that has ended by an error."""
    fields = error.fields if isinstance(error, EmulatorError) else None
    return {"changed": [], "error": fields or {"kind": "internal", "message": str(error)}}, []
