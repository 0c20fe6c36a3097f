"""Loops with tile operators that are left, or go on, by an element of a fragment."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]


@T.prim_func
def left_early(
    A: T.Tensor((20, 48), "float32"),
    limit: T.float32,
    B: T.Tensor((48,), "float32"),
    N: T.Tensor((1,), "int32"),
):
    with T.Kernel(1, threads=64):
        total, most = T.alloc_fragment((48,), "float32"), T.alloc_fragment((1,), "float32")
        count = T.alloc_var("int32", init=0)
        T.clear(total)
        for i in T.serial(20):
            for j in T.Parallel(48):
                total[j] += A[i, j]
            count = count + 1
            T.reduce_absmax(total, most, dim=0)
            if most[0] > limit:
                break
        T.copy(total, B)
        N[0] = count


@T.prim_func
def rows_skipped(A: T.Tensor((20, 48), "float32"), B: T.Tensor((20, 48), "float32")):
    with T.Kernel(1, threads=64):
        row, least = T.alloc_fragment((48,), "float32"), T.alloc_fragment((1,), "float32")
        for i in T.serial(20):
            T.copy(A[i, :], row)
            T.reduce_min(row, least, dim=0)
            if least[0] < -2:
                continue
            for j in T.Parallel(48):
                row[j] = row[j] * 2
            T.copy(row, B[i, :])


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("limit", [-1.0, 6.0, 1e9])
def test_a_loop_is_left(target, limit):
    a = torch.randint(-3, 4, (20, 48)).float()
    b, n = torch.full((48,), torch.nan), torch.full((1,), -1).int()
    tilelang.compile(left_early, target=target)(a, limit, b, n)
    totals = a.cumsum(0)
    over = (totals.abs().amax(1) > limit).nonzero()
    last = int(over[0]) if len(over) else 19
    assert n.item() == last + 1
    assert torch.equal(b, totals[last])


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_iterations_go_on(target):
    a = torch.randn(20, 48)
    b = torch.full((20, 48), torch.nan)
    tilelang.compile(rows_skipped, target=target)(a, b)
    skipped = a.amin(1) < -2
    assert 0 < skipped.sum() < 20
    assert b[skipped].isnan().all()
    assert torch.equal(b[~skipped], a[~skipped] * 2)
