"""Loads that one warp or two issue, and the arrival that goes with the last load of a slot."""

from __future__ import annotations

import pytest
import torch
from fuzz.pipelined_kernels import gemm_arguments, staged_gemm

import tilelang
import tilelang.language as T


def compiled(loads: int, target: str):
    configs = {"tl.verify_synchronization": True}
    return tilelang.compile(staged_gemm(loads=loads), target=target, pass_configs=configs)


def roles(kernel) -> list[str]:
    """Returns the roles of the kernel in the order of their threads."""
    return [str(role.name) for role in kernel.schedule().launches[0].roles]


@pytest.mark.every_schedule
@pytest.mark.parametrize("loads", [1, 2, 4])
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_results(target, loads):
    kernel = compiled(loads, target)
    divided = target == "sm_100a" and loads > 1
    assert roles(kernel).count("load 2") == int(divided)
    a, b, c, *counts = gemm_arguments()
    kernel(a, b, c, *counts)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-2, atol=0.1)


def test_each_warp_announces_its_own_bytes_and_arrives_once():
    source = compiled(2, "sm_100a").get_kernel_source()
    bytes_of_half = 2 * 32 * (128 + 64) // 2
    assert source.count(f"tl::mbarrier_arrive_expect_tx(a_full[a_slot], {bytes_of_half}u)") == 1
    assert source.count(f"_expect_tx(a_full[a_slot_1], {bytes_of_half}u)") == 1
    assert "tl::mbarrier_init(a_full[0], 2)" in source
    assert "tl::mbarrier_arrive(a_full" not in source


def test_one_thread_arrives_for_one_warp():
    source = compiled(1, "sm_90a").get_kernel_source()
    assert "tl::mbarrier_init(a_full[0], 1)" in source
    assert source.count("mbarrier_arrive_expect_tx") == 1


def test_two_blocks_a_multiprocessor_keep_one_load_warp():
    @T.prim_func
    def main(A: T.Tensor((512, 160), "bfloat16"), C: T.Tensor((512, 128), "float32")):
        with T.Kernel(4, threads=128) as block:
            T.annotate_min_blocks_per_sm(2)
            a = T.alloc_shared((128, 32), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(5, num_stages=2):
                for part in (0, 1, 2, 3):
                    T.copy(A[block * 128 + part * 32, i * 32], a[part * 32 : part * 32 + 32, :])
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C[block * 128, 0])

    assert "load 2" not in roles(tilelang.compile(main, target="sm_100a"))


def in_two_loops(parts):
    """C = A B + A2 B2; loop number i loads each tile of 128 rows by ``parts[i]`` copies."""

    first, second = (tuple(range(0, 128, 128 // count)) for count in parts)

    @T.prim_func
    def main(
        A: T.Tensor((2, 256, 96), "bfloat16"),
        B: T.Tensor((2, 128, 96), "bfloat16"),
        C: T.Tensor((256, 128), "float32"),
    ):
        with T.Kernel(2, threads=128) as block:
            a = T.alloc_shared((128, 32), "bfloat16")
            b = T.alloc_shared((128, 32), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(3, num_stages=2):
                for at in first:
                    T.copy(A[0, block * 128 + at, k * 32], a[at : at + 128 // parts[0], :])
                    T.copy(B[0, at, k * 32], b[at : at + 128 // parts[0], :])
                T.gemm(a, b, c, transpose_B=True)
            for k in T.Pipelined(3, num_stages=2):
                for at in second:
                    T.copy(A[1, block * 128 + at, k * 32], a[at : at + 128 // parts[1], :])
                    T.copy(B[1, at, k * 32], b[at : at + 128 // parts[1], :])
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[block * 128, 0])

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("parts", [(1, 2), (2, 1), (2, 4)])
def test_uses_of_a_slot_by_different_numbers_of_loads(parts):
    configs = {"tl.verify_synchronization": True}
    kernel = tilelang.compile(in_two_loops(parts), target="sm_100a", pass_configs=configs)
    assert roles(kernel).count("load 2") == int(min(parts) > 1)
    a, b = torch.randint(-4, 5, (2, 256, 96)), torch.randint(-4, 5, (2, 128, 96))
    c = torch.full((256, 128), torch.nan)
    kernel(a.bfloat16(), b.bfloat16(), c)
    assert torch.equal(c, (a.float() @ b.mT.float()).sum(0))
