"""Programs of Triton and Gluon over the field: equal as they are, unequal where one is wrong."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path

import pytest

pytest.importorskip("triton")
from triton_programs import attention, block_scaled, elementwise, gemm, reductions

from tilelang.algebra import Algebra
from tilelang.emulator import options
from tilelang.emulator.triton import emulate

FILES = {
    "attention": attention, "block_scaled": block_scaled, "elementwise": elementwise, "gemm": gemm,
    "reductions": reductions,
}  # fmt: skip
FILES["gluon_programs"] = importlib.import_module("triton_programs.gluon_programs")
#: Programs by their files, and how many tensors they compare over the field.
EQUAL = {
    "gemm": {
        "split_k_by_atomics": 1, "precisions_of_float32": 3, "host_descriptors": 1, "clusters": 1,
        "persistent_with_roles": 1, "batched_dot": 1, "four_bit_weights": 1,
        "implicit_gemm_convolution": 1, "block_scaled_dot": 1,
    },
    "attention": {
        "attention_forward": 2, "attention_backward": 3, "attention_with_descriptors": 1,
        "attention_with_roles": 1, "paged_decoding": 3, "selective_scan": 20,
    },
    "block_scaled": {"mxfp8_dot": 1, "mixed_dot": 1},
    "elementwise": {"gated_gelu": 1, "transpose": 1, "rotary_embedding": 1, "joins_and_splits": 2},
    "reductions": {
        "persistent_softmax": 1, "layer_norm_and_its_backward": 4, "rms_norm_in_place": 1,
        "linear_recurrence": 1, "variance_and_argmax": 2, "sum_by_the_last_block": 1,
        "cross_entropy": 2, "sort_and_topk": 2, "sparse_matrix_vector": 1,
    },
    "gluon_programs": {
        "gluon_transpose": 1, "gluon_ring_of_copies": 1, "gluon_tma_copies": 1,
        "gluon_roles_and_tensor_memory": 1,
    },
}  # fmt: skip
CASES = [(file, name) for file, names in EQUAL.items() for name in names]


def compared(run, arch: str) -> int:
    """Runs a program; returns how many tensors it has compared over the field."""
    algebra = Algebra()
    with emulate(arch), options(sanitize=False), algebra.mode(seed=1) as (_, functions):
        run(arch)
    return functions.compared[0]


@pytest.mark.budget(5)  # each program uses other instructions
@pytest.mark.parametrize(("file", "name"), CASES)
def test_equal(file, name):
    program = next(each for each in FILES[file].PROGRAMS if each.name == name)
    assert compared(program.run, "sm_100a") == EQUAL[file][name]


#: What is replaced in the text of a program.
WRONG = {
    "a factor of the sum": (
        "attention", "attention_with_descriptors", "acc * factor[:, None])", "acc)",
    ),
    "a scale": ("attention", "attention_with_descriptors", ".T) * scale", ".T) * scale * 1.0002"),
    "a column of another": (
        "gemm", "four_bit_weights", "scale_ptr + rn)", "scale_ptr + (rn ^ 1))",
    ),
    "a sum that begins anew": (
        "gemm", "host_descriptors", ".load([n, k]).T, acc)", ".load([n, k]).T)",
    ),
    "a step that is missing": (
        "gluon_programs", "gluon_ring_of_copies", "range(n)", "range(n - 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_unequal(mistake, tmp_path, monkeypatch):
    file, name, before, after = WRONG[mistake]
    text = Path(FILES[file].__file__).read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "wrong_program.py"
    path.write_text(text.replace(before, after), encoding="utf-8")
    names = runpy.run_path(str(path))
    with pytest.raises(AssertionError, match="not close"):
        compared(names[name], "sm_100a")
