"""Atomic loads and stores that acquire and release, of each size of element."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

TYPES = {
    "uint8": torch.uint8,
    "int8": torch.int8,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int32": torch.int32,
    "float32": torch.float32,
    "int64": torch.int64,
    "float64": torch.float64,
}


@pytest.mark.parametrize("load, store", [("relaxed", "relaxed"), ("acquire", "release")])
@pytest.mark.parametrize("dtype", TYPES)
def test_elements_of_each_size(dtype: str, load: str, store: str) -> None:
    """What is loaded is stored, and nothing beside it."""

    @T.prim_func
    def main(X: T.Tensor((4,), dtype), Y: T.Tensor((4,), dtype)):
        with T.Kernel(1, threads=32):
            if T.get_thread_binding() == 0:
                T.atomic_store(Y[2], T.atomic_load(X[1], load), store)

    x = torch.tensor([3, 97, 5, 7]).to(TYPES[dtype])
    y = torch.tensor([11, 12, 13, 14]).to(TYPES[dtype])
    tilelang.compile(main, target="sm_90a")(x, y)
    assert y.tolist() == [11, 12, 97, 14]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_flag_hands_over_what_was_written_before(ordered: bool) -> None:
    """A block reads what another has stored before it released, and clears the flag as it likes."""
    orders = ("release", "acquire") if ordered else ("relaxed", "relaxed")

    @T.prim_func
    def main(Y: T.Tensor((1,), "int32")):
        flag = T.alloc_global((1,), "int32", zeroed=True)
        value = T.alloc_global((1,), "int32")
        with T.Kernel(2, threads=32) as block:
            if T.get_thread_binding() == 0:
                if block == 0:
                    value[0] = 42
                    T.atomic_store(flag[0], 1, orders[0])
                else:
                    found = T.alloc_var("int32", init=0)
                    while found == 0:
                        found = T.atomic_load(flag[0], orders[1])
                    Y[0] = value[0]
                    flag[0] = 0

    kernel, y = tilelang.compile(main, target="sm_90a"), torch.zeros(1, dtype=torch.int32)
    if not ordered:
        with pytest.raises(tilelang.emulator.EmulatorError, match="nothing orders the two"):
            kernel(y)
        return
    for _ in range(2):
        y.zero_()
        kernel(y)
        assert y.item() == 42
