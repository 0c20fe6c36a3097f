"""The one backend: NVIDIA GPUs, and the emulator of them."""

from .target import determine_target

__all__ = ["determine_target"]
