"""How the warps of a block share a gemm."""

from ..language.gemm import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
