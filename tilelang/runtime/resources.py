"""Resources of a compiled kernel on an SM, as ptxas reports them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ResourceUsage:
    """Resources of one kernel.

    Attributes:
        registers: registers of a thread.
        spill_stores, spill_loads: bytes that a thread writes to and reads from local memory
            because it ran out of registers.
        stack: bytes of local memory of a thread.
        static_shared_memory: bytes of a block, without the dynamic part.
        barriers: named barriers of a block.
    """

    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    static_shared_memory: int = 0
    barriers: int = 0


def parse(log: str) -> dict[str, ResourceUsage]:
    """Reads the log of ``ptxas -v``: the resources of each kernel by name."""
    sections = re.split(r"Compiling entry function '(\w+)' for '\w+'", log)
    return {
        name: _parse_section(text)
        for name, text in zip(sections[1::2], sections[2::2], strict=True)
    }


def _parse_section(text: str) -> ResourceUsage:
    def number(pattern: str) -> int:
        match = re.search(pattern, text)
        return int(match[1]) if match else 0

    return ResourceUsage(
        registers=number(r"Used (\d+) registers"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        stack=number(r"(\d+) bytes stack frame"),
        static_shared_memory=number(r"(\d+) bytes smem"),
        barriers=number(r"used (\d+) barriers"),
    )
