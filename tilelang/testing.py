"""Helpers for tests of kernels; needs pytest."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from . import _ffi
from .algebra import check
from .profiler.batch_invariance import assert_batch_invariant
from .profiler.compare import torch_assert_close

#: Marks a test that needs an NVIDIA GPU.
requires_cuda = pytest.mark.requires_cuda


def _unsupported(backend: str) -> Any:
    return pytest.mark.skip(reason=f"there is no {backend} backend")


requires_rocm = _unsupported("ROCm")
requires_metal = _unsupported("Metal")
requires_llvm = _unsupported("LLVM")
#: The same here, as there is no ROCm backend.
requires_cuda_or_cdna = requires_cuda


def requires_package(*packages: str) -> Any:
    """Marks a test that is skipped unless packages are installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def _capability() -> tuple[int, int]:
    major, minor = _ffi.get("runtime.DeviceCapability")(0)
    return int(major), int(minor)


def _requires(description: str, holds: Callable[[tuple[int, int]], bool]) -> Any:
    def mark(function: Any) -> Any:
        capability = _capability()
        skip = pytest.mark.skipif(
            not holds(capability),
            reason=f"needs compute capability {description}, here is {capability}",
        )
        return requires_cuda(skip(function))

    return mark


def requires_cuda_compute_version(major: int, minor: int = 0, mode: str = "ge") -> Any:
    """Marks a test that needs a GPU of a compute capability: mode ge, eq, gt, le or lt."""
    wanted = (major, minor)
    holds = {
        "ge": lambda found: found >= wanted,
        "gt": lambda found: found > wanted,
        "le": lambda found: found <= wanted,
        "lt": lambda found: found < wanted,
        "eq": lambda found: found == wanted,
    }[mode]
    return _requires(f"{mode} {major}.{minor}", holds)


def requires_cuda_compute_version_ge(major: int, minor: int = 0) -> Any:
    """Marks a test that needs at least a compute capability."""
    return requires_cuda_compute_version(major, minor, "ge")


def requires_cuda_compute_version_gt(major: int, minor: int = 0) -> Any:
    """Marks a test that needs more than a compute capability."""
    return requires_cuda_compute_version(major, minor, "gt")


def requires_cuda_compute_version_le(major: int, minor: int = 0) -> Any:
    """Marks a test that needs at most a compute capability."""
    return requires_cuda_compute_version(major, minor, "le")


def requires_cuda_compute_version_lt(major: int, minor: int = 0) -> Any:
    """Marks a test that needs less than a compute capability."""
    return requires_cuda_compute_version(major, minor, "lt")


def requires_cuda_compute_version_eq(major: int, minor: int = 0) -> Any:
    """Marks a test that needs exactly a compute capability."""
    return requires_cuda_compute_version(major, minor, "eq")


def assert_equal_algebra(
    kernel: Callable[..., Any], reference: Callable[..., Any], *inputs: Any, **options: Any
) -> None:
    """Checks a kernel against its mathematical definition, without a tolerance.

    Args:
        kernel, reference, inputs, options: as of :func:`tilelang.algebra.check`.

    Raises:
        AssertionError: names an element that differs, and the terms that it lacks if these are a
            part of a sum.
        UserError: there is nothing to compare.
    """
    verdict = check(kernel, reference, *inputs, **options)
    if not verdict.equal:
        raise AssertionError(str(verdict))


def set_random_seed(seed: int = 42) -> None:
    """Seeds the generators of Python, NumPy and torch."""
    import random

    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def process_func(func: Callable[..., Any], name: str | None = None, **kwargs: Any) -> float:
    """Runs a function that measures, and prints what it returns.

    Args:
        func: returns milliseconds.
        name: what to print; the function's own name by default.
        kwargs: arguments of ``func``.
    """
    latency = float(func(**kwargs))
    print(f"{name or func.__name__}: {latency:.6f} ms")
    return latency


def regression(
    prefixes: tuple[str, ...] = ("regression_",), verbose: bool = True
) -> dict[str, Any]:
    """Calls the functions of the calling file whose names start with one of ``prefixes``.

    Returns:
        what each of them returned, by name.
    """
    frame = inspect.stack()[1].frame
    found = {
        name: value
        for name, value in frame.f_globals.items()
        if callable(value) and name.startswith(prefixes)
    }
    results = {name: function() for name, function in found.items()}
    if verbose:
        for name, result in results.items():
            print(f"{name}: {result}")
    return results


def main() -> None:
    """Runs the tests of the calling file."""
    frame = inspect.stack()[1]
    sys.exit(pytest.main([frame.filename, *sys.argv[1:]]))


__all__ = [
    "assert_batch_invariant",
    "assert_equal_algebra",
    "main",
    "process_func",
    "regression",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_cuda_or_cdna",
    "requires_llvm",
    "requires_metal",
    "requires_package",
    "requires_rocm",
    "set_random_seed",
    "torch_assert_close",
]
