"""Names for what the compiler does by itself: they change nothing, and leave a remark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .builder import in_kernel
from .gemm import wait_wgmma
from .ignored import remark_by_itself

_WGMMA = "T.wgmma_gemm fences its operands and makes a group of its instructions"
_STORES = "T.copy waits for its stores by the tensor memory accelerator"

#: Name -> what happens instead.
AUTOMATIC: dict[str, str] = {
    "warpgroup_arrive": _WGMMA,
    "warpgroup_commit_batch": _WGMMA,
    "warpgroup_fence_operand": _WGMMA,
    "tma_store_arrive": _STORES,
    "tma_store_wait": _STORES,
    "deallocate_tmem": "tensor memory is released after its last use",
    "ptx_fence_barrier_init": "mbarriers are visible once they are initialized",
}


def _automatic(name: str, why: str) -> Callable[..., None]:
    def function(*arguments: Any, **options: Any) -> None:
        in_kernel(f"T.{name}")
        remark_by_itself(f"T.{name}", why, arguments, options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Changes nothing, and leaves a remark: {why}."
    return function


FUNCTIONS: dict[str, Callable[..., None]] = {
    name: _automatic(name, why) for name, why in AUTOMATIC.items()
}


def warpgroup_wait(num_mma: int = 0) -> None:
    """As ``T.wait_wgmma(num_mma)``."""
    wait_wgmma(num_mma)


__all__ = ["AUTOMATIC", "FUNCTIONS", "warpgroup_wait"]
