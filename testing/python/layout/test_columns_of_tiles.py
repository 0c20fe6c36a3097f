"""Shared tiles that threads read along their columns: right values, and no bank conflicts."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

BY_THREADS = "a loop reads columns of s"


def transposition(m, n, tile=64, threads=256, dtype="bfloat16", prefer=None):
    """B = A^T through a shared tile."""

    @T.prim_func
    def main(A: T.Tensor((m, n), dtype), B: T.Tensor((n, m), dtype)):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=threads) as (bx, by):
            s = T.alloc_shared((tile, tile), dtype)
            T.copy(A[by * tile, bx * tile], s, prefer_instruction=prefer)
            for i, j in T.Parallel(tile, tile):
                B[bx * tile + i, by * tile + j] = s[j, i]

    return main


def random(m, n, dtype):
    torch.manual_seed(0)
    return torch.randint(-100, 100, (m, n)).to(getattr(torch, dtype))


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8", "float64"])
@pytest.mark.parametrize(
    ("sizes", "tile"), [((128, 64), 64), ((80, 144), 32), ((33, 70), 64)], ids=str
)
def test_transposition(target, dtype, sizes, tile):
    kernel = tilelang.compile(transposition(*sizes, tile, dtype=dtype), target=target)
    a = random(*sizes, dtype)
    b = torch.full((sizes[1], sizes[0]), 101).to(a.dtype)
    kernel(a, b)
    assert torch.equal(b, a.T)


def conflicts(kernel):
    """Cycles that loads from shared memory wait for banks, for each load of a warp."""
    timing = kernel.profile().timing
    rows = range(len(timing.inst_opcode))
    loads = [i for i in rows if str(timing.inst_opcode[i]).startswith("ld.shared")]
    assert loads
    return sum(timing.inst_conflicts[i] for i in loads) / sum(timing.inst_issues[i] for i in loads)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_lanes_read_other_banks(target, dtype):
    tiles_stay = {"tl.disable_block_fitting": True}
    kernel = tilelang.compile(
        transposition(512, 512, dtype=dtype), target=target, pass_configs=tiles_stay
    )
    assert any(BY_THREADS in remark.message for remark in kernel.remarks)
    assert conflicts(kernel) == 0


def test_a_program_may_prefer_tma():
    kernel = tilelang.compile(transposition(512, 512, prefer="tma"), target="sm_100a")
    assert not any(BY_THREADS in remark.message for remark in kernel.remarks)
    assert "cp.async.bulk.tensor" in kernel.get_ptx()
    assert conflicts(kernel) > 1
    a = random(512, 512, "bfloat16")
    b = torch.empty_like(a)
    kernel(a, b)
    assert torch.equal(b, a.T)


def test_rows_are_loaded_by_tma():
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            s = T.alloc_shared((64, 64), "float32")
            T.copy(A[bx * 64, 0], s)
            for i, j in T.Parallel(64, 64):
                B[bx * 64 + i, j] = s[63 - i, j]

    kernel = tilelang.compile(main, target="sm_100a")
    assert "cp.async.bulk.tensor" in kernel.get_ptx()
    a = torch.randn(128, 64)
    b = torch.empty_like(a)
    kernel(a, b)
    assert torch.equal(b.view(2, 64, 64), a.view(2, 64, 64).flip(1))
