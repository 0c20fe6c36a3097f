"""Remarks on registers that ptxas spills to local memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _ffi
from ..runtime.resources import ResourceUsage
from ..transform import Remark


def remarks_on_spills(usages: Mapping[str, ResourceUsage], span: Any) -> list[Remark]:
    """Returns a remark for each grid whose threads keep values in local memory.

    Args:
        usages: what ptxas reports, by the names of grids.
        span: the place of the kernel in its file, or None.
    """
    return [
        _ffi.get("ir.Remark")(span, "registers", _text(name, usage))
        for name, usage in usages.items()
        if usage.spill_stores or usage.spill_loads
    ]


def _text(name: str, usage: ResourceUsage) -> str:
    return (
        f"{name}: ptxas gives a thread {usage.registers} registers, which do not hold its values: "
        f"each thread writes {usage.spill_stores} bytes to local memory and reads "
        f"{usage.spill_loads} bytes, which is slow. Use more threads, smaller tiles, or epilogue "
        "slices (tl.epilogue_subtile)"
    )
