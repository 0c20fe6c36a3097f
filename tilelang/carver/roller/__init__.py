"""Where programs of TileLang look for plans of the order of blocks."""

from . import rasterization

__all__ = ["rasterization"]
