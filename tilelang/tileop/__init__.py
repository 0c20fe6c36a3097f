"""Settings of tile operators."""

from .base import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
