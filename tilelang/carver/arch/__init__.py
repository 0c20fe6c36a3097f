"""The limits of an architecture, from the table of targets."""

from __future__ import annotations

from typing import Any

from ... import target as targets
from ...errors import UnsupportedError
from . import driver


class CUDA:
    """An NVIDIA GPU as a program asks about it.

    Attributes:
        target: the row of the table of architectures.
        sm_version: 80, 90 or 100.
        compute_max_core: multiprocessors.
        smem_cap: shared memory that a block can have, in bytes.
        reg_cap: registers of a multiprocessor, 32 bits each.
        warp_size: threads of a warp.
        sm_partition: parts of a multiprocessor that issue on their own.

    Raises:
        TargetError: the target is none of the supported architectures.
    """

    def __init__(self, target: Any = "auto") -> None:
        row: Any = targets.resolve(target)
        self.target = row
        self.arch = str(row.arch)
        self.sm_version = 10 * row.major + row.minor
        self.compute_capability = str(self.sm_version)
        self.compute_max_core = int(row.sm_count)
        self.smem_cap = int(row.shared_memory_per_block)
        self.reg_cap = int(row.registers_per_sm)
        self.warp_size = 32
        self.sm_partition = 4
        self.platform = "CUDA"


class CDNA:
    """AMD's GPUs: the name exists so that programs can ask; there is no such backend."""

    def __init__(self, *_: Any) -> None:
        raise UnsupportedError("there is no ROCm backend", notes=["use tilelang.carver.arch.CUDA"])


def get_arch(target: Any = "cuda") -> CUDA:
    """Returns the limits of ``target``."""
    return CUDA(target)


def auto_infer_current_arch() -> CUDA:
    """Returns the limits of what ``"auto"`` stands for: see :func:`tilelang.target.resolve`."""
    return CUDA("auto")


def is_cuda_arch(arch: Any) -> bool:
    """Returns whether ``arch`` is an NVIDIA GPU."""
    return isinstance(arch, CUDA)


def is_cdna_arch(arch: Any) -> bool:
    """Returns whether ``arch`` is an AMD GPU."""
    return isinstance(arch, CDNA)


__all__ = [
    "CDNA",
    "CUDA",
    "auto_infer_current_arch",
    "driver",
    "get_arch",
    "is_cdna_arch",
    "is_cuda_arch",
]
