"""The machine instructions of the examples: which, in which order, and without spills."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from golden import ptx_opcodes
from sm100_kernels import compile_sm100

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "gemm_sm100"))

from gemm_chained import gemm_chained
from gemm_tcgen5mma import gemm_ss
from gemm_tcgen5mma_ts import gemm_ts

TYPES = ("bfloat16", "bfloat16", "float32")
#: One step of K, so that the golden lists are short; full tiles for the registers.
EXAMPLES = {
    "gemm_ts": (gemm_ts(128, 128, 64, 128, 128, 64, *TYPES)),
    "gemm_ss": (gemm_ss(128, 128, 64, 128, 128, 64, *TYPES)),
    "gemm_chained": (gemm_chained(128, 32, 64, 32, 128, *TYPES)),
}
FULL = {
    "gemm_ts": gemm_ts(1024, 1024, 1024, 128, 128, 64, *TYPES),
    "gemm_ss": gemm_ss(1024, 1024, 1024, 128, 128, 64, *TYPES),
    "gemm_chained": gemm_chained(256, 128, 128, 64, 128, *TYPES),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_tensor_memory_instructions(golden, name):
    golden(name, "\n".join(ptx_opcodes(compile_sm100(EXAMPLES[name]).get_ptx(), "^tcgen05")))


@pytest.mark.parametrize("name", FULL)
def test_nothing_spills(name):
    (usage,) = compile_sm100(FULL[name]).resource_usage.values()
    assert (usage.spill_stores, usage.spill_loads, usage.stack) == (0, 0, 0)
    assert 0 < usage.registers <= 168
