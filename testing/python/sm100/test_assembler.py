"""The check that every kernel of this folder undergoes: see conftest."""

from __future__ import annotations

import pytest
import torch
from changed_ptx import emulate
from sm100_kernels import compile_sm100

import tilelang.language as T
from tilelang import emulator

KERNEL = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry good(.param .u64 p) .maxntid 32 {{
 .reg .b64 %d; .reg .b32 %r<{count}>;
 ld.param.u64 %d, [p];
{body}
 ret;
}}
"""


@pytest.fixture(autouse=True)
def _installed(assembler):
    if assembler.path is None:
        pytest.skip("ptxas is not installed")


def copies(count: int) -> str:
    """A thread that loads ``count`` words before it stores the first."""
    loads = [f" ld.volatile.global.b32 %r{i}, [%d+{4 * i}];" for i in range(count)]
    stores = [f" st.volatile.global.b32 [%d+{4 * i + 4}], %r{i};" for i in range(count)]
    return KERNEL.format(count=count, body="\n".join(loads + stores))


@pytest.mark.parametrize(("count", "spills"), [(64, False), (300, True)])
def test_spills_are_seen(assembler, count, spills):
    for _ in range(2):  # run, then remembered
        usage = assembler.usage(copies(count), "sm_100a")["good"]
        assert usage.registers >= min(count, 200)
        assert (usage.spill_stores > 0) == spills


def test_illegal_code_is_refused(assembler):
    text = copies(4).replace("ld.volatile", "ld.violet", 1)
    for _ in range(2):
        with pytest.raises(AssertionError, match=r"ptxas refuses the kernel\n.*violet"):
            assembler.usage(text, "sm_100a")


def whole_row(n: int):
    @T.prim_func
    def kernel(X: T.Tensor((128, n), "float32"), Y: T.Tensor((128, n), "float32")):
        with T.Kernel(1, threads=128):
            row = T.alloc_fragment((128, n), "float32")
            tile = T.alloc_tmem((128, n), "float32")
            T.copy(X, row)
            T.copy(row, tile)
            T.copy(tile, row)
            T.copy(row, Y)

    return kernel


def test_a_kernel_that_spills_fails_its_test():
    with pytest.raises(AssertionError, match="spill_stores="):
        compile_sm100(whole_row(512))


@pytest.mark.may_spill("to see that it may")
def test_named_ones_may_spill():
    assert compile_sm100(whole_row(512)).n_spills > 0


def test_values_that_were_not_waited_for_are_seen():
    kernel = compile_sm100(whole_row(32))
    ptx = kernel.get_ptx()
    assert "tcgen05.wait::ld" in ptx
    emulate(kernel, ptx.replace("tcgen05.wait::ld.sync.aligned;", ""))
    x = torch.randn(128, 32)
    with pytest.raises(emulator.EmulatorError, match=r"before tcgen05\.wait::ld"):
        kernel(x, torch.empty(128, 32))
