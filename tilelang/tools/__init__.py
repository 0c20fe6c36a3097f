"""Tools for looking at what the compiler does."""

from tilelang.tools.plot_layout import plot_layout

__all__ = ["plot_layout"]
