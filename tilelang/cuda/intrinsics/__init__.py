"""Layouts that instructions want; the instructions themselves are chosen by the compiler."""

from .layout.mma_layout import make_mma_swizzle_layout

__all__ = ["make_mma_swizzle_layout"]
