"""No argument is dropped in silence: it is used, or a remark at its line names it."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

import tilelang
import tilelang.language as T
from tilelang import transform
from tilelang.language.allocate import alloc_workspace
from tilelang.language.ignored import IGNORED

#: Parameters that no code reads, each with its reason.
UNREAD = {
    ("access_ptr", "access_type"): "documentation of a call, which the callee's own type gives",
    ("access_ptr", "extents"): "as access_type",
    ("access_ptr", "_hints"): "as access_type",
    ("macro", "_options"): "hygiene, which is the only behaviour there is",
    ("prim_func", "private"): "linkage of a function that is a kernel anyhow",
}


def functions():
    """The public functions, each once, by one of its names."""
    return {
        getattr(T, name): name
        for name in sorted(dir(T), reverse=True)
        if not name.startswith("_") and inspect.isfunction(getattr(T, name))
    }


def unread(function) -> list[str]:
    """Its parameters that its body does not mention; ``annotations`` is read around it."""
    function = inspect.unwrap(function)
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(definition, ast.FunctionDef):
        return []
    body = [node for statement in definition.body for node in ast.walk(statement)]
    read = {node.id for node in body if isinstance(node, ast.Name)}
    return [name for name in inspect.signature(function).parameters if name not in read]


def test_every_parameter_is_read() -> None:
    found = {(name, parameter) for f, name in functions().items() for parameter in unread(f)}
    assert found == set(UNREAD)


def test_the_table_names_arguments_that_exist() -> None:
    for function, arguments in IGNORED.items():
        parameters = inspect.signature(getattr(T, function.removeprefix("T."))).parameters
        further = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        assert further or set(arguments) - {"call"} <= set(parameters), function


def _tiles():
    a = T.alloc_shared((128, 64), "float16")
    b = T.alloc_shared((64, 64), "float16")
    f = T.alloc_fragment((128, 64), "float16")
    row = T.alloc_fragment((128,), "float16")
    c = T.alloc_tmem((128, 64), "float32")
    return a, b, f, row, c, T.alloc_barrier(1)


@T.macro
def _loops(A, a, use):
    if use == "group":
        for _ in T.Pipelined(2, group=[[0]]):
            T.copy(A, a)
    elif use == "hints":
        for _ in T.serial(2, pragma="x"):
            T.copy(A, a)
    elif use == "prefer_async":
        for i, j in T.Parallel(128, 64, prefer_async=True):
            a[i, j] = A[i, j]


def _layout_of_private() -> None:
    own = T.alloc_local((4,), "float32")
    T.annotate_layout({own: T.Layout((4,), lambda i: 3 - i)})


CALLS = {
    "T.copy: prefer_instruction='tma'": lambda A, t: T.copy(A, t[0], prefer_instruction="tma"),
    "T.tma_copy: leader_scope_threads=32": lambda A, t: T.tma_copy(
        A, t[0], barrier=t[5], leader_scope_threads=32
    ),
    "T.tcgen05_gemm: wg_wait=1": lambda A, t: T.tcgen05_gemm(
        t[0], t[1], t[4], mbar=t[5], wg_wait=1
    ),
    "T.tcgen05_gemm: policy=2": lambda A, t: T.tcgen05_gemm(
        t[0], t[1], t[4], mbar=t[5], policy=T.GemmWarpPolicy.FullCol
    ),
    "T.tcgen05_gemm_blockscaled: wg_wait=1": lambda A, t: T.tcgen05_gemm_blockscaled(
        *(T.alloc_shared(shape, "float8_e4m3fn") for shape in [(128, 128), (128, 64)]),
        t[4],
        T.alloc_tmem((128, 4), "uint32"),
        T.alloc_tmem((128, 4), "uint32"),
        mbar=t[5],
        wg_wait=1,
        k_start=0,
        sf_a_granularity_k=32,
        sf_b_granularity_k=32,
    ),
    "T.gemm: k_pack=2": lambda A, t: T.gemm(t[0], t[1], t[4], k_pack=2),
    "T.finalize_reducer: batch=2": lambda A, t: T.finalize_reducer(
        T.alloc_reducer((4,), "float32"), batch=2
    ),
    "T.reduce: batch=4": lambda A, t: T.reduce_max(t[2], t[3], dim=1, batch=4),
    "T.atomic_add: use_tma=True": lambda A, t: T.atomic_add(A, 1, use_tma=True),
    "T.annotate_layout: layout_map=": lambda A, t: _layout_of_private(),
    "T.annotate_l2_hit_ratio: l2_hit_ratio_map": lambda A, t: T.annotate_l2_hit_ratio({A: 0.5}),
    "T.attr: attr_key='pragma_x'": lambda A, t: T.attr(A, "pragma_x", 1),
    "T.func_attr: attrs=['tir.noalias']": lambda A, t: T.func_attr({"tir.noalias": True}),
    "T.sblock_attr: attrs=['x']": lambda A, t: T.sblock_attr({"x": 1}),
    "T.alloc_reducer: replication='all'": lambda A, t: T.alloc_reducer(
        (4,), "float32", replication="all"
    ),
    "T.tma_gather4: swizzle=": lambda A, t: T.tma_gather4(
        A, t[0][0:4, :], 0, [0, 1, 2, 3], barrier=T.alloc_barrier(1), swizzle="128B"
    ),
    "T.tma_scatter4: swizzle=": lambda A, t: T.tma_scatter4(
        t[0][0:4, :], A, 0, [0, 1, 2, 3], swizzle="128B"
    ),
    "T.annotate_restrict_buffers: buffers=": lambda A, t: T.annotate_restrict_buffers(A),
    "T.Persistent: group_size=4": lambda A, t: T.Persistent(
        (4,), 1, 0, 4, scheduler="table", table=alloc_workspace((4,), "int32")
    ),
    "T.device_assert: no_stack_info=True": lambda A, t: T.device_assert(
        A[0, 0] < 1, "message", no_stack_info=True
    ),
}
LOOPS = {
    "T.Pipelined: group=[[0]]": "group",
    "T.serial: hints=('pragma',)": "hints",
    "T.Parallel: prefer_async=True": "prefer_async",
}


def remarks(call=lambda A, t: None, use: str = "", compiled: bool = False) -> list:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=128):
            tiles = _tiles()
            call(A, tiles)
            _loops(A, tiles[0], use)

    if compiled:
        return tilelang.compile(main, target="sm_100a").remarks
    return transform.remarks_of("remark_arguments", main)


@pytest.mark.parametrize("text", CALLS)
def test_a_call_with_an_argument_without_effect(text: str) -> None:
    (remark,) = remarks(call=CALLS[text])
    assert str(remark.message).startswith(text)
    assert remark.topic == "argument"
    assert remark.span.file == __file__


@pytest.mark.parametrize("text", LOOPS)
def test_a_loop_with_an_argument_without_effect(text: str) -> None:
    assert any(str(remark.message).startswith(text) for remark in remarks(use=LOOPS[text]))


def test_every_row_of_the_table_is_shown() -> None:
    shown = {tuple(text.split("=")[0].split(": ")) for text in [*CALLS, *LOOPS]}
    assert shown == {(f, argument) for f, arguments in IGNORED.items() for argument in arguments}


def test_defaults_leave_no_remark() -> None:
    @T.macro
    def plain(A, t):
        T.gemm(t[0], t[1], t[4])
        T.reduce_max(t[2], t[3], dim=1)
        for _ in T.Pipelined(2, num_stages=1):
            T.copy(A, t[0])

    assert remarks(call=plain) == []


def test_a_compiled_kernel_has_the_remarks() -> None:
    messages = [str(remark) for remark in remarks(use="group", compiled=True)]
    assert any("[argument] T.Pipelined: group=[[0]] has no effect" in text for text in messages)


def _plain():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                A[i] = A[i] + 1

    return main


@pytest.mark.parametrize("key", list(tilelang.PassConfigKey), ids=str)
def test_a_pass_option_has_an_effect_or_a_remark(key):
    """All but those that the compiler reads; "no warp specialization" is what it does anyway."""
    honoured = {
        "tl.enable_fast_math", "tl.disable_fast_math", "tl.disable_tma_lower",
        "tl.disable_thread_storage_sync", "tl.ptxas_register_usage_level",
        "tl.verify_synchronization", "tl.disable_warpgroup_turns",
        "tl.device_compile_flags", "tl.disable_warp_specialized", "tl.disable_wgmma",
        "tl.max_reduction_chunk", "tl.batch_invariant", "tl.epilogue_subtile",
        "tl.check_assumptions",
        "tl.disable_block_order", "tl.disable_result_staging", "tl.disable_block_fitting",
        "tl.disable_load_trimming", "tl.disable_tile_widening", "tl.disable_persistent_blocks",
        "tl.disable_launch_versions", "tl.disable_split_k", "tl.disable_row_realignment",
        "tl.disable_tile_choice", "tl.tile_columns", "tl.tile_pairs", "tl.tile_parts",
        "tl.disable_exp2_polynomials", "tl.disable_stage_fitting", "tl.keep_stages",
        "tl.disable_factor_packing", "tl.disable_row_staging", "tl.disable_register_choice",
        "tl.disable_column_staging",
        "tl.disable_load_early", "tl.disable_approximate_functions", "tl.disable_tile_renaming",
        "tl.disable_kept_maxima", "tl.disable_load_staging", "tl.disable_load_sharing",
        "tl.disable_out_of_bound_warning",  # there is no such warning
    }  # fmt: skip
    numbers = {
        "tl.ptxas_register_usage_level": 3,
        "tl.max_reduction_chunk": 256,
        "tl.epilogue_subtile": 64,
        "tl.tile_columns": 128,
        "tl.tile_parts": 2,
    }
    # True asks for what the compiler does anyway.
    switched_off = {"tl.enable_fp32x2_reduction": False, "tl.enable_auto_schedule": False}
    values = {"tl.device_compile_flags": "-DX", **numbers, **switched_off}
    value = values.get(key, True)
    lowered = tilelang.lower(_plain(), target="sm_80", pass_configs={key: value})
    told = [r.message for r in lowered.remarks if f"pass option '{key}'" in r.message]
    assert bool(told) == (str(key) not in honoured)


def test_options_that_ask_for_nothing_leave_no_remark():
    options = {"tl.disable_vectorize_256": False, "tl.enable_async_copy": None}
    lowered = tilelang.lower(_plain(), target="sm_80", pass_configs=options)
    assert not [r for r in lowered.remarks if r.topic == "argument"]
