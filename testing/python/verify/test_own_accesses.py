"""What the placer of waits and barriers forgets of an access, the verifier finds.

Lowering tells by attributes what a call does to memory, and the passes that place waits, barriers
and fences go by them. Here the attributes of one function are taken away before these passes. Where
they place less then, the verifier must object: it reads calls by a table of its own.
"""

from __future__ import annotations

from typing import Any

import pytest
from thread_ir import called, ir
from verify.mutants import edited, groups
from verify.worked_kernels import KERNELS

from tilelang import errors
from tilelang.transform import pipeline, run_pass, verify_synchronization

#: attributes that tell of memory
TOLD = ("reads", "writes", "tmem")
#: kernels, and functions of which nothing is told
FORGOTTEN = [
    ("gemm_sm_80", "tl::ldmatrix"),
    ("gemm_sm_100a", "tl::tcgen05_load"),
    ("persistent_sm_100a", "tl::tcgen05_load"),
    ("attention_sm_100a", "tl::tcgen05_load"),
    ("attention_sm_100a", "tl::tcgen05_st_"),
    ("gemm_of_tensor_memory", "tl::tcgen05_load"),
    ("gemm_of_tensor_memory", "tl::tcgen05_st_"),
    ("clc_sm_100a", "tl::tcgen05_load"),
]


def forgetting(func: Any, name: str) -> Any:
    """The function in which calls of functions that begin so tell nothing of memory."""

    def silent(s: Any) -> Any:
        if not called(s).startswith(name):
            return s
        call = s.value
        attrs = {key: [] if key in TOLD else value for key, value in call.attrs.items()}
        made = ir("Call", call.dtype, call.name, list(call.args), attrs, call.span)
        return ir("Evaluate", made, s.span)

    return edited(func, silent)


def placed(func: Any, target: str, forgotten: str = "") -> Any:
    for name in pipeline():
        if name == "place_synchronization" and forgotten:
            func = forgetting(func, forgotten)
        func = run_pass(name, func, target)
    return func


@pytest.mark.parametrize(("kernel", "name"), FORGOTTEN)
def test_forgotten_effects_are_found(kernel: str, name: str) -> None:
    program, target = KERNELS[kernel]
    right = placed(program, target)
    assert verify_synchronization(right) == [""]
    wrong = placed(program, target, name)
    assert len(groups(wrong)) < len(groups(right)), "the placer does not need them"
    with pytest.raises(errors.SynchronizationError):
        verify_synchronization(wrong)
