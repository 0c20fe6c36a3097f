"""Plans of the order of blocks, under the names that programs of TileLang import."""

from . import rasterization

__all__ = ["rasterization"]
