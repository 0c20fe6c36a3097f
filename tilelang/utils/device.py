"""The device that programs allocate their tensors on."""

from __future__ import annotations

import torch

IS_CUDA = torch.cuda.is_available()


def get_current_device() -> int | str:
    """Returns the index of the current GPU, or "cpu", whose tensors run on the emulator."""
    return torch.cuda.current_device() if IS_CUDA else "cpu"


def device_synchronize() -> None:
    """Waits for the work of the current GPU; on the CPU calls return when they are done."""
    if IS_CUDA:
        torch.cuda.synchronize()


__all__ = ["IS_CUDA", "device_synchronize", "get_current_device"]
