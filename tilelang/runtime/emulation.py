"""Launches whose tensors are on the CPU run on the emulator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UnsupportedError


def make_emulate(arch: str, ptx: str) -> Callable[..., None]:
    """Returns the function that the launcher calls for a launch on the CPU.

    It takes the kernel's name, grid, block, cluster (empty without), bytes of dynamic shared
    memory, and the arguments: tensors, bytes of scalars, and mappings that describe tensor maps.
    """

    @functools.cache
    def module() -> tuple[Any, Any]:
        try:
            from ..emulator import Device
        except ImportError:
            raise UnsupportedError(
                "the arguments are CPU tensors, but this build has no emulator",
                notes=["pass CUDA tensors"],
            ) from None
        device = Device(arch)
        return device, device.load_ptx(ptx)

    def emulate(
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        cluster: Sequence[int],
        shared_memory: int,
        args: Sequence[Any],
    ) -> None:
        device, kernels = module()
        converted = [_argument(device, arg) for arg in args]
        kernels[str(name)].launch(
            tuple(grid),
            tuple(block),
            converted,
            cluster=tuple(cluster) or None,
            smem=shared_memory,
        )

    return emulate


def _argument(device: Any, arg: Any) -> Any:
    return arg
