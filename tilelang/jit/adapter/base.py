"""The name under which programs annotate compiled kernels."""

from ..kernel import JITKernel as BaseKernelAdapter

__all__ = ["BaseKernelAdapter"]
