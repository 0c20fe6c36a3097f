"""Operands of gemms are named where gemms are computed; others ask what an operand is for."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[3] / "src"
FILES = [path for path in SOURCES.rglob("*") if path.suffix in (".h", ".cc")]
BY_NAME = re.compile(r"\bMatrix[ABC]\(|\bIsTransposed[AB]\(|gemm_operands\.h")


def test_only_instructions_for_gemms_name_operands():
    naming = [path for path in FILES if BY_NAME.search(path.read_text())]
    assert len(naming) >= 5
    for path in naming:
        assert path.parent.name == "op", path
        assert path.name.startswith("gemm_"), path


@pytest.mark.parametrize("kind", ["kA", "kB"])
def test_few_choose_by_kind(kind):
    """A rule may be for one operand alone: its layout, or the place of a copy of it.

    tcgen05.mma takes A from tensor memory, and no other input.
    """
    users = {
        path.relative_to(SOURCES).as_posix()
        for path in FILES
        if re.search(rf"GemmOperandKind::{kind}\b|\bKind::{kind}\b", path.read_text())
    }
    assert users <= {
        "analysis/running_softmax.cc",
        "ir/gemm.cc",
        "lower/stage_tensor_memory.cc",
        "op/gemm_operands.h",
        "op/gemm_fragments.cc",
        "op/gemm_scale_factors.cc",
        "op/gemm_tcgen05.cc",
        "tiling/gemm_problem.cc",
        "tiling/idle_iterations.cc",
        "tiling/loosen_gemms.cc",
        "tiling/pair_blocks.cc",
    }
