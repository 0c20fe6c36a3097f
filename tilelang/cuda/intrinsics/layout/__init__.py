"""Layouts of operands in shared memory."""

from .mma_layout import make_mma_swizzle_layout

__all__ = ["make_mma_swizzle_layout"]
