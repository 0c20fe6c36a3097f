"""Arrays that arrive element by element, cut into tiles in a bounded memory (docs/stream.md)."""

from __future__ import annotations

from .geometry import Geometry

__all__ = ["Geometry"]
