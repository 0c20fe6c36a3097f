"""Names that programs import from ``tilelang.jit.adapter``: a kernel launches itself here."""

from .base import BaseKernelAdapter

__all__ = ["BaseKernelAdapter"]
