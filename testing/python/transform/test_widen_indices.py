"""Indices that pass 2^31 are computed in 64 bits; all others as they were written."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator
from tilelang.transform import run_pass

TARGETS = ["sm_80", "sm_90a", "sm_100a"]
TILE = 1 << 10
BEYOND = 1 << 32  # which int32 takes for 0


@T.prim_func
def known(C: T.Tensor((TILE,), "int32")):
    with T.Kernel(1, threads=128):
        for t in T.serial(5):
            for i in T.Parallel(TILE):
                C[t * (1 << 30) + i] = t + 1


@T.prim_func
def named(C: T.Tensor((TILE,), "int32")):
    with T.Kernel(1, threads=128):
        for t in T.serial(5):
            first = t * (1 << 30)
            half = first // 2
            for i in T.Parallel(TILE):
                C[first + i] = t + 1 + (half > 5) * 7


@T.prim_func
def tile(C: T.Tensor((TILE,), "int32")):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((TILE,), "int32")
        for t in T.serial(5):
            T.fill(s, t + 1)
            T.copy(s, C[t * (1 << 30)])


@T.prim_func
def condition(C: T.Tensor((TILE,), "int32")):
    with T.Kernel(1, threads=128):
        for t in T.serial(5):
            if t * (1 << 30) < TILE:
                for i in T.Parallel(TILE):
                    C[i] = t + 1


@T.prim_func
def quotient(C: T.Tensor((TILE,), "int32")):
    with T.Kernel(1, threads=128):
        for t in T.serial(5):
            for i in T.Parallel(TILE):
                C[t * (1 << 30) // 64 + i] = t + 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", [known, named, tile, condition, quotient])
def test_known_to_pass(program, target):
    """Only the first iteration is inside of the tensor; int32 takes the last for the same."""
    c = torch.full((TILE,), -1, dtype=torch.int32)
    tilelang.compile(program, target=target)(c)
    assert torch.equal(c, torch.ones_like(c))


def parameter(extent: str):
    n = T.dynamic("n", extent)

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((n,), "int32"), first: T.int32):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(TILE):
                C[(first + bx) * TILE + i] = A[(first + bx) * TILE + i] + 1

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_parameter_of_a_tensor_that_may_be_large(target):
    kernel = tilelang.compile(parameter("int64"), target=target)
    a = torch.randint(-99, 99, (3 * TILE,), dtype=torch.int32)
    c = torch.zeros_like(a)
    kernel(a, c, BEYOND // TILE)  # out of bounds: 2^32 and more
    assert not c.any()
    kernel(a, c, 1)
    assert torch.equal(c[TILE:], a[TILE:] + 1) and not c[:TILE].any()


def test_others_stay_as_they_are():
    """What is not known to pass, in tensors that cannot be that large."""
    text = str(run_pass("widen_indices", parameter("int32"), "sm_90a"))
    assert "int64" not in text
    assert "int64" in str(run_pass("widen_indices", parameter("int64"), "sm_90a"))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("shape", ["flat", "three dimensions"])
def test_last_elements_of_a_large_tensor(target, shape):
    """Memory that is never touched takes no room."""
    size, part = (1 << 31) + 4 * TILE, 1 << 16
    blocks = size // TILE

    @T.prim_func
    def flat(C: T.Tensor((size,), "uint8")):
        with T.Kernel(4, threads=128) as bx:
            for i in T.Parallel(TILE):
                C[(blocks - 4 + bx) * TILE + i] = T.cast(i % 100 + 1, "uint8")

    @T.prim_func
    def planes(C: T.Tensor((2, part, part), "uint8")):
        with T.Kernel(4, threads=128) as bx:
            for i in T.Parallel(TILE):
                C[1, bx, i] = T.cast(i % 100 + 1, "uint8")

    c = torch.empty(size if shape == "flat" else 2 * part * part, dtype=torch.uint8)
    program = flat if shape == "flat" else planes
    with emulator.options(sanitize=False):
        given = c if shape == "flat" else c.view(2, part, part)
        tilelang.compile(program, target=target)(given)
    written = (
        c[-4 * TILE :].view(4, TILE) if shape == "flat" else c.view(2, part, part)[1, :4, :TILE]
    )
    want = (torch.arange(TILE) % 100 + 1).to(torch.uint8)
    assert torch.equal(written, want.expand(4, TILE))
