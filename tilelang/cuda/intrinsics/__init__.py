"""Layouts that instructions want; the instructions themselves are chosen by the compiler."""

from .layout.mma_layout import get_swizzle_layout, make_mma_swizzle_layout

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]
