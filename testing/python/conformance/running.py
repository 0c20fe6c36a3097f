"""Compiles a program for a target, runs it, and compares; tensors stay on the CPU."""

from __future__ import annotations

from typing import Any

import torch

import tilelang

_POISON = {torch.bool: True, torch.uint8: 171}


def normal(*shape: int, dtype: str = "float32") -> torch.Tensor:
    """Random numbers of mean 0 and variance 1."""
    return torch.randn(*shape).to(getattr(torch, dtype))


def integers(*shape: int, low: int = -50, high: int = 50, dtype: str = "int32") -> torch.Tensor:
    """Random integers from ``low`` to below ``high``."""
    return torch.randint(low, high, shape).to(getattr(torch, dtype))


def poison(*shape: int, dtype: str = "float32") -> torch.Tensor:
    """A tensor for results: NaN, or numbers that no program here computes."""
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.full(shape, float("nan"), dtype=torch.float32).to(kind)
    return torch.full(shape, _POISON.get(kind, 99), dtype=torch.int64).to(kind)


def run(func: Any, target: str, *args: Any, **options: Any) -> Any:
    """Compiles ``func`` and calls it; tensors among ``args`` are updated in place.

    Returns:
        the last tensor among the arguments.
    """
    kernel = tilelang.compile(func, target="auto" if target == "cuda" else target, **options)
    device = "cuda" if target == "cuda" else "cpu"
    moved = [arg.to(device) if isinstance(arg, torch.Tensor) else arg for arg in args]
    kernel(*moved)
    results = [arg for arg in args if isinstance(arg, torch.Tensor)]
    for arg, result in zip(args, moved, strict=True):
        if isinstance(arg, torch.Tensor) and arg is not result:
            arg.copy_(result)
    return results[-1]


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Fails unless ``actual`` is what the reference says, computed in float64."""
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=False
    )


def equal(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Fails unless the two are the same, element by element."""
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0, atol=0)
