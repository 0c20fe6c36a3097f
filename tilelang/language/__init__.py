"""The TileLang language: ``import tilelang.language as T``."""

from ..ir.dtype import SUPPORTED as _SUPPORTED
from ..ir.dtype import dtype_of as _dtype_of
from ..ir.expr import cast
from .allocate import (
    alloc_barrier,
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_shared,
    alloc_tmem,
    alloc_var,
)
from .copy import clear, copy, fill
from .function import RefType as Ref
from .function import macro, prim_func
from .kernel import ClusterKernel, Kernel
from .loops import (
    Parallel,
    Persistent,
    Pipelined,
    Serial,
    Unroll,
    Vectorized,
    grid,
    serial,
    unroll,
    vectorized,
)
from .scalar import ceildiv, if_then_else, infinity, max, min
from .tensor import StridedTensor, Tensor, dynamic, ptr, symbolic
from .tensor import buffer_annotation as Buffer

globals().update({_name: _dtype_of(_name) for _name in _SUPPORTED})
