"""Remarks on registers that ptxas spills."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T
from tilelang.runtime import code
from tilelang.runtime.code import assembling


def sums(columns):
    """Sums of 128 rows and the factors of all of them, in the registers of 128 threads."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "bfloat16"),
        B: T.Tensor((64, columns), "bfloat16"),
        C: T.Tensor((128, columns), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, columns), "bfloat16")
            c = T.alloc_fragment((128, columns), "float32")
            d = T.alloc_fragment((128, columns), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, d)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(128, columns):
                c[i, j] = c[i, j] * d[i, j]
            T.copy(c, C)

    return main


def on_spills(kernel):
    return [r.message for r in kernel.remarks if "local memory and reads" in r.message]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_a_kernel_that_spills_says_so(target):
    with assembling():
        kernel = tilelang.compile(sums(256), target=target)
        roomy = tilelang.compile(sums(32), target=target)
    spilled = [u for u in kernel.resource_usage.values() if u.spill_stores]
    assert len(on_spills(kernel)) == len(spilled)
    if target == "sm_80":  # 256 sums and 256 factors a thread
        (usage,) = spilled
        (text,) = on_spills(kernel)
        assert f"writes {usage.spill_stores} bytes" in text and "main_kernel" in text
    assert not on_spills(roomy) and not roomy.n_spills


def test_ptxas_is_asked_where_fragments_need_nearly_all_registers():
    """Nothing is known of a roomy kernel before there is machine code."""
    few = {"tl.disable_block_fitting": True}  # 128 threads
    kernel = tilelang.compile(sums(256), target="sm_80", pass_configs=few)
    assert kernel.artifact.assembled and on_spills(kernel)
    off = {"tl.disable_register_choice": True, **few}
    kernel = tilelang.compile(sums(256), target="sm_80", pass_configs=off)
    assert kernel.artifact.assembled or not on_spills(kernel)
    assert not tilelang.compile(sums(32), target="sm_80").artifact.assembled or code._runs_here(
        "sm_80"
    )
