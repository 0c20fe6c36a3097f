"""TileLang for Blackwell: a tile-kernel compiler for NVIDIA GPUs and a machine to run it on."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from . import _as_tvm, _missing, _owner
from . import _ffi as _ffi  # first: decides how tvm-ffi is imported
from . import env as env
from . import errors as errors
from .env import disable_cache, enable_cache, is_cache_enabled
from .jit import JITKernel, PassConfigKey, compile, jit, par_compile
from .jit import lower_to_source as lower
from .jit.decorator import set_tuner as _set_tuner
from .math import cdiv, next_power_of_2
from .runtime.cache import get_cache_dir, set_cache_dir

_owner.warn_of_another()
_missing.install()
_as_tvm.install()
__version__ = "0.2.0"

__all__ = [
    "JITKernel",
    "PassConfigKey",
    "TensorSupplyType",
    "autotune",
    "cdiv",
    "check_many",
    "compile",
    "differentiable",
    "disable_cache",
    "enable_cache",
    "get_cache_dir",
    "is_cache_enabled",
    "jit",
    "lower",
    "next_power_of_2",
    "par_compile",
    "set_cache_dir",
    "set_log_level",
]

# Imported at first use, as they are not needed for compiling a kernel.
_LAZY_MODULES = (
    *(
        "algebra",
        "autotuner",
        "backend",
        "carver",
        "checks",
        "contrib",
        "cuda",
        "emulator",
        "engine",
        "language",
    ),
    *("layout", "math"),
    *("profiler", "target", "testing", "tileop", "tools", "tvm", "utils"),
)


def set_log_level(level: int | str) -> None:
    """Sets which messages of the logger "tilelang" are printed: ``"WARNING"``, ``"DEBUG"``, ..."""
    logging.getLogger(__name__).setLevel(level.upper() if isinstance(level, str) else level)


def _autotune(function: Any, **options: Any) -> Any:
    return importlib.import_module(f"{__name__}.autotuner").autotune(function, **options)


_set_tuner(_autotune)


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "TensorSupplyType":
        return importlib.import_module(f"{__name__}.profiler").TensorSupplyType
    if name == "check_many":
        return importlib.import_module(f"{__name__}.checks.many").check_many
    if name == "DataType":
        return importlib.import_module(f"{__name__}.tvm").DataType
    if name == "differentiable":
        return importlib.import_module(f"{__name__}.jit.autograd").differentiable
    if name == "autotune":
        return importlib.import_module(f"{__name__}.autotuner").autotune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
