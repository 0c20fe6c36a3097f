"""What ptxas makes of gemms by wgmma. That it neither spills nor serialises them is checked of
every kernel of this folder."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T
from tilelang.runtime.toolchain import ToolNotFoundError, find_nvdisasm


@pytest.fixture(autouse=True)
def _installed():
    try:
        find_nvdisasm()
    except ToolNotFoundError:
        pytest.skip("nvdisasm is not installed")


def pipelined(k: int, stages: int, transpose_b: bool):
    @T.prim_func
    def main(
        A: T.Tensor((4096, 4096), "bfloat16"), B: T.Tensor((4096, 4096), "bfloat16"),
        C: T.Tensor((4096, 4096), "bfloat16"),
    ):  # fmt: skip
        with T.Kernel(16, 32, threads=256) as (bx, by):
            a = T.alloc_shared((128, k), "bfloat16")
            b = T.alloc_shared((256, k) if transpose_b else (k, 256), "bfloat16")
            c = T.alloc_fragment((128, 256), "float32")
            T.clear(c)
            for i in T.Pipelined(4096 // k, num_stages=stages):
                T.copy(A[by * 128, i * k], a)
                if transpose_b:
                    T.copy(B[bx * 256, i * k], b)
                else:
                    T.copy(B[i * k, bx * 256], b)
                T.gemm(a, b, c, transpose_B=transpose_b)
            T.copy(c, C[by * 128, bx * 256])

    return tilelang.compile(main, target="sm_90a")


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("stages", [3, 4])
def test_descriptors_stay_in_uniform_registers(stages, transpose_b):
    """Two warpgroups of 64 x 256: each block of K is four instructions that follow each other."""
    lines = pipelined(64, stages, transpose_b).get_sass().splitlines()
    products = [i for i, line in enumerate(lines) if "HGMMA" in line]
    assert products and len(products) % 4 == 0
    assert all("HGMMA.64x256x16.F32.BF16" in lines[i] for i in products)
    loop = lines[products[0] : products[-1]]
    assert not [line for line in loop if "R2UR" in line]
    assert sum("DEPBAR" in line for line in loop) <= len(products) // 4
