"""Calls that need the hardware of later GPUs are refused on earlier ones; others work there."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

#: By name: the call, and the earliest target that has what it needs.
CALLS = {
    "fence_proxy_async": (lambda bar: T.fence_proxy_async(), "sm_90a"),
    "mbarrier_expect_tx": (lambda bar: T.mbarrier_expect_tx(bar, 16), "sm_90a"),
    "mbarrier_arrive_expect_tx": (lambda bar: T.mbarrier_arrive_expect_tx(bar, 16), "sm_90a"),
    "mbarrier_arrive": (lambda bar: T.mbarrier_arrive(bar, 0), "sm_90a"),
    "set_max_nreg": (lambda bar: T.inc_max_nreg(64), "sm_90a"),
    "tcgen05_before_thread_sync": (lambda bar: T.tcgen05_before_thread_sync(), "sm_100a"),
    "tcgen05_after_thread_sync": (lambda bar: T.tcgen05_after_thread_sync(), "sm_100a"),
    "tcgen05_mma_arrive": (lambda bar: T.tcgen05_mma_arrive(bar), "sm_100a"),
}
TARGETS = ("sm_80", "sm_90a", "sm_100a")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, target):
    call, earliest = CALLS[name]
    cluster = {} if target == "sm_80" else {"cluster_dims": 2}

    @T.prim_func
    def main():
        with T.Kernel(2, threads=128, **cluster):
            bar = T.alloc_barrier(1)
            call(bar)

    if TARGETS.index(target) >= TARGETS.index(earliest):
        tilelang.compile(main, target=target)
        return
    with pytest.raises(errors.TargetError, match=f"T.{name}: {target} has no .*{earliest}") as e:
        tilelang.compile(main, target=target)
    assert e.value.span is not None and e.value.span.file == __file__


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_mbarriers_of_the_kernel(target):
    """One warp hands tiles to another through two mbarriers: no target lacks these."""
    stages, tiles = 2, 5

    @T.prim_func
    def pass_on(X: T.Tensor((tiles, 32), "int32"), Y: T.Tensor((tiles, 32), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((stages, 32), "int32")
            full, empty = T.alloc_barrier([32] * stages), T.alloc_barrier([32] * stages)
            lane = T.get_lane_idx()
            if T.get_warp_idx() == 0:
                for k in T.serial(tiles):
                    T.mbarrier_wait_parity(empty[k % stages], (k // stages + 1) % 2)
                    tile[k % stages, lane] = X[k, lane] + 1
                    T.mbarrier_arrive(full[k % stages])
            else:
                for k in T.serial(tiles):
                    T.mbarrier_wait_parity(full[k % stages], k // stages % 2)
                    Y[k, lane] = tile[k % stages, lane] * 2
                    T.mbarrier_arrive(empty[k % stages])

    x, y = torch.randint(-99, 99, (tiles, 32)).int(), torch.full((tiles, 32), -77).int()
    tilelang.compile(pass_on, target=target)(x, y)
    assert torch.equal(y, 2 * (x + 1))
