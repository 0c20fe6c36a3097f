"""Gemms of pipelined loops under a condition: who issues them, and what they compute."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import poisoned

import tilelang
import tilelang.language as T

STEPS = 8
MASK = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0], dtype=torch.int32)
#: program -> whether the MMA warp issues the gemms, else a part of the remark that says why not
PROGRAMS = {
    "block mask": True,
    "two conditions": True,
    "left early": True,
    "loads outside": "it stands in an inner statement of the loop",
    "one load outside": "its tiles are loaded outside of that condition",
    "both branches": "it stands in an inner statement of the loop",
    "threads between": "threads work between the gemms of an iteration, which a condition may skip",
}


@T.macro
def load_and_multiply(A, B, a, b, c, row, k):
    T.copy(A[row, k * 64], a)
    T.copy(B[0, k * 64], b)
    T.gemm(a, b, c, transpose_B=True)


@T.macro
def iteration(program, A, B, Mask, a, b, c, row, k):
    if program == "block mask":
        if Mask[k] != 0:
            load_and_multiply(A, B, a, b, c, row, k)
    elif program == "two conditions":
        if Mask[k] != 0:
            part = k * 64
            if k != 2:
                T.copy(A[row, part], a)
                T.copy(B[0, part], b)
                T.gemm(a, b, c, transpose_B=True)
    elif program == "loads outside":
        T.copy(A[row, k * 64], a)
        T.copy(B[0, k * 64], b)
        if Mask[k] != 0:
            T.gemm(a, b, c, transpose_B=True)
    elif program == "one load outside":
        T.copy(B[0, k * 64], b)
        if Mask[k] != 0:
            T.copy(A[row, k * 64], a)
            T.gemm(a, b, c, transpose_B=True)
    elif program == "both branches":
        if Mask[k] != 0:
            load_and_multiply(A, B, a, b, c, row, k)
        else:
            load_and_multiply(A, B, a, b, c, row, k)
    elif program == "threads between" and Mask[k] != 0:
        load_and_multiply(A, B, a, b, c, row, k)
        for i, j in T.Parallel(128, 64):
            c[i, j] = c[i, j] * 0.5


def kernel(program, stages, tiles):
    @T.prim_func
    def main(
        A: T.Tensor((128 * tiles, 64 * STEPS), "bfloat16"),
        B: T.Tensor((64, 64 * STEPS), "bfloat16"),
        Mask: T.Tensor((STEPS,), "int32"),
        count: T.int32,
        C: T.Tensor((128 * tiles, 64), "float32"),
    ):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            for tile in T.serial(tiles):
                T.clear(c)
                for k in T.Pipelined(count, num_stages=stages):
                    if program == "left early":
                        if k == 6:
                            break
                        iteration("block mask", A, B, Mask, a, b, c, tile * 128, k)
                    else:
                        iteration(program, A, B, Mask, a, b, c, tile * 128, k)
                T.copy(c, C[tile * 128, 0])

    return main


def expected(program, a, b, count):
    used = torch.ones(STEPS) if program == "both branches" else MASK.clone()
    used[count:] = 0
    if program == "two conditions":
        used[2] = 0
    if program == "left early":
        used[6:] = 0
    c = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64)
    for k in range(STEPS):
        if used[k]:
            part = slice(k * 64, k * 64 + 64)
            c += a[:, part].double() @ b[:, part].double().T
            if program == "threads between":
                c *= 0.5
    return c


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize(("stages", "tiles"), [(2, 1), (3, 3)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_result(program, stages, tiles, target):
    compiled = tilelang.compile(kernel(program, stages, tiles), target=target)
    # Small integers and halves of them: exact.
    a, b = (torch.randint(-2, 3, (n, 64 * STEPS)).bfloat16() for n in (128 * tiles, 64))
    for count in (0, 1, 3, STEPS):
        c = poisoned(128 * tiles, 64, "float32")
        compiled(a, b, MASK, count, c)
        assert torch.equal(c.double(), expected(program, a, b, count))


@pytest.mark.parametrize("program", PROGRAMS)
def test_who_issues(program):
    compiled = tilelang.compile(kernel(program, 3, 2), target="sm_100a")
    remarks = [str(remark) for remark in compiled.remarks if "issued by the threads" in str(remark)]
    by_mma_warp = "tcgen05.commit" in str(compiled.schedule())
    if PROGRAMS[program] is True:
        assert by_mma_warp and not remarks
    else:
        assert not by_mma_warp and remarks
        assert all(PROGRAMS[program] in remark for remark in remarks)
