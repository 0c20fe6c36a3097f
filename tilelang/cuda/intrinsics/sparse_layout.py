"""The form of matrices of which some elements are zero, for compressors of one's own."""

from __future__ import annotations

from typing import Any

from ...ir.dtype import DType, dtype_of
from ...sparse import get_e_factor

#: Element type -> how many elements of a group may differ from zero, and elements of a group.
GROUP_CONFIG: dict[DType, tuple[int, int]] = {
    dtype_of("float32"): (1, 2),
    **{
        dtype_of(name): (2, 4)
        for name in ("float16", "bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2")
    },
}


def get_e_replicate_factor(a_dtype: Any) -> int:
    """Returns how many neighbouring threads of ``mma.sp`` give the same metadata.

    The metadata of elements of 16 and 32 bits are those of one pair of threads of each four; those
    of 8 bits are of all four.
    """
    return 1 if dtype_of(a_dtype).bits <= 8 else 2


__all__ = ["GROUP_CONFIG", "get_e_factor", "get_e_replicate_factor"]
