"""Compiles and calls kernels."""

from ..transform.pass_config import PassConfigKey
from .compiler import compile, lower_to_source, par_compile
from .decorator import JITFunction, jit
from .eager import EagerFunction
from .kernel import JITKernel

#: What ``@tilelang.jit`` makes of a function, by the name of TileLang.
JITImpl = JITFunction | EagerFunction

__all__ = [
    "EagerFunction",
    "JITFunction",
    "JITImpl",
    "JITKernel",
    "PassConfigKey",
    "compile",
    "jit",
    "lower_to_source",
    "par_compile",
]
