"""Every function of the language with arguments that make no sense: a UserError with its line."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.jit.compiler import lower_to_source

NAMES = [
    name
    for name in sorted(T.__all__)
    if callable(getattr(T, name)) and not isinstance(getattr(T, name), (T.dtype, type))
]
CALLS = 3  # of each function


def nonsense() -> list[Any]:
    """What no function expects, or not there."""
    return [
        *(None, "", "x", "float99", b"ab", True, -1, 0, 3, 2**70, 1.5, float("nan"), complex(1, 2)),
        *([], {}, (1, (2, (3,))), slice(0, 2), object(), type, ..., lambda i: i),
        *(torch.zeros(2), torch.zeros(()), np.zeros(3), np.float32(2)),
        *(T.float32, T.Tensor((4,), "int8")),
    ]


def arguments(rng: random.Random, *values: Any) -> list[Any]:
    """Nonsense, and values of the kernel at the wrong places."""
    pool = [*nonsense(), *values]
    return [rng.choice(pool) for _ in range(rng.randint(0, 4))]


def compile_a_call(function: Any, rng: random.Random) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), n: T.int32):
        with T.Kernel(2, threads=64) as bx:
            S = T.alloc_shared((64, 64), "float32")
            F = T.alloc_fragment((64, 64), "float32")
            v = T.alloc_var("int32")
            b = T.alloc_barrier(1)
            given = arguments(rng, A, S, F, v, b, bx, n, A[0, 0], S[0:3, 0:2], F[1, 2])
            function(*given)

    lower_to_source(main, target="sm_100a")


@pytest.mark.parametrize("name", NAMES)
def test_wrong_arguments_are_errors_of_the_user(name: str) -> None:
    for call in range(CALLS):
        try:
            compile_a_call(getattr(T, name), random.Random(f"{name} {call}"))
        except errors.UserError as error:
            assert error.span is not None and error.span.file == __file__, str(error)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: T.exp(T.float32), errors.DTypeError, "expected a number"),
        (lambda: T.any_sync("x"), errors.DTypeError, "no condition"),
        (lambda: T.shfl_xor(1.0, 32), errors.SemanticsError, "at most 31 apart, not 32"),
        (lambda: T.shfl_down(1.0, -1), errors.SemanticsError, "at most 31 apart, not -1"),
        (lambda: T.max(None, T.int32(1)), errors.DTypeError, "expected a number"),
    ],
)
def test_frequent_mistakes_are_named(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):

        @T.prim_func
        def main(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = call()


def test_errors_of_the_users_own_functions_stay_theirs() -> None:
    def own(value: int) -> int:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):

        @T.prim_func
        def main(A: T.Tensor((32,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = own(3)


@pytest.mark.parametrize("scope", ["print", "store", "shuffle"])
def test_single_elements_of_a_fragment_without_layout_belong_to_each_thread(scope: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            F = T.alloc_fragment((64, 64), "float32")
            if scope == "print":
                T.print(F[1, 2])
            elif scope == "store":
                A[0, 0] = F[1, 2]
            else:
                A[0, 0] = T.shfl_sync(F[1, 2], 0)

    lowered = tilelang.lower(main, target="sm_100a")
    assert any("each thread has its own fragment F" in each.message for each in lowered.remarks)
