"""As :mod:`tilelang.backend.target`."""

from ..backend.target import determine_target

__all__ = ["determine_target"]
