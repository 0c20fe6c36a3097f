"""The compiler as a function: :func:`tilelang.engine.lower.lower`."""

from . import lower

__all__ = ["lower"]
