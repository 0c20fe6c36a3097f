"""Lowers a ``T.prim_func`` to CUDA C++ by the compiler core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import _ffi
from ..errors import CompileError, Note
from ..ir.stmt import ir_function
from ..runtime.nvrtc import Artifact
from ..target import Target
from ..transform import Remark
from .postprocess import Callback, processed, registered


class GlobalVar(str):
    """The name of a function of the GPU."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        return str(self)


class DeviceModule(NamedTuple):
    """The functions of a kernel that run on the GPU.

    Attributes:
        functions: how each function is launched (``tl.runtime.LaunchSpec``), by its name.
    """

    functions: Mapping[GlobalVar, Any]


@dataclass(frozen=True)
class LoweredKernel:
    """The result of the compiler core for a function.

    Attributes:
        source: CUDA C++ for people.
        lined_source: the same with ``#line`` directives to the kernel's Python file, for NVRTC.
        options: NVRTC options that the source needs.
        spec: how to launch it (``tl.runtime.KernelSpec``).
        remarks: what the passes did, or did not do, and why.
        configs: the normalized pass options that it was made with.
        schedule: of each launch (``tl.schedule.LaunchSchedule``).
        tiles: in shared memory and registers (``tl.NamedTile``), of kernels by their names.
        postprocess: functions that changed the generated source, or had the chance to.
        choices: pass options under which it may need fewer registers.
        registers_scarce: whether fragments take nearly all registers of a thread, by the
            compiler's own estimate.
        artifact: PTX and machine code, if ptxas has been asked for the registers.
    """

    source: str
    lined_source: str
    options: tuple[str, ...]
    spec: Any
    remarks: tuple[Remark, ...] = ()
    configs: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[Any, ...] = ()
    tiles: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    postprocess: tuple[Callback, ...] = ()
    choices: tuple[Mapping[str, Any], ...] = ()
    registers_scarce: bool = False
    artifact: Artifact | None = None

    @property
    def kernel_source(self) -> str:
        """The CUDA C++ for people, by the name that ``tilelang.lower`` users know."""
        return self.source

    @property
    def device_mod(self) -> DeviceModule:
        """The functions of the GPU, by the name that ``tilelang.lower`` users know."""
        launches = self.spec.launches
        return DeviceModule({GlobalVar(launch.kernel_name): launch for launch in launches})


def _noting(func: Any, texts: Sequence[str]) -> Any:
    """Returns the function with further remarks on requests that have no effect."""
    if not texts:
        return func
    noted = [*func.attrs.get("ignored_arguments", []), *([func.span, text] for text in texts)]
    attrs = {**func.attrs, "ignored_arguments": noted}
    return _ffi.get("ir.Func")(func.name, func.params, func.body, attrs, func.span)


def lower(
    func: Any,
    target: Target,
    configs: Mapping[str, Any],
    ignored: Sequence[str] = (),
    *,
    overlapping: bool = False,
    postprocess: Sequence[Callback] | None = None,
) -> LoweredKernel:
    """Runs the passes and the code generator.

    Args:
        func: what ``@T.prim_func`` gives.
        target: the architecture to compile for.
        configs: normalized pass options.
        ignored: remarks on options without effect.
        overlapping: for calls in which the memory of tensors overlaps: statements stay in the order
            of the program where one may read what another one writes, and the grid stays as it is.
        postprocess: functions that change the source; by default the registered ones.

    Raises:
        CompileError: the kernel cannot be compiled as written.
    """
    program = _noting(ir_function(func), ignored)
    compiled = _ffi.get("compiler.Compile")(program, target, dict(configs), overlapping)
    generated = str(compiled.source)
    functions = registered() if postprocess is None else tuple(postprocess)
    source = processed(generated, target, functions)
    return LoweredKernel(
        source,
        str(compiled.lined_source) if source == generated else source,
        tuple(str(option) for option in compiled.options),
        _ffi.get("runtime.SpecOf")(compiled, program),
        tuple(compiled.remarks),
        dict(configs),
        tuple(compiled.schedule),
        {str(kernel.name): tuple(kernel.tiles) for kernel in compiled.kernels},
        functions,
        tuple({str(key): value for key, value in each.items()} for each in compiled.choices),
        bool(compiled.registers_scarce),
    )


def lower_overlapping(func: Any, lowered: LoweredKernel, target: Target) -> LoweredKernel:
    """Lowers a function once more, for calls in which the memory of tensors overlaps.

    Args:
        func: what ``@T.prim_func`` gives.
        lowered: what :func:`lower` made of it for other calls.
        target: the architecture that it was made for.

    Raises:
        CompileError: the kernel cannot be compiled so.
    """
    try:
        return lower(
            func, target, lowered.configs, overlapping=True, postprocess=lowered.postprocess
        )
    except CompileError as error:
        error.notes.append(
            Note(
                "the memory of arguments overlaps, so that the kernel is compiled without taking "
                "them to be apart; pass copies (`.clone()`) to run it as compiled before"
            )
        )
        raise
