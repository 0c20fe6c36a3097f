"""Lowers a function to CUDA C++, without NVRTC."""

from __future__ import annotations

from typing import Any

from ..jit import lower_to_source
from ..jit.lower import LoweredKernel


def lower(
    func: Any,
    target: Any = "auto",
    target_host: Any = None,
    *,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
    **options: Any,
) -> LoweredKernel:
    """Compiles a function up to CUDA C++.

    Args:
        func: what ``@T.prim_func`` gives.
        target: see :mod:`tilelang.target`.
        target_host, enable_host_codegen, enable_device_compile: accepted; the result is CUDA C++
            for the device, and no host code.
        options: ``pass_configs``, as of :func:`tilelang.compile`.

    Returns:
        A record whose ``kernel_source`` is the source.
    """
    return lower_to_source(func, target, **options)


__all__ = ["lower"]
