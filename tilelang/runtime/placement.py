"""Chooses where a kernel runs if its call passes no tensor."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np

from ..target import Target, device_target


@functools.cache
def _empty(device: str) -> Any:
    import torch

    return torch.empty(0, device=device)


def placeholder(target: Target, args: tuple[Any, ...] = ()) -> Any:
    """Returns a tensor without elements that tells device, stream and library of the outputs.

    Args:
        target: what the kernel is compiled for.
        args: of the launch, none of them for a tensor; a torch tensor among them, passed for a
            pointer, tells the device.

    Returns:
        A tensor of torch, on the device of the arguments, else on its current GPU if that can run
        the code, else on the CPU; without torch an array of NumPy.
    """
    if importlib.util.find_spec("torch") is None:
        return np.empty(0)
    import torch

    for arg in args:
        if isinstance(arg, torch.Tensor):
            return _empty(str(arg.device))
    if torch.cuda.is_available():
        index = torch.cuda.current_device()
        if str(device_target(index)) == str(target):
            return _empty(f"cuda:{index}")
    return _empty("cpu")
