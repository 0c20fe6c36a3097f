"""The types of elements by name, and as torch names them."""

from __future__ import annotations

from typing import Any

import torch

from ..ir.dtype import ALIASES, SUPPORTED, dtype_of
from ..ir.dtype import DType as dtype

#: Type of torch -> name, of the types that kernels compute with.
_TORCH_DTYPE_TO_STR: dict[torch.dtype, str] = {
    getattr(torch, name): name for name in SUPPORTED if hasattr(torch, name)
}
_all_dtypes = [name for name in (*SUPPORTED, *ALIASES) if name.isidentifier()]


def __getattr__(name: str) -> Any:
    if name in _all_dtypes:
        return dtype_of(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["dtype"]
