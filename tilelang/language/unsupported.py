# size-exempt: table
"""Names of TileLang that this version does not have: each is refused by name, with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .. import errors
from ..ir import span
from ..ir.dtype import SHORT

#: Reason, in words that follow "not supported: ", -> the names that it holds for.
REASONS: dict[str, tuple[str, ...]] = {
    reason: tuple(names.split())
    for reason, names in {
        "block-scaled instructions and their layouts are the compiler's; use T.gemm(..., "
        "scale_A=, scale_B=) or T.tcgen05_gemm_blockscaled": """
            gemm_blockscaled make_blockscaled_gemm_layout tcgen05_mma_blockscaled
            ptx_tcgen05_mma_blockscaled_ss ptx_mma_block_scale TensorCoreIntrinEmitterSM120""",
        "the compiler chooses the instruction of a sparse gemm: use T.gemm_sp": """
            wgmma_gemm_sp tcgen05_gemm_sp ptx_mma_sp ptx_wgmma_sp_ss ptx_wgmma_sp_rs
            SparseTensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter""",
        "the tensor-core instruction is chosen by the compiler, with the layouts that it "
        "needs; use T.gemm, T.wgmma_gemm or T.tcgen05_gemm": """
            ptx_mma ptx_mma_sm70 ptx_ldmatrix ptx_wgmma_ss ptx_wgmma_rs ptx_tcgen05_mma_ss
            ptx_tcgen05_mma_ts wgmma_mma tcgen05_mma mma_fill mma_store mma_store_index_map
            get_mma_micro_size get_ldmatrix_offset TensorCoreIntrinEmitter
            TensorCoreIntrinEmitterWithLadderTransform WGMMATensorCoreIntrinEmitter
            TCGEN05TensorCoreIntrinEmitter WGMMADescriptorParams TCGEN05DescriptorParams
            tvm_mma_sync tvm_bmma_sync tvm_fill_fragment tvm_load_matrix_sync
            tvm_store_matrix_sync validate_gemm_ab_dtypes""",
        "matrix descriptors are made by the compiler; use T.gemm, T.wgmma_gemm or "
        "T.tcgen05_gemm": """
            alloc_wgmma_desc alloc_tcgen05_smem_desc alloc_tcgen05_instr_desc alloc_descriptor
            alloc_tcgen05_instruction_desc initialize_wgmma_descriptor
            initialize_tcgen05_descriptor increase_descriptor_offset compute_umma_descriptor
            compute_gmma_descriptor""",
        "descriptors of the tensor memory accelerator are made by the compiler; use T.copy or"
        " T.tma_copy": """
            tma_load tma_load_2sm create_tma_descriptor ptx_cp_async_bulk""",
        "the compiler divides a kernel among warps itself; T.ws and roles by thread index do it by "
        "hand": "annotate_ws_pipeline_depth WarpSpecialize WarpSpecializeFrame ProducerLoad",
        "vectors are made by the compiler; write elements in T.Parallel or T.vectorized": """
            vscale get_active_lane_mask""",
        "one statement of Python says it: `if`, `else`, `while`, an assignment, `break`, "
        "`continue`": "break_loop continue_loop ret",
        "the grid and its threads are opened by T.Kernel": "IterVar KernelLaunchFrame",
        "statements of TIR are not written directly; the language has an operator for each": """
            block_name_suffix_context func_name func_ret Assert""",
        "a buffer is made by T.alloc_shared, T.alloc_fragment, T.alloc_local or a parameter": """
            buffer buffer_var arg index_map PartialFragment""",
        "an address is made by T.access_ptr and T.address_of": "handle_add_byte_offset",
        "use T.reduce_sum and the like": "CommReducer Reduce",
        "expressions are written with operators and T.if_then_else": "CallEffectKind",
        "it stands for a value that nothing defines; T.alloc_var without init= declares a "
        "variable": "undef",
        "barriers of the block are T.alloc_barrier and T.mbarrier_*, or T.sync_threads": """
            create_barriers ptx_init_barrier_thread_count""",
        "Python's own classes and functions, with @T.macro, do it": """
            meta_class meta_var inline has_let_value get_let_value lookup_param""",
        "a pass of another compiler gives it its meaning": """
            ignore_loop_partition start_profile_intrinsic end_profile_intrinsic
            llvm_lookup_intrinsic_id call_llvm_intrin call_llvm_pure_intrin q_multiply_shift
            q_multiply_shift_per_axis tvm_thread_invariant""",
        "code of the host is not written in a kernel; call it in Python before the launch": """
            tvm_call_packed tvm_call_packed_lowered tvm_call_cpacked tvm_call_cpacked_lowered
            call_packed call_packed_lowered call_cpacked call_cpacked_lowered call_kernel
            tvm_struct_get tvm_struct_set tvm_stack_alloca tvm_stack_make_array
            tvm_stack_make_shape tvm_throw_last_error tvm_tuple TVMBackendAllocWorkspace
            TVMBackendFreeWorkspace anylist_getitem anylist_resetitem
            anylist_setitem_call_packed anylist_setitem_call_cpacked""",
        "it names a type or a helper of another compiler": """
            Any AnyDType PrimFunc JITFunc get_tvm_dtype get_swizzle_layout
            make_mma_swizzle_layout is_float4 is_float4_e2m1fn is_float4_e2m1_unpacked
            is_f8f6f4_family call_pure_extern""",
    }.items()
}
# Names of torch, NumPy and Triton.
_ELSEWHERE = {
    **dict.fromkeys(("sum", "mean"), "sums of tiles are T.reduce_sum(tile, out, dim=...)"),
    **dict.fromkeys(("amax", "argmax"), "maxima of tiles are T.reduce_max(tile, out, dim=...)"),
    **dict.fromkeys(
        ("zeros", "zeros_like", "ones", "full"),
        "a tile is allocated, T.alloc_fragment(shape, dtype), and filled, T.clear or T.fill",
    ),
    **dict.fromkeys(("load", "store"), "tiles are copied, T.copy(A[i, j], tile); elements indexed"),
    "matmul": "products of tiles are T.gemm(A, B, C)",
    "arange": "the index of a loop is its variable: for i in T.Parallel(n)",
    "program_id": "the index of a block is that of T.Kernel: with T.Kernel(n) as bx",
    "num_programs": "the extents of the grid are what T.Kernel is given",
}
_REASON_OF = {name: reason for reason, names in REASONS.items() for name in names}
KNOWN = frozenset(_REASON_OF)


def refuse(name: str, available: Iterable[str]) -> errors.CompileError:
    """Returns the error for ``T.<name>``, a name that the language does not give a meaning."""
    place = span.here()
    if name in KNOWN:
        return errors.UnsupportedError(
            f"T.{name} is not supported by this version", span=place, notes=[_REASON_OF[name]]
        )
    if name in _ELSEWHERE:
        return errors.UnknownNameError(
            f"T.{name} does not exist", span=place, notes=[_ELSEWHERE[name]]
        )
    close = [SHORT[name]] if name in SHORT else []
    close = close or difflib.get_close_matches(name, [*available, *KNOWN], n=3)
    notes = [f"did you mean {', '.join(f'T.{each}' for each in close)}?"] if close else []
    return errors.UnknownNameError(f"T.{name} does not exist", span=place, notes=notes)
