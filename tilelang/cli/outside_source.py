"""Judges a kernel in PTX or CUDA C++; its reference runs in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..checks.processes import Other
from ..checks.wire import packed
from ..emulator import Device
from ..emulator.__main__ import parse_argument
from ..emulator.memory import is_array
from ..errors import UserError
from .programs import Program, Request, text_of
from .recording import asked
from .verdict import current_recorder

if TYPE_CHECKING:  # both need torch, and a launch without a reference does not
    from ..profiler.judge import Comparison
    from .outside_judge import OutsideReference


def outside_source(request: Request) -> Program:
    """Returns an object that launches the kernel, and compares the arrays that it changes."""
    how = f"compared with {request.reference}" if request.reference else ""
    return Program(_Source(request).run, how)


class _Source:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._kinds = [text.partition("[")[0] for text in request.args]
        self._process: Other | None = None

    def run(self, target: str) -> list[Comparison]:
        """Launches the kernel once.

        Raises:
            UserError: the kernel, an argument or an output is not named.
        """
        request, device = self._request, Device(target)
        if request.path.suffix == ".cu":
            module = device.load_cuda(request.path)
        else:
            module = device.load_ptx(text_of(request.path))
        entry = request.name or request.entry
        if not entry and len(module.kernels) != 1:
            raise UserError(
                f"{request.path.name} has {len(module.kernels)} kernels: choose one by FILE::NAME",
                notes=[f"they are {', '.join(module.kernels)}"],
            )
        kernel = module[entry or next(iter(module.kernels))]
        args = [parse_argument(each, request.seed + i) for i, each in enumerate(request.args)]
        if not args and kernel.params:
            wanted = ", ".join(f".{each.type}" for each in kernel.params)
            raise UserError(
                f"the kernel takes {len(kernel.params)} arguments of the types {wanted}, but there "
                "is no --arg",
                notes=[
                    "give each argument by --arg: an array as f32[1000]:random, a number as 1000",
                    "give the launch by --grid and --block",
                ],
            )
        before = [each.copy() if is_array(each) else each for each in args]
        recorder = current_recorder()
        if recorder is not None and recorder.algebra is not None:
            recorder.draw(self._tensors(args))
        kernel.launch(request.grid, request.block, args, cluster=request.cluster, smem=request.smem)
        return [self._compared(args, before)] if request.reference else []

    def _compared(self, args: list[Any], before: list[Any]) -> Comparison:
        """Compares the arrays that the reference returns, or changes if it returns nothing."""
        from ..profiler.judge import Comparison

        asked_for = self._request.outputs
        arrays = [i for i, each in enumerate(args) if is_array(each)]
        chosen = list(asked_for) or arrays
        wrong = [i for i in chosen if i not in arrays]
        if wrong:
            raise UserError(
                f"--outputs: argument {wrong[0]} is no array; arrays are {_listed(arrays)}"
            )
        inputs = self._tensors(before)
        reference, count = self._reference(chosen, inputs)
        if count > len(chosen) or (asked_for and count < len(chosen)):
            raise UserError(
                f"the reference returns {count} arrays, and {len(chosen)} arguments could be "
                f"compared with them: {_listed(chosen)}; --outputs names the arguments that it "
                "computes"
            )
        results = self._tensors(args)
        return Comparison([results[i] for i in chosen[-count:]], inputs, reference)

    def _reference(self, chosen: list[int], inputs: list[Any]) -> tuple[OutsideReference, int]:
        """Returns the reference, and how many arrays it computes."""
        from .outside_judge import OutsideReference

        request = self._request
        if self._process is None:
            self._process = Other("tilelang.cli.references:serve")
            order = {"do": "find", "path": str(request.path), "name": request.name,
                     "argv": [], "reference": request.reference, "changed": chosen}  # fmt: skip
            asked(self._process, order)
        values: list[Any] = []
        order = {"do": "count", "inputs": packed(inputs, values)}
        answer, _ = asked(self._process, order, values)
        return OutsideReference(self._process), answer["count"]

    def _tensors(self, values: list[Any]) -> list[Any]:
        return [_tensor(each, kind) for each, kind in zip(values, self._kinds, strict=True)]


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(map(str, indices)) or "none"


def _tensor(value: Any, kind: str) -> Any:
    """Returns an argument as a tensor of torch; bf16 is an array of 16 bits in NumPy."""
    import torch

    if not is_array(value):
        return value
    tensor = torch.from_numpy(value)
    return tensor.view(torch.bfloat16) if kind == "bf16" else tensor
