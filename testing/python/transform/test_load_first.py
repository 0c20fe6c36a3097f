"""Loops of atomic operations load what they add, and where, before the first one."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import run_pass

TARGETS = ("sm_100a", "sm_90a", "sm_80", "sm_120a")


def histogram(n, bins, block=512, dtype="int32", weighted=False, threads=64):
    """H[X[i]] += 1, or W[i], by blocks with a table of their own."""

    @T.prim_func
    def main(
        X: T.Tensor((n,), dtype), W: T.Tensor((n,), "float32"), H: T.Tensor((bins,), "float32")
    ):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            table = T.alloc_shared((bins,), "float32")
            T.clear(table)
            for i in T.Parallel(block):
                if b * block + i < n:
                    T.atomic_add(
                        table[T.cast(X[b * block + i], "int32")],
                        W[b * block + i] if weighted else T.float32(1),
                    )
            for i in T.Parallel(bins):
                T.atomic_add(H[i], table[i])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("n", "bins", "dtype"),
    [(1024, 16, "int32"), (1023, 7, "uint8"), (777, 64, "int16"), (1, 3, "int8")],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_results(target, n, bins, dtype, weighted):
    torch.manual_seed(0)
    x = torch.randint(0, bins, (n,)).to(getattr(torch, dtype))
    w = torch.randint(-4, 5, (n,)).float()
    h = torch.arange(bins).float()
    wanted = h.clone().index_add_(0, x.long(), w if weighted else torch.ones(n))
    tilelang.compile(histogram(n, bins, dtype=dtype, weighted=weighted), target=target)(x, w, h)
    assert torch.equal(h, wanted)


def loads_first(program) -> bool:
    return "_first" in str(run_pass("load_first", program, "sm_100a"))


def added(kind):
    @T.prim_func
    def main(X: T.Tensor((4096,), "int32"), Y: T.Tensor((4096,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64 if kind == "one element" else 1024):
                if kind == "other tensor":
                    T.atomic_add(Y[X[i] & 63], X[i + 1024])
                elif kind == "one element":
                    T.atomic_add(Y[X[i] & 63], 1)
                elif kind == "same tensor":
                    T.atomic_add(X[X[i] & 63], 1)
                elif kind == "store":
                    T.atomic_add(Y[X[i] & 63], 1)
                    Y[i + 1024] = 1

    return main


@pytest.mark.parametrize(
    ("kind", "first"),
    [("other tensor", True), ("one element", False), ("same tensor", False), ("store", False)],
)
def test_loops_that_load_first(kind, first):
    assert loads_first(added(kind)) == first


def test_loads_are_under_way_together():
    program = histogram(2**22, 256, block=4096, threads=256)
    text = tilelang.compile(program, target="sm_100a").get_kernel_source()
    assert "tl::load<4>(X" in text
