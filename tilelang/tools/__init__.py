"""Tools for looking at what the compiler does."""

from tilelang.tools.analyzer import Analyzer
from tilelang.tools.plot_layout import plot_layout

__all__ = ["Analyzer", "plot_layout"]
