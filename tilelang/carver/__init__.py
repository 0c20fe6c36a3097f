"""What programs ask of the hardware: see :mod:`tilelang.carver.arch`."""

from . import arch

__all__ = ["arch"]
