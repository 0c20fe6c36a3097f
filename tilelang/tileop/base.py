"""Policies that divide a GEMM among the warps of a block."""

from ..language.gemm import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
