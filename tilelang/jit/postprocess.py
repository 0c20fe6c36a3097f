"""Functions that may change generated CUDA C++ before NVRTC compiles it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ArgumentError

Callback = Callable[[str, Any], str]
_registered: list[Callback] = []


def register_cuda_postproc(func: Callback | None = None, override: bool = True) -> None:
    """Lets a function change the source of every kernel compiled from here on.

    Args:
        func: ``(source, target) -> source``; None: kernels stay as generated.
        override: whether it takes the place of one that is registered already.

    Raises:
        ArgumentError: it may not.
    """
    if _registered and not override:
        raise ArgumentError("a callback is registered already; pass override=True to replace it")
    _registered[:] = [] if func is None else [func]


def register_cuda_postproc_callback(
    func: Callback | bool | None = None, *, override: bool = True
) -> Any:
    """Registers a function as :func:`register_cuda_postproc` does, as a decorator."""

    def decorated(function: Callback) -> Callback:
        register_cuda_postproc(function, override)
        return function

    if callable(func):
        return decorated(func)
    return decorated


def register_hip_postproc_callback(
    func: Callback | bool | None = None, *, override: bool = True
) -> Any:
    """Accepted in programs for several backends; never called, as there is no ROCm backend."""
    return func if callable(func) else lambda function: function


def registered() -> tuple[Callback, ...]:
    """Returns the functions that change the source of kernels compiled now."""
    return tuple(_registered)


def processed(source: str, target: Any, functions: Iterable[Callback]) -> str:
    """Returns the source that the functions make of ``source``, one after another.

    Raises:
        ArgumentError: it returns no text.
    """
    for function in functions:
        source = function(source, target)
        if not isinstance(source, str):
            raise ArgumentError(
                f"the callback {function.__name__} for generated code returned "
                f"{type(source).__name__}, not the source"
            )
    return source


__all__ = [
    "register_cuda_postproc",
    "register_cuda_postproc_callback",
    "register_hip_postproc_callback",
]
