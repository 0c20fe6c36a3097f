"""Registers that ptxas counts: the choice among ways to compile a kernel, and remarks on spills."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .. import _ffi
from ..errors import CompileError, ResourceError
from ..runtime import cache, resources
from ..runtime.resources import ResourceUsage
from ..transform import PassConfigKey, Remark
from .lower import LoweredKernel


def with_fewest_spills(
    lowered: LoweredKernel,
    lower_again: Callable[[Mapping[str, Any]], LoweredKernel],
    arch: str,
    options: tuple[str, ...],
    span: Any,
) -> LoweredKernel:
    """Returns the kernel, or the variant of it that spills the fewest bytes.

    ptxas assembles the kernel only if its registers are scarce by the compiler's own estimate.
    Where it spills, the variants that the compiler names are compiled one after another, until one
    spills nothing.

    Args:
        lowered: the kernel with the choices of the compiler.
        lower_again: lowers the same function with other pass options.
        arch: the architecture (``"sm_90a"``).
        options: further options of NVRTC.
        span: the place of the kernel in its file, or None.
    """
    off = lowered.configs.get(str(PassConfigKey.TL_DISABLE_REGISTER_CHOICE))
    if off or not lowered.registers_scarce:
        return lowered
    kernels = [_assembled(lowered, arch, options)]
    for choice in lowered.choices:
        if _spilled(kernels[-1]) == 0:
            break
        try:
            other = lower_again({**lowered.configs, **choice})
        except CompileError:
            continue
        if other.source != lowered.source:
            kernels.append(_assembled(other, arch, options))
    best = min(kernels, key=_spilled)
    if best.source == lowered.source:
        return best
    remark = _remark(span, _text_of_choice(lowered, kernels[0], best))
    return replace(best, remarks=(*best.remarks, remark))


def remarks_on_spills(usages: Mapping[str, ResourceUsage], span: Any) -> list[Remark]:
    """Returns a remark for each grid whose threads keep values in local memory.

    Args:
        usages: what ptxas reports, by the names of grids.
        span: the place of the kernel in its file, or None.
    """
    return [
        _remark(span, _text_of_spills(name, usage))
        for name, usage in usages.items()
        if usage.spill_stores or usage.spill_loads
    ]


def _assembled(lowered: LoweredKernel, arch: str, options: Iterable[str]) -> LoweredKernel:
    """Returns the kernel with machine code, or itself if registers do not suffice for any."""
    every_option = (*lowered.options, *options)
    try:
        artifact = cache.compile_cached(lowered.lined_source, arch, every_option)
    except ResourceError:
        return lowered
    return replace(lowered, artifact=artifact)


def _spilled(lowered: LoweredKernel) -> float:
    """Returns the bytes that threads of all grids write to local memory or read from there.

    They are infinite if ptxas refuses the kernel.
    """
    if lowered.artifact is None:
        return math.inf
    usages = resources.parse(lowered.artifact.log).values()
    return sum(each.spill_stores + each.spill_loads for each in usages)


def _remark(span: Any, text: str) -> Remark:
    return _ffi.get("ir.Remark")(span, "registers", text)


def _text_of_choice(lowered: LoweredKernel, first: LoweredKernel, best: LoweredKernel) -> str:
    changed = ", ".join(
        f"{option}={value}"
        for option, value in best.configs.items()
        if lowered.configs.get(option) != value
    )
    before = (
        f"spills {_spilled(first)} bytes of a thread" if first.artifact else "refuses the kernel"
    )
    return (
        f"the kernel is compiled with {changed}, and ptxas spills {_spilled(best)} bytes of a "
        f"thread: it {before} with the first choice of the compiler. The pass option "
        "tl.disable_register_choice turns this off"
    )


def _text_of_spills(name: str, usage: ResourceUsage) -> str:
    return (
        f"{name}: ptxas gives a thread {usage.registers} registers, which do not hold its values: "
        f"each thread writes {usage.spill_stores} bytes to local memory and reads "
        f"{usage.spill_loads} bytes, which is slow. Use more threads, smaller tiles, or epilogue "
        "slices (tl.epilogue_subtile)"
    )
