"""Compiles and calls kernels."""

from ..transform.pass_config import PassConfigKey
from .compiler import compile, lower_to_source, par_compile
from .decorator import JITFunction, jit
from .eager import EagerFunction
from .kernel import JITKernel

__all__ = [
    "EagerFunction",
    "JITFunction",
    "JITKernel",
    "PassConfigKey",
    "compile",
    "jit",
    "lower_to_source",
    "par_compile",
]
