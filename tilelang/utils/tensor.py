"""Tensors for tests: from :mod:`tilelang.profiler` and :mod:`tilelang.testing`."""

from __future__ import annotations

from typing import Any

from ..ir.dtype import dtype_of
from ..profiler import TensorSupplyType
from ..profiler.compare import torch_assert_close


def map_torch_type(dtype: Any) -> Any:
    """Returns the torch dtype of that name."""
    import torch

    return getattr(torch, str(dtype_of(dtype)))


__all__ = ["TensorSupplyType", "map_torch_type", "torch_assert_close"]
