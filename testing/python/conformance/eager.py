"""Functions of the eager style, on the emulator or on the GPU of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tilelang


def jit(target: str, **options: Any) -> Callable[[Any], Any]:
    """Decorates a function whose body is the kernel; its calls take and give CPU tensors.

    Args:
        target: an architecture, or "cuda" for the GPU.
        options: further ones of ``tilelang.jit``.
    """

    def decorate(function: Any) -> Callable[..., Any]:
        compiled = tilelang.jit(target="auto" if target == "cuda" else target, **options)(function)

        def call(*args: Any, **kwargs: Any) -> Any:
            moved = {id(arg): _moved(arg, target) for arg in (*args, *kwargs.values())}
            result = compiled(
                *(moved[id(arg)] for arg in args),
                **{name: moved[id(arg)] for name, arg in kwargs.items()},
            )
            for arg in (*args, *kwargs.values()):  # what was updated in place
                if isinstance(arg, torch.Tensor) and moved[id(arg)] is not arg:
                    arg.copy_(moved[id(arg)])
            if isinstance(result, list):
                return [each.cpu() for each in result]
            return None if result is None else result.cpu()

        return call

    return decorate


def _moved(arg: Any, target: str) -> Any:
    on_gpu = target == "cuda" and isinstance(arg, torch.Tensor)
    return arg.cuda() if on_gpu else arg
