"""The compiler as a function: :func:`tilelang.engine.lower.lower`."""

from . import callback, lower

__all__ = ["callback", "lower"]
