"""The callbacks of generated code by the name of the module that programs import them from."""

from ..jit.postprocess import (
    register_cuda_postproc,
    register_cuda_postproc_callback,
    register_hip_postproc_callback,
)

__all__ = [
    "register_cuda_postproc",
    "register_cuda_postproc_callback",
    "register_hip_postproc_callback",
]
