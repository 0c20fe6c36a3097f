"""The names of the language: present, refused by name, or unknown."""

import math
import re
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang import errors
from tilelang.language.unsupported import KNOWN, REASONS

# What real kernels use most: all of it must be there.
COMMON = """
    Kernel Tensor prim_func float32 copy alloc_shared alloc_fragment ceildiv Parallel Pipelined
    clear gemm serial if_then_else reduce_sum get_thread_binding fill max exp2 reduce_max infinity
    GemmWarpPolicy alloc_var annotate_layout dynamic alloc_local use_swizzle cast alloc_barrier
    atomic_add mbarrier_wait_parity alloc_tmem vectorized evaluate tcgen05_gemm unroll
    mbarrier_arrive min log2 float16 int32 bfloat16 uint32 int8 float8_e4m3fn uint8 uint64 bool
    Layout Fragment exp access_ptr address_of reinterpret floordiv sync_threads macro call_extern
    StridedTensor Buffer symbolic grid assume barrier_arrive barrier_wait reduce_absmax reduce_min
    reduce_abssum reduce_bitand clamp tcgen05_mma_arrive set_max_nreg fence_proxy_async sync_warp
    log rsqrt ceil sin cos round __exp __log sqrt tanh abs pow floor erf sigmoid ieee_fdiv fast_rcp
    atomic_load atomic_store atomic_max atomic_min atomic_or atomic_addx2 atomic_addx4 any_sync
    all_sync ballot_sync shfl_sync shfl_xor warp_reduce_sum warp_reduce_max get_lane_idx
    get_warp_idx get_warp_idx_sync get_warp_group_idx get_block_binding shuffle_elect Persistent
    device_assert print Ref import_source annotate_min_blocks_per_sm Select ws transpose
    mbarrier_expect_tx mbarrier_arrive_expect_tx tcgen05_before_thread_sync
    tcgen05_after_thread_sync ClusterKernel alloc_global ptr max_value min_value floormod truncdiv
"""


@pytest.mark.parametrize("name", COMMON.split())
def test_common_names_are_there(name):
    assert getattr(T, name) is not None
    assert name not in KNOWN


def test_older_names_mean_what_they_meant():
    assert T.gemm_v1 is T.gemm


def test_every_public_function_is_documented():
    missing = [
        name
        for name in T.__all__
        if callable(getattr(T, name)) and not (getattr(T, name).__doc__ or "").strip()
    ]
    assert not missing


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_names_of_later_versions_are_refused(name):
    with pytest.raises(errors.UnsupportedError, match=re.escape(f"T.{name} is not supported")):
        getattr(T, name)


def test_hints_name_what_exists():
    used = set(re.findall(r"\bT\.(\w+[a-z0-9])\b", " ".join(REASONS)))
    assert used and all(hasattr(T, name) for name in used)


def test_attribute_protocol_stays_python():
    assert not hasattr(T, "__wrapped__")
    with pytest.raises(errors.UnknownNameError, match=r"did you mean T\.reduce_sum"):
        T.reduce_sums  # noqa: B018


def test_files_hold_one_concept():
    files = sorted(path.stem for path in Path(T.__file__).parent.glob("*.py"))
    assert "utils" not in files and len(files) > 15


FORMULAS = {
    "ceildiv": lambda a, b: -(-a // b),
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: math.trunc(a / b),
    "truncmod": lambda a, b: int(math.fmod(a, b)),
    "align_up": lambda a, b: -(-a // b) * b,
    "min": min,
    "max": max,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(("a", "b"), [(17, 5), (-17, 5), (20, 5), (0, 3), (-1, 7)])
def test_functions_of_integers(name, a, b):
    """On Python numbers while tracing, and on constants of the IR."""
    function, expected = getattr(T, name), FORMULAS[name](a, b)
    assert function(a, b) == expected
    assert int(function(T.int32(a), T.int32(b))) == expected
