"""Modules of TileLang that this compiler does not have: importing one says why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from typing import Any

_NO_CUTEDSL = "there is no CuTe DSL backend; kernels become CUDA C++"
_CHOSEN_BY_GEMM = (
    "instructions of the tensor core, and the layouts that they need, are chosen by T.gemm; "
    "make_mma_swizzle_layout is in tilelang.cuda.intrinsics"
)
_OWN_PASSES = "the passes of this compiler are its own: see tilelang.transform.pipeline()"

#: Module below tilelang -> the reason.
REASONS = {
    "rocm": "there is no ROCm backend",
    "metal": "there is no Metal backend",
    "jit.adapter.cutedsl": _NO_CUTEDSL,
    "cuda.target": _NO_CUTEDSL,
    "cuda.pipeline": _OWN_PASSES,
    "cuda.transform": _OWN_PASSES,
    "cuda.intrinsics.macro.mma_macro_generator": _CHOSEN_BY_GEMM,
    "cuda.intrinsics.macro.tcgen05_macro_generator": _CHOSEN_BY_GEMM,
    "cuda.intrinsics.mma_macro_generator": _CHOSEN_BY_GEMM,
    "cuda.intrinsics.wgmma_macro_generator": _CHOSEN_BY_GEMM,
    "cuda.intrinsics.utils": _CHOSEN_BY_GEMM,
    "intrinsics": _CHOSEN_BY_GEMM,
    "backend.create_backend_context": "there is one backend; pass target= to tilelang.compile",
    "cache.kernel_cache": "the cache on disk is tilelang.enable_cache and disable_cache",
    "cache": "the cache on disk is tilelang.enable_cache and disable_cache",
    "tools.cuda": "profiles are made by NVIDIA's tools; see kernel.get_profiler()",
}


class _Refusal(MetaPathFinder):
    """Raises for the modules of :data:`REASONS`; leaves all others to the next finder."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        reason = REASONS.get(fullname.removeprefix("tilelang."))
        if reason is not None and fullname.startswith("tilelang."):
            raise ModuleNotFoundError(
                f"tilelang has no module {fullname!r}: {reason}", name=fullname
            )


def install() -> None:
    """Makes imports of these modules say why they fail."""
    if not any(isinstance(finder, _Refusal) for finder in sys.meta_path):
        sys.meta_path.append(_Refusal())
