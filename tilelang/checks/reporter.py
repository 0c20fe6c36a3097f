"""Tells the process that judges what a program does: its launches, and what they work on.

The process of a program compiles and decides what to launch. The launches themselves run in the
process that judges, on copies of the memory that they may reach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..emulator import LaunchReport
from ..emulator.device import InstructionCount, Module
from ..emulator.errors import EmulatorError, error_of
from ..emulator.watch import Launch
from ..runtime import poison
from .host_bytes import HostBytes, at, changes
from .wire import Wire


class Reporter:
    """Tells a judge about launches, and carries back what they have written.

    Args:
        wire: to the judge.
        follows: launches run here once more, in the algebraic mode, whose elements stay here.
    """

    def __init__(self, wire: Wire, follows: bool = False) -> None:
        self._wire, self._follows = wire, follows
        # What the judge knows of this memory; of a part that it does not know, all is different.
        self._known = HostBytes(lambda begin, end: ~at(begin, end - begin))
        self._modules: list[Module] = []

    def launched(self, launch: Launch) -> LaunchReport:
        """Lets the judge run a launch.

        Raises:
            EmulatorError: the launch ends so.
        """
        if not self._wire.is_own:
            return launch.run()
        if not self._follows:
            return self._judged(launch)
        with launch.undone():
            report = self._judged(launch)
        launch.run(sanitize=False)
        return report

    def _judged(self, launch: Launch) -> LaunchReport:
        timing = None
        if launch.given.get("timing"):  # the program's own business
            with launch.undone():
                timing = launch.run(sanitize=False).timing
        storages = launch.kernel.module.device.memory.storages()
        self.tell((begin, end) for each in storages for begin, end, _ in each.views)
        packed = launch.packed
        fields, arrays = self._wire.ask({
            "event": "launch", "module": self._number(launch.kernel.module),
            "kernel": launch.kernel.name, "grid": launch.grid, "block": launch.block,
            "cluster": list(packed.dims.cluster) if packed.dims.explicit_cluster else None,
            "preferred": packed.dims.preferred, "smem": packed.smem,
            "params": packed.params.hex(), "programmatic": packed.programmatic,
            "storages": [each._asdict() for each in storages],
        })  # fmt: skip
        for (begin, end), data in zip(fields["changed"], arrays, strict=True):
            at(begin, end - begin)[:] = data
            self._known.view(begin, end)[:] = data
        if "error" in fields:
            raise error_of(fields["error"])
        return _report(fields["report"], timing)

    def tell(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Tells what has changed in parts of the memory, and nobody has told."""
        places, arrays = [], []
        for begin, end in ranges:
            known, now = self._known.view(begin, end), at(begin, end - begin)
            for first, last in changes(known, now):
                places.append((begin + first, begin + last))
                arrays.append(now[first:last].copy())
                known[first:last] = arrays[-1]
        if places:
            self._wire.send({"event": "write", "places": places}, arrays)

    def place(self, values: Sequence[Any]) -> None:
        """Tells where the inputs lie that the judge has handed over."""
        tensors = [each for each in tree_leaves(values) if hasattr(each, "untyped_storage")]
        self._wire.send({"event": "inputs", "tensors": [reference(each) for each in tensors]})
        self.learn(tensors)

    def learn(self, tensors: Iterable[Any]) -> None:
        """Takes note of memory whose content the judge computes itself."""
        for begin, end in map(extent, tensors):
            self._known.view(begin, end)[:] = at(begin, end - begin)

    def operation(self, func: Any, args: Any, kwargs: dict[str, Any], before: list[Any]) -> None:
        """Tells of an operation of torch; ``before`` are the tensors that it reads."""
        self.tell(map(extent, before))
        self._wire.send({
            "event": "operation", "name": func._schema.name.rpartition("::")[2],
            "overload": func._overloadname, "args": packed(args), "kwargs": packed(kwargs),
        })  # fmt: skip

    def result(self, results: list[Any]) -> None:
        """Tells where the results of the last operation lie."""
        self._wire.send({"event": "results", "tensors": [reference(each) for each in results]})
        self.learn(results)

    def _number(self, module: Module) -> int:
        for number, each in enumerate(self._modules):
            if each is module:
                return number
        self._modules.append(module)
        kernels = {
            kernel.name: {
                "tiles": [_tile(each) for each in kernel.tiles],
                "fragments": [_tile(each) for each in kernel.fragments],
            }
            for kernel in module.kernels.values()
        }
        self._wire.send({
            "event": "module", "arch": module.device.arch, "text": module.text,
            "globals": module.globals, "kernels": kernels, "log": module.assembly_log(),
        })  # fmt: skip
        return len(self._modules) - 1


def _tile(tile: Any) -> dict[str, Any]:
    return {**dataclasses.asdict(tile), "uses": sorted(tile.uses)}


def _report(fields: dict[str, Any], timing: Any) -> LaunchReport:
    errors = {
        each: [EmulatorError(error) for error in fields[each]] for each in ("findings", "letters")
    }
    return LaunchReport(
        fields["instructions"], fields["lane_instructions"], fields["seconds"],
        {name: InstructionCount(*counts) for name, counts in fields["by_class"].items()},
        fields["output"], fields["warnings"], errors["findings"], timing, fields["producer"],
        fields["waived"], errors["letters"],
    )  # fmt: skip


def reference(tensor: Any) -> dict[str, Any]:
    """Returns where a tensor lies, and its dtype, shape and strides."""
    return {
        "at": tensor.data_ptr(), "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape), "strides": list(tensor.stride()),
    }  # fmt: skip


def extent(tensor: Any) -> tuple[int, int]:
    """Returns where the bytes of a tensor begin and end."""
    begin = tensor.data_ptr()
    if tensor.numel() == 0:
        return begin, begin
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def packed(value: Any) -> Any:
    """Returns the arguments of an operation as JSON."""
    import torch

    if isinstance(value, torch.Tensor):
        return {"tensor": reference(value)}
    if isinstance(value, list | tuple):
        return {"list": [packed(each) for each in value]}
    if isinstance(value, dict):
        # Where a tensor lies is not for the judge.
        return {key: packed(each) for key, each in value.items() if key not in ("device", "layout")}
    if isinstance(value, torch.dtype | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, float):
        return {"float": value.hex()}
    return value if isinstance(value, bool | int | str | None) else {"unknown": str(type(value))}


class ReportedOutputs(poison.Watch):
    """Fills the outputs of calls, and tells of it."""

    def __init__(self, wire: Wire, reporter: Reporter) -> None:
        super().__init__(lambda *_: None, False)
        self._wire, self._reporter, self._count = wire, reporter, 0
        self._numbers: dict[int, int] = {}

    def fill(self, tensors: Sequence[Any]) -> list[poison.Filled]:
        filled = super().fill(tensors)
        if not self._wire.is_own:
            return filled
        spans = [(poison.span_of(each), str(each.dtype)) for each in tensors]
        self._wire.send({
            "event": "fill", "number": self._count,
            "outputs": [{**span._asdict(), "dtype": dtype} for span, dtype in spans],
        })  # fmt: skip
        self._numbers[id(filled)] = self._count
        self._count += 1
        for span, _ in spans:
            self._reporter._known.view(span.address, span.end)[:] = at(
                span.address, span.end - span.address
            )
        return filled

    def tell(self, name: str, filled: Sequence[poison.Filled]) -> None:
        number = self._numbers.pop(id(filled), None)
        if number is not None and self._wire.is_own:
            self._wire.send({"event": "filled", "name": name, "number": number})


class ReportedOperations(TorchDispatchMode):
    """Tells of operations of torch whose results the judge computes itself.

    Args:
        allowed: returns whether an operation of this name is one.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False: else the first operation imports torch._dynamo, which takes a second."""
        return False

    def __init__(self, reporter: Reporter, allowed: Any) -> None:
        super().__init__()
        self._reporter, self._allowed = reporter, allowed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        import torch

        kwargs = kwargs or {}
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        name = func._schema.name.rpartition("::")[2]
        told = bool(given) and not func.is_view and self._allowed(name)
        if told:
            self._reporter.operation(func, args, kwargs, given)
        result = func(*args, **kwargs)
        if told:
            results = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
            self._reporter.result(results)
        return result
