"""Versions of the compiler and of targets: see :mod:`tilelang.contrib.nvcc`."""

from . import nvcc

__all__ = ["nvcc"]
