"""Tools for looking at what the compiler does."""

from tilelang.layout.plot_layout import plot_layout
from tilelang.tools.analyzer import Analyzer

__all__ = ["Analyzer", "plot_layout"]
