"""From a ``T.prim_func`` to CUDA C++: calls the compiler core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _ffi
from ..ir.stmt import ir_function
from ..target import Target
from ..transform import Remark
from .postprocess import processed


@dataclass(frozen=True)
class LoweredKernel:
    """What the compiler core makes of a function.

    Attributes:
        source: CUDA C++ for people.
        lined_source: the same with ``#line`` directives to the kernel's Python file, for NVRTC.
        options: NVRTC options that the source needs.
        spec: how to launch it (``tl.runtime.KernelSpec``).
        remarks: what the passes did, or did not do, and why.
        configs: the normalized pass options that it was made with.
        schedule: of each launch (``tl.schedule.LaunchSchedule``).
        tiles: in shared memory (``tl.SharedTile``), of kernels by their names.
    """

    source: str
    lined_source: str
    options: tuple[str, ...]
    spec: Any
    remarks: tuple[Remark, ...] = ()
    configs: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[Any, ...] = ()
    tiles: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def kernel_source(self) -> str:
        """The CUDA C++ for people, by the name that ``tilelang.lower`` users know."""
        return self.source


def _noting(func: Any, texts: Sequence[str]) -> Any:
    """The function with further remarks on what was asked for and has no effect."""
    if not texts:
        return func
    noted = [*func.attrs.get("ignored_arguments", []), *([func.span, text] for text in texts)]
    attrs = {**func.attrs, "ignored_arguments": noted}
    return _ffi.get("ir.Func")(func.name, func.params, func.body, attrs, func.span)


def lower(
    func: Any, target: Target, configs: Mapping[str, Any], ignored: Sequence[str] = ()
) -> LoweredKernel:
    """Runs the passes and the code generator.

    Args:
        func: what ``@T.prim_func`` gives.
        target: the architecture to compile for.
        configs: normalized pass options.
        ignored: remarks on options without effect.

    Raises:
        CompileError: the kernel cannot be compiled as written.
    """
    compiled = _ffi.get("compiler.Compile")(
        _noting(ir_function(func), ignored), target, dict(configs)
    )
    generated = str(compiled.source)
    source = processed(generated, target)
    return LoweredKernel(
        source,
        str(compiled.lined_source) if source == generated else source,
        tuple(str(option) for option in compiled.options),
        _launch_spec(compiled),
        tuple(compiled.remarks),
        dict(configs),
        tuple(compiled.schedule),
        {str(kernel.name): tuple(kernel.tiles) for kernel in compiled.kernels},
    )


def _launch_spec(compiled: Any) -> Any:
    return _ffi.get("runtime.SpecOf")(compiled)
