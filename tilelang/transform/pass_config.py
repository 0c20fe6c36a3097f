"""Options of the compiler: ``pass_configs={tilelang.PassConfigKey.TL_...: value}``.

Keys are enumerators or their spellings (``"tl.disable_tma_lower"``). Keys that exist in TileLang
but ask for nothing here are accepted; an unknown key is an error, as it would be a silent typo.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..errors import ConfigError


class PassConfigKey(str, Enum):
    """The options by name; the value is the spelling."""

    # Honoured.
    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_DISABLE_WARPGROUP_TURNS = "tl.disable_warpgroup_turns"
    TL_DISABLE_BLOCK_FITTING = "tl.disable_block_fitting"
    TL_DISABLE_BLOCK_ORDER = "tl.disable_block_order"
    TL_DISABLE_LAUNCH_VERSIONS = "tl.disable_launch_versions"
    TL_DISABLE_LOAD_EARLY = "tl.disable_load_early"
    TL_DISABLE_LOAD_STAGING = "tl.disable_load_staging"
    TL_DISABLE_LOAD_TRIMMING = "tl.disable_load_trimming"
    TL_DISABLE_EXP2_POLYNOMIALS = "tl.disable_exp2_polynomials"
    TL_DISABLE_APPROXIMATE_FUNCTIONS = "tl.disable_approximate_functions"
    TL_DISABLE_KEPT_MAXIMA = "tl.disable_kept_maxima"
    TL_DISABLE_STAGE_FITTING = "tl.disable_stage_fitting"
    TL_KEEP_STAGES = "tl.keep_stages"
    TL_DISABLE_SPLIT_K = "tl.disable_split_k"
    TL_DISABLE_ROW_REALIGNMENT = "tl.disable_row_realignment"
    TL_DISABLE_COLUMN_STAGING = "tl.disable_column_staging"
    TL_DISABLE_ROW_STAGING = "tl.disable_row_staging"
    TL_DISABLE_FACTOR_PACKING = "tl.disable_factor_packing"
    TL_DISABLE_TILE_CHOICE = "tl.disable_tile_choice"
    TL_TILE_COLUMNS = "tl.tile_columns"
    TL_TILE_PAIRS = "tl.tile_pairs"
    TL_TILE_PARTS = "tl.tile_parts"
    TL_DISABLE_TILE_RENAMING = "tl.disable_tile_renaming"
    TL_DISABLE_TILE_WIDENING = "tl.disable_tile_widening"
    TL_DISABLE_PERSISTENT_BLOCKS = "tl.disable_persistent_blocks"
    TL_DISABLE_LOAD_SHARING = "tl.disable_load_sharing"
    TL_DISABLE_REGISTER_CHOICE = "tl.disable_register_choice"
    TL_DISABLE_RESULT_STAGING = "tl.disable_result_staging"
    TL_VERIFY_SYNCHRONIZATION = "tl.verify_synchronization"
    TL_MAX_REDUCTION_CHUNK = "tl.max_reduction_chunk"
    TL_CHECK_ASSUMPTIONS = "tl.check_assumptions"
    TL_BATCH_INVARIANT = "tl.batch_invariant"
    TL_EPILOGUE_SUBTILE = "tl.epilogue_subtile"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"

    # Accepted without effect: a remark says why (see _IGNORED).
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TIR_DISABLE_VECTORIZE = "tir.disable_vectorize"
    TL_SIMPLIFY = "tl.Simplify"
    TL_DYNAMIC_ALIGNMENT = "tl.dynamic_alignment"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tir.disable_cse_tir"
    TIR_SIMPLIFY = "tir.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tir.disable_storage_rewrite"
    TIR_USE_ASYNC_COPY = "tir.use_async_copy"
    TIR_ENABLE_DEBUG = "tir.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tir.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tir.add_lower_pass"
    TIR_NOALIAS = "tir.noalias"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_ENABLE_AGGRESSIVE_LOOP_UNSWITCHING = "tl.enable_aggressive_loop_unswitching"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = "tl.disable_prelower_semantic_check"
    TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES = "transitively_prove_inequalities"
    TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS = "convert_boolean_to_and_of_ors"
    TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES = "apply_constraints_to_boolean_branches"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL = "propagate_knowns_to_prove_conditional"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS = (
        "propagate_knowns_to_simplify_expressions"
    )
    TL_SIMPLIFY_ENABLE_LET_INLINE = "enable_simplify_let_inline"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TL_ENABLE_LOWER_LDGSTG_PREDICATED = "tl.enable_lower_ldgstg_predicated"
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = "tl.enable_vectorize_planner_verbose"
    TL_ENABLE_REDUCER_PLAN_VERBOSE = "tl.enable_reducer_plan_verbose"
    TL_REDUCER_FORCE_BASELINE = "tl.reducer_force_baseline"
    TL_ENABLE_FP32X2_REDUCTION = "tl.enable_fp32x2_reduction"
    TL_ENABLE_AUTO_SCHEDULE = "tl.enable_auto_schedule"
    TL_ENABLE_AUTO_WARP_SPECIALIZATION = "tl.enable_auto_warp_specialization"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_LOOP_UNSWITCHING = "tl.disable_loop_unswitching"
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = "tl.loop_unswitching_allow_non_trivial_else"
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = "tl.if_stmt_binding_inline_replayable_binds"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"
    TL_DUMP_IR_DIR = "tl.dump_ir_path"
    TL_PASS_PROFILE = "tl.pass_profile"
    TL_PASS_PROFILE_THRESHOLD_MS = "tl.pass_profile_threshold_ms"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"

    def __str__(self) -> str:
        return str(self.value)


_SPELLINGS = {str(key): key for key in PassConfigKey}
# A newer name of the options of TIR.
_SPELLINGS |= {
    f"tirx.{name.removeprefix('tir.')}": key
    for name, key in _SPELLINGS.items()
    if name.startswith("tir.")
}
_NOT_BOOLEAN = {
    PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL: int,
    PassConfigKey.TL_MAX_REDUCTION_CHUNK: int,
    PassConfigKey.TL_EPILOGUE_SUBTILE: (int, str),
    PassConfigKey.TL_TILE_COLUMNS: int,
    PassConfigKey.TL_TILE_PARTS: int,
    PassConfigKey.TL_DEVICE_COMPILE_FLAGS: (str, list, tuple),
}
#: The values of options that choose tiles (src/tiling/tcgen05_tiles.h).
_ONE_OF = {
    PassConfigKey.TL_TILE_COLUMNS: range(32, 257, 16),
    PassConfigKey.TL_TILE_PARTS: range(1, 9),
}
_LAST_HONOURED = PassConfigKey.TL_DEVICE_COMPILE_FLAGS
_HONOURED = list(PassConfigKey)[: list(PassConfigKey).index(_LAST_HONOURED) + 1]

_OURS = "the passes of this compiler have no such switch"
_AS_WIDE = "accesses are as wide as their alignment"
_BY_PIPELINED = "T.Pipelined divides a kernel among warps"
_DUMPS = "TILELANG_DUMP_IR=<folder> writes the program after every pass, and the time that it took"
#: Why an option has no effect, and the values that ask for nothing else; by default for True.
_IGNORED: dict[PassConfigKey, tuple[str, tuple[Any, ...]]] = {
    PassConfigKey.TL_DISABLE_VECTORIZE_256: (_AS_WIDE, (False,)),
    PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: (
        "accesses that may leave their tensor are always guarded",
        (False,),
    ),
    PassConfigKey.TL_ENABLE_ASYNC_COPY: ("cp.async is not used", (False,)),
    PassConfigKey.TIR_DISABLE_VECTORIZE: (_AS_WIDE, (False,)),
    PassConfigKey.TL_ENABLE_LOWER_LDGSTG: (_AS_WIDE, (False,)),
    PassConfigKey.TL_ENABLE_LOWER_LDGSTG_PREDICATED: (_AS_WIDE, (False,)),
    PassConfigKey.TL_ENABLE_FP32X2_REDUCTION: ("packed sums are chosen by the compiler", (True,)),
    PassConfigKey.TL_DISABLE_OUT_OF_BOUND_WARNING: ("there is no such warning", (True, False)),
    PassConfigKey.TL_ENABLE_AUTO_SCHEDULE: (_BY_PIPELINED, (True,)),
    PassConfigKey.TL_ENABLE_AUTO_WARP_SPECIALIZATION: (_BY_PIPELINED, ()),
    PassConfigKey.TL_ENABLE_DUMP_IR: (_DUMPS, (False,)),
    PassConfigKey.TL_DUMP_IR_DIR: (_DUMPS, ()),
    PassConfigKey.TL_PASS_PROFILE: (_DUMPS, (False,)),
    PassConfigKey.TL_PASS_PROFILE_THRESHOLD_MS: (_DUMPS, (0,)),
    PassConfigKey.TL_EMIT_LINE_DIRECTIVES: (
        "the compiled code always names the lines of the kernel",
        (False,),
    ),
}


def ignored(configs: Mapping[Any, Any] | None) -> list[str]:
    """Returns a remark for each option that asks for something and has no effect.

    Raises:
        ConfigError: an unknown key.
    """
    texts = []
    for name, value in (configs or {}).items():
        key = _key(name)
        why, silent = _IGNORED.get(key, (_OURS, ()))
        if key not in _HONOURED and value is not None and value not in silent:
            texts.append(f"pass option {str(key)!r}={value!r} has no effect: {why}")
    return texts


def normalize(configs: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Returns the options that have an effect, by spelling, in a fixed order.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type.
    """
    given = {_key(key): value for key, value in (configs or {}).items()}
    return {
        str(key): _checked(key, given[key])
        for key in _HONOURED
        if key in given and given[key] is not None
    }


def nvrtc_options(configs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the options for NVRTC that normalized pass options ask for."""
    options: list[str] = []
    fast = configs.get(str(PassConfigKey.TL_ENABLE_FAST_MATH), False)
    if fast and not configs.get(str(PassConfigKey.TL_DISABLE_FAST_MATH), False):
        options.append("--use_fast_math")
    level = configs.get(str(PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL))
    if level is not None:
        options.append(f"--ptxas-options=--register-usage-level={level}")
    flags = configs.get(str(PassConfigKey.TL_DEVICE_COMPILE_FLAGS), ())
    return (*options, *(flags.split() if isinstance(flags, str) else flags))


def _key(key: Any) -> PassConfigKey:
    found = _SPELLINGS.get(str(key))
    if found is None:
        close = difflib.get_close_matches(str(key), _SPELLINGS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see tilelang.PassConfigKey"
        raise ConfigError(f"unknown pass option {str(key)!r}", notes=[hint])
    return found


def _checked(key: PassConfigKey, value: Any) -> Any:
    kinds: Any = _NOT_BOOLEAN.get(key, (bool, int))
    if not isinstance(value, kinds):
        raise ConfigError(f"pass option {str(key)!r} cannot be {value!r}")
    if key is PassConfigKey.TL_MAX_REDUCTION_CHUNK and (isinstance(value, bool) or value < 1):
        raise ConfigError(f"pass option {str(key)!r} is a positive number, not {value!r}")
    if key in _ONE_OF and (isinstance(value, bool) or value not in _ONE_OF[key]):
        known = ", ".join(map(str, _ONE_OF[key]))
        raise ConfigError(f"pass option {str(key)!r} is one of {known}, not {value!r}")
    if key is PassConfigKey.TL_EPILOGUE_SUBTILE:
        return _epilogue_columns(value)
    return bool(value) if key not in _NOT_BOOLEAN else value


def _epilogue_columns(value: int | str) -> int:
    """Columns of a slice of an epilogue, 0 for none; -1 where the compiler chooses."""
    known = ("auto", 0, 32, 64, 128)
    if value not in known or isinstance(value, bool):
        raise ConfigError(
            f"pass option 'tl.epilogue_subtile' is one of {', '.join(map(repr, known))}, "
            f"not {value!r}"
        )
    return -1 if isinstance(value, str) else value
