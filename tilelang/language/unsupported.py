# size-exempt: table
"""Names of TileLang that this version does not have, so that they are refused by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .. import errors
from ..ir import span

_ALIAS = "allocate a second buffer, or index the first one differently"
_RAW = "use the tile operators T.copy and T.gemm"

#: What to do instead, where there is something.
HINTS = {
    "reshape": _ALIAS,
    "view": _ALIAS,
    "make_tensor": "declare the parameter as T.Tensor or T.StridedTensor",
    "make_tensor_from_addr": "declare the parameter as T.Tensor or T.StridedTensor",
    "async_copy": "use T.copy inside T.Pipelined",
    "loop_break": "write `break`",
    "break_loop": "write `break`",
    "continue_loop": "write `continue`",
    "thread_return": "put the rest of the body under `else`",
    "parallel": "use T.Parallel",
    "If": "write `if`",
    "Then": "write `if`",
    "Else": "write `else`",
    "While": "write `while`",
    "let": "write a plain assignment",
    "bind": "write a plain assignment",
    "alloc_buffer": "use T.alloc_shared, T.alloc_fragment or T.alloc_local",
    "alloc_reducer": "use T.reduce_sum and the like",
    "tvm_storage_sync": "use T.sync_threads",
    "tvm_thread_allreduce": "use T.reduce_sum and the like",
    "comm_reducer": "use T.reduce_sum and the like",
    "match_buffer": "declare the parameter as T.Tensor",
    "handle": "declare the parameter as T.ptr or T.Tensor",
    "ptx_cp_async": _RAW,
    "ptx_mma": _RAW,
    "ptx_ldmatrix": _RAW,
}

_OTHERS = """
    PersistentTileScheduler CUDASourceCodeKernel
    BaseTileScheduler annotate_pass_configs annotate_compile_flags
    deallocate_tmem alloc_wgmma_desc alloc_tcgen05_smem_desc
    alloc_tcgen05_instr_desc im2col gemm_sp dp4a finalize_reducer tcgen05_gemm_blockscaled
    tcgen05_cp_warpx4 tcgen05_sf_warp_transpose mma_gemm_blockscaled reducer_init
    reducer_update cummax tma_gather4 tma_scatter4 c2d_im2col any_of all_of gemm_blockscaled
    make_blockscaled_gemm_layout ptx_wait_group ptx_commit_group pdl_sync
    pdl_trigger sync_grid cp_async_barrier_noinc tma_store_wait tma_load create_tma_descriptor
    named_barrier_arrive tma_store_arrive warpgroup_arrive
    warpgroup_commit_batch warpgroup_wait warpgroup_fence_operand clc_is_canceled
    clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z clc_try_cancel
    clc_try_cancel_multicast tma_load_2sm initialize_tcgen05_descriptor increase_descriptor_offset
    ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts attr annotate_ws_schedule ws_op annotate_safe_value
    annotate_restrict_buffers annotate_ws_pipeline_depth rng_init rng_rand rng_rand_float add2 mul2
    fma2 max2 min2 sub2 abs2 ldg32 ldg64 ldg128 ldg256 stg32 stg64 stg128 stg256 lds32 lds64 lds128
    sts32 sts64 sts128 thread_binding Var sblock writes reads launch_thread func_attr
    type_annotation tvm_access_ptr decl_buffer Ramp Broadcast ptx_arrive_barrier sblock_attr WSSync
    WSScope WSSchedule WSRole WSPipeline WSID Shuffle tvm_warp_shuffle tma_gather4_bytes target
    sblock_alloc_buffer ptx_wgmma_ss
    ptx_init_barrier_thread_count ptx_fence_barrier_init match_any_sync match_all_sync
    initialize_wgmma_descriptor index_to_coordinates extract_lane __ldg __fns __ffs
    WSSyncKind PrimExpr wgmma_mma wgmma_gemm_sp vectorlow vectorhigh vectorcombine undef
    tcgen05_mma tcgen05_gemm_sp tcgen05_mma_blockscaled meta_class meta_var inline iter_var
    index_map env_thread ptx_wait_barrier ptx_mma_sp ptx_cp_async_bulk ptx_cp_async_barrier
    mma_store mma_fill lookup_param likely q_multiply_shift ret ramp broadcast buffer_store
    create_barriers compute_umma_descriptor compute_gmma_descriptor get_cluster_id get_cluster_ids
    get_cluster_size get_cluster_extent get_cluster_extents get_cluster_dims
    shift vscale
"""
KNOWN = frozenset(HINTS) | frozenset(_OTHERS.split())


def refuse(name: str, available: Iterable[str]) -> errors.CompileError:
    """Returns the error for ``T.<name>``, a name that the language does not give a meaning."""
    place = span.here()
    if name in KNOWN:
        hint = [HINTS[name]] if name in HINTS else []
        return errors.UnsupportedError(
            f"T.{name} is not supported by this version", span=place, notes=hint
        )
    close = difflib.get_close_matches(name, [*available, *KNOWN], n=3)
    notes = [f"did you mean {', '.join(f'T.{each}' for each in close)}?"] if close else []
    return errors.UnknownNameError(f"the language has no name T.{name}", span=place, notes=notes)
