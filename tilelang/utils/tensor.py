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


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Integer) -> Any:
    """Returns a function that makes a tensor for a parameter of a kernel (``kernel.params``).

    The tensor lies on the GPU where there is one, else on the CPU.

    Args:
        supply_type: how it is filled.
    """
    import torch

    from ..profiler.supply import supply

    def make(param: Any) -> Any:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return supply([param], supply_type, device, {})[0]

    return make


__all__ = ["TensorSupplyType", "get_tensor_supply", "map_torch_type", "torch_assert_close"]
