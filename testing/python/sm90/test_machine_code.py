"""What ptxas makes of gemms by wgmma. That it neither spills nor serialises them is checked of
every kernel of this folder."""

from __future__ import annotations

import pytest
from tiling.gemms import plain_gemm

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


@T.prim_func
def persistent(
    A: T.Tensor((4096, 4096), "bfloat16"), B: T.Tensor((4096, 4096), "bfloat16"),
    C: T.Tensor((4096, 4096), "bfloat16"),
):  # fmt: skip
    with T.Kernel(132, threads=256) as block:
        a = T.alloc_shared((128, 64), "bfloat16")
        b = T.alloc_shared((256, 64), "bfloat16")
        c = T.alloc_fragment((128, 256), "float32")
        out = T.alloc_shared((128, 256), "bfloat16")
        for by, bx in T.Persistent([32, 16], 132, block):
            T.clear(c)
            for i in T.Pipelined(64, num_stages=3):
                T.copy(A[by * 128, i * 64], a)
                T.copy(B[bx * 256, i * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, out)
            T.copy(out, C[by * 128, bx * 256])


def test_one_warp_storing_leaves_the_others_uniform():
    """Branches of one warp, around the loop of gemms, are taken by whole warps for ptxas, too."""
    kernel = tilelang.compile(persistent, target="sm_90a")
    source = kernel.get_kernel_source()
    assert "const int warp = tl::warp_index(tx);" in source and "if (warp == 0)" in source
    assert "tx >> 5 ==" not in source and "tx >=" not in source
    lines = kernel.get_sass().splitlines()
    products = [i for i, line in enumerate(lines) if "HGMMA" in line]
    assert len(products) == 4
    assert not [line for line in lines[products[0] : products[-1]] if "R2UR" in line]


def test_descriptors_of_blackwell_are_uniform():
    """ptxas moves none of them to uniform registers in the loop of gemms."""
    kernel = tilelang.compile(plain_gemm(4096, 4096, 4096, stages=3), target="sm_100a")
    source = kernel.get_kernel_source()
    assert "tl::warp_index(tx)" in source and "tx >> 5 ==" not in source
    lines = kernel.get_sass().splitlines()
    products = [i for i, line in enumerate(lines) if "UTCHMMA" in line]
    assert len(products) >= 4
    assert not [line for line in lines[products[0] : products[3]] if "R2UR" in line]


def test_threads_that_are_no_whole_warps_are_asked_for_by_index():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            if tx < 40:
                A[tx] = 1
            if tx >= 64:
                A[tx] = 2

    for target in ("sm_100a", "sm_90a", "sm_120a"):
        source = tilelang.compile(main, target=target).get_kernel_source()
        assert "if (tx < 40)" in source and "if (warp >= 2)" in source
    assert "warp" not in tilelang.compile(main, target="sm_80").get_kernel_source()
    assert "warp" not in tilelang.compile(main, target="sm_80").get_kernel_source()
