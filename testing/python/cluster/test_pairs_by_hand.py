"""T.tcgen05_gemm(use_2cta=True) and its like: the even block of a pair issues for both."""

from __future__ import annotations

import pytest
import torch
from cluster.hand_kernels import HandGemm, operand_in_tensor_memory, persistent, scaled
from cluster.kernels import poisoned
from cluster.pair_kernels import values
from cluster.test_clusters import check_gemm
from conformance.test_block_scaled import MIXED, words
from conformance.test_block_scaled_by_hand import scaled as product_with

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule

CASES = [
    HandGemm(256, 128, 256),
    HandGemm(300, 200, 200, stages=3),
    HandGemm(256, 64, 64, tile=(128, 64, 64)),
    HandGemm(512, 256, 192, tile=(128, 256, 64), stages=3),
    HandGemm(256, 48, 96, tile=(128, 48, 32), trans_b=False),
    HandGemm(600, 136, 200, size=4),
    HandGemm(256, 128, 128, tile=(256, 128, 64)),
    HandGemm(256, 128, 192, dtype="float8_e4m3fn"),
    HandGemm(256, 64, 128, dtype="float16", trans_b=False, tile=(128, 64, 64)),
    HandGemm(256, 64, 128, dtype="int8", tile=(128, 64, 64)),
    HandGemm(256, 64, 96, dtype="float32", tile=(128, 64, 32)),
    HandGemm(256, 128, 320, loads="own"),
    HandGemm(600, 136, 200, size=4, loads="own", stages=3),
    HandGemm(256, 64, 192, tile=(128, 64, 64), loads="threads"),
]


@every_schedule
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gemm(case):
    kernel = tilelang.compile(case.build(), target="sm_100a")
    ptx = kernel.get_ptx()
    assert "tcgen05.mma.cta_group::2" in ptx and "cta_group::1" not in ptx
    assert (".mbarrier::complete_tx::bytes.cta_group::2" in ptx) == (case.loads == "leader")
    # What threads wrote, or saw arrive, reaches the tensor core of the other block.
    assert ("mbarrier.arrive.release.cluster" in ptx) == (case.loads != "leader")
    assert ("try_wait.parity.acquire.cluster" in ptx) == (case.loads != "leader")
    a, b = values(case.shapes[0], case.dtype), values(case.shapes[1], case.dtype)
    c = torch.full(case.shapes[2], 77, dtype=getattr(torch, case.c_type))
    kernel(a, b, c)
    right = b.double().T if case.trans_b else b.double()
    assert torch.equal(c.double(), a.double() @ right)


@every_schedule
@pytest.mark.parametrize("pairs", [1, 2, 3])
@pytest.mark.parametrize("K", [40, 64, 416])
def test_persistent(pairs, K):
    M, N = 2 * 256 + 70, 136
    check_gemm(tilelang.compile(persistent(M, N, K, pairs), target="sm_100a"), M, N, K)


@every_schedule
@pytest.mark.parametrize("n", [32, 128, 256])
def test_a_in_tensor_memory(n):
    K = 320
    kernel = tilelang.compile(operand_in_tensor_memory(K, n), target="sm_100a")
    check_gemm(kernel, 256, n, K)


@every_schedule
@pytest.mark.parametrize(
    ("shape", "block_n", "granularity"),
    [((256, 256, 640), 256, 128), ((260, 132, 288), 128, 32), ((256, 192, 256), 192, 64)],
)
def test_scaled(shape, block_n, granularity):
    m, n, k = shape
    kernel = tilelang.compile(scaled(m, n, k, block_n, granularity, MIXED), target="sm_100a")
    ptx = kernel.get_ptx()
    assert "tcgen05.cp.cta_group::2.32x128b.warpx4" in ptx and "cta_group::1" not in ptx
    a, b = (torch.randn(r, k).to(getattr(torch, t)) for r, t in zip((m, n), MIXED, strict=True))
    sa, sb = (torch.randint(120, 134, (r, -(-k // granularity))).byte() for r in (m, n))
    c = poisoned(m, n)
    kernel(a, b, words(sa), words(sb), c)
    wide = [product_with(x, s, granularity) for x, s in ((a, sa), (b, sb))]
    size = wide[0].abs() @ wide[1].abs().T
    assert bool(((c.double() - wide[0] @ wide[1].T).abs() <= 1e-5 * size).all())


@every_schedule
def test_a_gemm_with_a_barrier_only_issues():
    """T.gemm(mbar=) is the same as T.tcgen05_gemm."""

    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"),
             C: T.Tensor((256, 64))):  # fmt: skip
        with T.Kernel(2, threads=128, cluster_dims=2) as block:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_tmem((128, 64), "float32")
            done = T.alloc_cluster_barrier(1)
            T.copy(A[block * 128, 0], a)
            T.copy(B[block * 32, 0], b)
            T.cluster_sync()
            if block % 2 == 0:
                T.gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=done, use_2cta=True)
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C[block * 128, 0])

    check_gemm(tilelang.compile(main, target="sm_100a"), 256, 64, 64)


@every_schedule
@pytest.mark.parametrize("both", [True, False])
def test_arrivals_at_the_even_block_alone(both):
    """It tells the odd one."""

    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), B: T.Tensor((64, 64), "float16"),
             C: T.Tensor((256, 64))):  # fmt: skip
        with T.Kernel(2, threads=128, cluster_dims=2) as block:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_tmem((128, 64), "float32")
            done = T.alloc_barrier(1)
            told = T.alloc_cluster_barrier(128)
            rank = T.block_rank_in_cluster()
            T.copy(A[block * 128, 0], a)
            T.copy(B[rank * 32, 0], b)
            T.cluster_sync()
            if rank == 0:
                T.tcgen05_gemm(
                    a, b, c, transpose_B=True, clear_accum=True, mbar=None, use_2cta=True
                )
                T.tcgen05_mma_arrive(done, arrive_2cta=both)
                T.mbarrier_wait_parity(done, 0)
                if not both:
                    T.mbarrier_arrive(told, 1)
            elif both:
                T.mbarrier_wait_parity(done, 0)
            else:
                T.mbarrier_wait_parity(told, 0)
            T.copy(c, C[block * 128, 0])

    kernel = tilelang.compile(main, target="sm_100a")
    check_gemm(kernel, 256, 64, 64)
