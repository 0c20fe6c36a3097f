"""The names of :mod:`tilelang.backend.target` under another module."""

from ..backend.target import determine_target

__all__ = ["determine_target"]
