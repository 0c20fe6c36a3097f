"""Chooses the 8-bit float types of the target."""

from __future__ import annotations

from typing import Any

from ..errors import DTypeError
from ..ir.dtype import DType, dtype_of

_TYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


def determine_fp8_type(fp8_format: str = "e4m3") -> DType:
    """Returns the floating-point type of 8 bits of that format.

    Args:
        fp8_format: "e4m3" or "e5m2".

    Raises:
        DTypeError: another format.
    """
    if fp8_format not in _TYPES:
        raise DTypeError(
            f"unknown format {fp8_format!r} of 8-bit floats",
            notes=[f"known: {', '.join(_TYPES)}"],
        )
    return dtype_of(_TYPES[fp8_format])


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """As :func:`determine_fp8_type`, as a torch dtype."""
    import torch

    return getattr(torch, str(determine_fp8_type(fp8_format)))


__all__ = ["determine_fp8_type", "determine_torch_fp8_type"]
