"""Compiled kernels that the emulator runs with a changed text."""

from __future__ import annotations

import copy
from typing import Any


def emulate(kernel: Any, ptx: str) -> None:
    """From now on tensors of the CPU run this text instead of what was compiled."""
    emulation = kernel._emulation
    assert emulation._code.ptx, "the kernel has a text of its own"
    emulation._code = copy.copy(emulation._code)
    emulation._code.ptx = ptx
    emulation.__dict__.pop("_loaded", None)
