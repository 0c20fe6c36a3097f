"""Arguments that the model of time makes for a kernel."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T


@T.prim_func
def chosen(
    rows: T.Tensor((64,), "int32"),
    A: T.Tensor((64, 256), "float32"),
    B: T.Tensor((64, 256), "float32"),
):
    with T.Kernel(64, threads=128) as block:
        for j in T.Parallel(256):
            B[block, j] = A[rows[block] % 64, j]


def test_they_are_the_same_each_time():
    kernel = tilelang.compile(chosen, target="sm_100a")
    torch.manual_seed(1)
    first = kernel.get_profiler().get_inputs("cpu", repeats=True)
    drawn = torch.rand(4)
    second = kernel.get_profiler().get_inputs("cpu", repeats=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    torch.manual_seed(1)
    assert torch.equal(torch.rand(4), drawn)  # the generator of the program is where it was


def test_others_are_drawn_anew():
    profiler = tilelang.compile(chosen, target="sm_100a").get_profiler()
    first, second = profiler.get_inputs("cpu"), profiler.get_inputs("cpu")
    assert not torch.equal(first[1], second[1])
