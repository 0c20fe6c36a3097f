"""Layouts that instructions want; the instructions themselves are chosen by the compiler."""

from __future__ import annotations

from typing import Any

from .layout.mma_layout import get_swizzle_layout, make_mma_swizzle_layout

__all__ = ["get_swizzle_layout", "make_mma_swizzle_layout"]


def __getattr__(name: str) -> Any:
    from ...language.unsupported import REASONS

    for reason, names in REASONS.items():
        if name in names:
            raise ImportError(f"tilelang.cuda.intrinsics has no {name}: {reason}", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
