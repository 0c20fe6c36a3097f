"""The TileLang language: ``import tilelang.language as T``."""

from __future__ import annotations

from typing import Any as _Any

from ..errors import boundary as _boundary
from ..ir.dtype import ALIASES as _ALIASES
from ..ir.dtype import KNOWN_UNSUPPORTED as _UNSUPPORTED_TYPES
from ..ir.dtype import SUPPORTED as _TYPES
from ..ir.dtype import DType as dtype
from ..ir.dtype import dtype_of as _dtype_of
from . import math as _math
from .allocate import (
    alloc_barrier,
    alloc_cluster_barrier,
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_shared,
    alloc_tmem,
    alloc_var,
    empty,
)
from .annotations import (
    annotate_compile_flags,
    annotate_epilogue,
    annotate_l2_hit_ratio,
    annotate_layout,
    annotate_min_blocks_per_sm,
    annotate_pass_configs,
    annotate_restrict_buffers,
    annotate_safe_value,
    assume,
    import_source,
    use_swizzle,
)
from .atomics import (
    atomic_add,
    atomic_addx2,
    atomic_addx4,
    atomic_and,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_store,
    atomic_xor,
)
from .automatic import FUNCTIONS as _AUTOMATIC
from .automatic import warpgroup_wait
from .block_scaled import (
    mma_gemm_blockscaled,
    tcgen05_cp_warpx4,
    tcgen05_gemm_blockscaled,
    tcgen05_sf_warp_transpose,
)
from .cluster import (
    block_rank_in_cluster,
    cluster_arrive,
    cluster_arrive_relaxed,
    cluster_sync,
    cluster_wait,
    copy_cluster,
    tma_copy,
)
from .codec import CODECS as _CODECS
from .codec import NarrowType as _NarrowType
from .copy import clear, copy, fill, transpose
from .copy_async import (
    async_copy,
    cp_async_barrier_noinc,
    ptx_commit_group,
    ptx_cp_async,
    ptx_cp_async_barrier,
    ptx_wait_group,
)
from .debug import device_assert, print
from .disjoint import assume_disjoint
from .dot import dp4a
from .eager import const
from .early_return import thread_return
from .function import RefType as Ref
from .function import macro, prim_func
from .gather import tma_gather4, tma_gather4_bytes, tma_scatter4
from .gemm import GemmWarpPolicy, gemm, gemm_v1, tcgen05_gemm, wait_wgmma, wgmma_gemm
from .gemm_sparse import gemm_sp
from .im2col import c2d_im2col, im2col
from .kernel import ClusterKernel, Kernel
from .lanes import ACCESSES as _ACCESSES
from .lanes import PAIRS as _PAIRS
from .lanes import (
    Broadcast,
    Ramp,
    Shuffle,
    broadcast,
    extract_lane,
    ramp,
    vectorcombine,
    vectorhigh,
    vectorlow,
)
from .lanes import VectorType as _VectorType
from .lanes import is_vector as _is_vector
from .launch_control import (
    clc_get_first_ctaid_x,
    clc_get_first_ctaid_y,
    clc_get_first_ctaid_z,
    clc_is_canceled,
    clc_try_cancel,
    clc_try_cancel_multicast,
)
from .loops import (
    Parallel,
    Pipelined,
    Serial,
    Unroll,
    Vectorized,
    grid,
    loop_break,
    serial,
    unroll,
    vectorized,
)
from .make_view import reshape, view
from .math import exp2_fma, fabs, fma, ldexp, pow, round
from .persistent import Persistent
from .pointer import access_ptr, address_of, call_extern, call_intrin, evaluate
from .pointer import ldg as _ldg
from .random import rng_init, rng_rand, rng_rand_float
from .raw.allreduce import comm_reducer, tvm_thread_allreduce
from .raw.buffers import (
    alloc_buffer,
    allocate,
    buffer_decl,
    decl_buffer,
    index_to_coordinates,
    match_buffer,
    sblock_alloc_buffer,
    tvm_access_ptr,
)
from .raw.expressions import OPERATORS as _OPERATORS
from .raw.expressions import (
    And,
    BufferLoad,
    Call,
    Div,
    FloatImm,
    IntImm,
    Mod,
    Not,
    Or,
    PrimExpr,
    Range,
    SizeVar,
    StringImm,
    Var,
    fmul,
    isnullptr,
    likely,
    type_annotation,
    var,
    void,
)
from .raw.launch import env_thread, iter_var, launch_thread, parallel, thread_binding
from .raw.statements import (
    Else,
    If,
    Let,
    Then,
    While,
    attr,
    axis,
    bind,
    block,
    block_attr,
    buffer_store,
    func_attr,
    init,
    let,
    ptx_arrive_barrier,
    ptx_arrive_barrier_expect_tx,
    ptx_arrive_cluster_barrier,
    ptx_wait_barrier,
    reads,
    sblock,
    sblock_attr,
    target,
    tvm_storage_sync,
    where,
    writes,
)
from .raw_memory import make_tensor, make_tensor_from_addr
from .record import record
from .records import argmax, argmin, logsumexp, topk, welford
from .reduce import (
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_all,
    reduce_any,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from .reduce_record import (
    reduce_argmax,
    reduce_argmin,
    reduce_logsumexp,
    reduce_record,
    reduce_topk,
    reduce_welford,
)
from .reducer import alloc_reducer, finalize_reducer, reducer_init, reducer_update
from .scalar import (
    Cast,
    Select,
    align_up,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cdiv,
    ceildiv,
    clamp,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    max,
    max_value,
    min,
    min_value,
    reinterpret,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from .scalar import abs_value as abs
from .scalar import convert as cast
from .scan import cummax, cumsum
from .scheduler import BaseTileScheduler, PersistentTileScheduler
from .source_kernel import CUDASourceCodeKernel
from .sync import (
    annotate_consumer_reg_alloc,
    annotate_producer_reg_dealloc,
    barrier_arrive,
    barrier_wait,
    dec_max_nreg,
    disable_warp_group_reg_alloc,
    fence_proxy_async,
    inc_max_nreg,
    mbarrier_arrive,
    mbarrier_arrive_expect_tx,
    mbarrier_expect_tx,
    mbarrier_wait_parity,
    named_barrier_arrive,
    no_set_max_nreg,
    pdl_sync,
    pdl_trigger,
    set_max_nreg,
    sync_grid,
    sync_threads,
    sync_warp,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    tcgen05_after_thread_sync,
    tcgen05_before_thread_sync,
    tcgen05_mma_arrive,
)
from .tensor import (
    FragmentBuffer,
    LocalBuffer,
    SharedBuffer,
    StridedTensor,
    Tensor,
    dynamic,
    ptr,
    symbolic,
)
from .tensor import buffer_annotation as Buffer
from .tensor import ptr as Ptr
from .tensor import ptr as handle
from .threads import (
    activemask,
    all_sync,
    any_sync,
    ballot,
    ballot_sync,
    get_block_binding,
    get_block_bindings,
    get_block_extent,
    get_block_extents,
    get_cluster_dims,
    get_cluster_extent,
    get_cluster_extents,
    get_cluster_id,
    get_cluster_ids,
    get_cluster_size,
    get_lane_idx,
    get_thread_binding,
    get_thread_bindings,
    get_thread_extent,
    get_thread_extents,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    match_all_sync,
    match_any_sync,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
    tvm_warp_activemask,
    tvm_warp_shuffle,
    tvm_warp_shuffle_down,
    tvm_warp_shuffle_up,
    warp_reduce_bitand,
    warp_reduce_bitor,
    warp_reduce_max,
    warp_reduce_min,
    warp_reduce_sum,
)
from .threads import fns as _fns
from .tile_tests import all_of, any_of
from .unsupported import refuse as _refuse
from .warpgroup import ws
from .ws_schedule import (
    WSID,
    WSInstr,
    WSOpRef,
    WSPipeline,
    WSRole,
    WSSchedule,
    WSScope,
    WSSync,
    WSSyncKind,
    annotate_ws_schedule,
    ws_op,
)

globals().update({name: _dtype_of(name) for name in (*_TYPES, *_ALIASES) if name != "bool_"})
globals().update({name: _NarrowType(name) for name in _CODECS})
globals().update(_math.FUNCTIONS)
globals().update(_OPERATORS)
globals().update({"__ldg": _ldg, "__fns": _fns})
globals().update(_ACCESSES)
globals().update(_AUTOMATIC)
globals().update(_PAIRS)

__all__ = [
    *(
        name
        for name, value in list(globals().items())
        if not name.startswith("_") and type(value).__name__ not in ("module", "_Feature")
    ),
    *(name for name in _math.FUNCTIONS if name.startswith("__")),
    "__fns",
    "__ldg",
]


@_boundary
def __getattr__(name: str) -> _Any:
    if name in ("Layout", "Fragment"):
        from .. import layout

        return getattr(layout, name)
    if name in _UNSUPPORTED_TYPES:
        return _dtype_of(name)
    if _is_vector(name):
        return _VectorType(name)
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise _refuse(name, __all__)
