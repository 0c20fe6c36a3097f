"""Elements of tensor memory read by T.Parallel."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import compile_sm100, poisoned

import tilelang.language as T

pytestmark = pytest.mark.every_schedule


@pytest.mark.parametrize("threads", [128, 256])
def test_a_stage_chosen_by_a_loop(threads: int):
    """Several warpgroups hold the stages of the tile together; each iteration reads one."""

    @T.prim_func
    def stages(X: T.Tensor((2, 128, 64), "float32"), Y: T.Tensor((2, 128, 64), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_tmem((2, 128, 64), "float32")
            T.copy(X, tile)
            for k in T.serial(2):
                for i, j in T.Parallel(128, 64):
                    Y[k, i, j] = 2 * tile[1 - k, i, j]

    x, y = torch.randn(2, 128, 64), torch.full((2, 128, 64), float("nan"))
    compile_sm100(stages)(x, y)
    assert torch.equal(y.double(), 2 * x.double().flip(0))


@pytest.mark.parametrize("threads", [128, 256])
def test_two_stages_in_one_loop(threads: int):
    @T.prim_func
    def both(X: T.Tensor((2, 128, 64), "float32"), Y: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_tmem((2, 128, 64), "float32")
            T.copy(X, tile)
            for i, j in T.Parallel(128, 64):
                Y[i, j] = tile[0, i, j] - 4 * tile[1, i, j]

    x, y = torch.randn(2, 128, 64), poisoned(128, 64, "float32")
    compile_sm100(both)(x, y)
    expected = x[0].double() - 4 * x[1].double()
    assert torch.allclose(y.double(), expected, rtol=2**-23, atol=0)
