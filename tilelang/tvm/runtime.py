"""``tvm.runtime``: which devices there are, and types."""

from __future__ import annotations

from ..ir.dtype import dtype_of
from ..language.codec import narrow_type


def enabled(target: str) -> bool:
    """Returns whether kernels can be compiled for ``target``: only for ``"cuda"``."""
    return target.split()[0] == "cuda"


def DataType(dtype: object) -> object:
    """The type of that name: ``DataType("int4").bits``."""
    return narrow_type(dtype) or dtype_of(dtype)


__all__ = ["DataType", "enabled"]
