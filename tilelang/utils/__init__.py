"""Names that programs import from ``tilelang.utils``."""

from . import target, tensor
from .target import determine_target
from .tensor import TensorSupplyType, map_torch_type, torch_assert_close

__all__ = [
    "TensorSupplyType",
    "determine_target",
    "map_torch_type",
    "target",
    "tensor",
    "torch_assert_close",
]
