"""Two sides of a branch load tiles of their own by TMA; afterwards all threads use one of them."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


@pytest.mark.every_schedule
@pytest.mark.parametrize("used", ["first", "second", "both"])
@pytest.mark.parametrize("by_tma", [False, True])
def test_each_side_waits_for_its_own_load(used: str, by_tma: bool) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((128, 32), "float16"),
        B: T.Tensor((128, 32), "float16"),
        C: T.Tensor((128, 32), "float16"),
        D: T.Tensor((128, 32), "float16"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((128, 32), "float16")
            if T.get_warp_idx() < 4:
                T.copy(A, a)
            else:
                T.copy(B, b)
            if used != "second":
                T.copy(a, C, disable_tma=not by_tma)
            if used != "first":
                T.copy(b, D, disable_tma=not by_tma)

    a, b = torch.randn(128, 32).half(), torch.randn(128, 32).half()
    c, d = torch.full_like(a, float("nan")), torch.full_like(a, float("nan"))
    tilelang.compile(main, target="sm_90a")(a, b, c, d)
    if used != "second":
        assert torch.equal(c, a)
    if used != "first":
        assert torch.equal(d, b)
