"""The list of Triton programs that the tests run, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

ARCHS = ("sm_80", "sm_90a", "sm_100a")


class Program(NamedTuple):
    """A program that checks itself.

    Attributes:
        name: of its function.
        run: launches the kernels and compares; gets the target.
        archs: the targets that it is for.
    """

    name: str
    run: Callable[[str], None]
    archs: tuple[str, ...]


def collect(registered: list[Program], archs: tuple[str, ...] = ARCHS) -> Callable[..., Any]:
    """A decorator that adds a function to the programs of its file."""

    def add(run: Callable[[str], None]) -> Callable[[str], None]:
        registered.append(Program(run.__name__, run, archs))
        return run

    return add


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed)).to(dtype)


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What nothing has been written to."""
    return torch.full(shape, float("nan") if dtype.is_floating_point else -77).to(dtype)


#: Relative error of a rounded result.
ROUNDING = {torch.float32: 2.0**-20, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


def check(actual: torch.Tensor, expected: torch.Tensor, rtol: float = 0, atol: float = 0) -> None:
    """Compares with a reference in float64; by default as exactly as the type is."""
    rtol = rtol or ROUNDING.get(actual.dtype, 0)
    torch.testing.assert_close(actual.double(), expected.double(), rtol=rtol, atol=atol or rtol)
