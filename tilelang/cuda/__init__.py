"""Helpers of the CUDA backend that programs import by this name."""

from . import intrinsics

__all__ = ["intrinsics"]
