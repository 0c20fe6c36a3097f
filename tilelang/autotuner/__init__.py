"""Choosing the fastest of several configurations of a kernel.

``@tilelang.autotune(configs=[...])`` above ``@tilelang.jit``, or
``AutoTuner.from_kernel(function, configs).run()``.
"""

from .decorator import AutotunedFunction, autotune
from .dynamic import TunedKernel
from .inputs import get_autotune_inputs, set_autotune_inputs
from .result import AutotuneResult, Trial
from .settings import ProfileArgs
from .tuner import AutoTuner

__all__ = [
    "AutoTuner",
    "AutotuneResult",
    "AutotunedFunction",
    "ProfileArgs",
    "Trial",
    "TunedKernel",
    "autotune",
    "get_autotune_inputs",
    "set_autotune_inputs",
]
