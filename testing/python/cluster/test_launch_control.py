"""Cluster launch control by hand: running blocks take over those that have not started."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

pytestmark = pytest.mark.every_schedule


def _persistent(grid: tuple[int, int, int], cluster: int) -> Any:
    """Adds 1 to the element of each block of the grid, whoever does its work."""

    @T.prim_func
    def main(counts: T.Tensor(grid, "int32"), done: T.Tensor(grid, "int32")):
        with T.Kernel(*grid, threads=64, cluster_dims=(cluster, 1, 1)) as (bx, by, bz):
            answer = T.alloc_shared((4,), "uint32")
            arrived = T.alloc_cluster_barrier(1)
            t = T.get_thread_binding()
            rank = T.block_rank_in_cluster()
            x, y, z = T.alloc_var("int32"), T.alloc_var("int32"), T.alloc_var("int32")
            phase = T.alloc_var("int32", init=0)
            going = T.alloc_var("bool", init=True)
            x = bx
            y = by
            z = bz
            while going:
                if t == 0:
                    T.atomic_add(counts[x, y, z], 1)
                    T.atomic_add(done[bx, by, bz], 1)
                    T.mbarrier_arrive_expect_tx(arrived, 16)
                T.cluster_sync()
                if t == 0:
                    if cluster == 1:
                        T.clc_try_cancel(answer, arrived)
                    else:
                        if rank == 0:
                            T.clc_try_cancel_multicast(answer, arrived)
                T.mbarrier_wait_parity(arrived, phase)
                phase = phase ^ 1
                going = T.clc_is_canceled(answer)
                if going:
                    x = T.cast(T.clc_get_first_ctaid_x(answer), "int32") + rank
                    y = T.cast(T.clc_get_first_ctaid_y(answer), "int32")
                    z = T.cast(T.clc_get_first_ctaid_z(answer), "int32")
                T.cluster_sync()

    return main


@pytest.mark.parametrize(
    ("grid", "cluster"), [((24, 1, 1), 1), ((5, 3, 2), 1), ((12, 2, 1), 2), ((8, 1, 2), 4)]
)
def test_every_block_is_done_once(grid: tuple[int, int, int], cluster: int) -> None:
    counts, done = torch.zeros(2, *grid, dtype=torch.int32)
    tilelang.compile(_persistent(grid, cluster), target="sm_100a")(counts, done)
    assert counts.unique().tolist() == [1]
    assert done.sum() == counts.numel()
    assert done.max() > 1, "nothing was taken over"


def test_other_targets_have_none() -> None:
    with pytest.raises(errors.TargetError, match="sm_90a has no cluster launch control"):
        tilelang.compile(_persistent((4, 1, 1), 1), target="sm_90a")


@pytest.mark.parametrize(
    ("scope", "shape", "message"),
    [
        ("fragment", (4,), "the answer needs a buffer in shared memory"),
        ("shared", (2,), "needs 16 bytes, but .* has 8"),
    ],
)
def test_where_the_answer_goes(scope: str, shape: tuple[int, ...], message: str) -> None:
    allocate = {"fragment": T.alloc_fragment, "shared": T.alloc_shared}[scope]
    with pytest.raises(errors.CompileError, match=message) as caught:

        @T.prim_func
        def main(A: T.Tensor((1,), "int32")):
            with T.Kernel(1, threads=32):
                answer = allocate(shape, "uint32")
                barrier = T.alloc_barrier(1)
                T.clc_try_cancel(answer, barrier)
                A[0] = 1

    assert caught.value.span is not None
