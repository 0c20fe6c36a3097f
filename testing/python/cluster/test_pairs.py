"""T.gemm(use_2cta=True): gemms that pairs of blocks compute, against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cluster.kernels import exact, poisoned
from cluster.pair_kernels import PairGemm, chained, persistent, shared_rows, values
from cluster.test_clusters import check_gemm

import tilelang

every_schedule = pytest.mark.every_schedule

SHAPES = [
    PairGemm(256, 128, 64),
    PairGemm(256, 128, 192, clear=False),
    PairGemm(512, 256, 128, tile=(256, 64, 64)),
    PairGemm(256, 256, 128, tile=(128, 256, 64), threads=256),
    PairGemm(256, 32, 128, tile=(128, 32, 32)),
    PairGemm(256, 48, 128, tile=(128, 16, 64)),
    PairGemm(300, 200, 100),
    PairGemm(130, 72, 40, tile=(128, 48, 64), trans_b=False),
    PairGemm(1, 8, 8),
    PairGemm(600, 136, 200, size=4),
    PairGemm(256, 128, 128, threads=256, tile=(256, 128, 64)),
    PairGemm(256, 256, 128, trans_a=True),
    PairGemm(256, 256, 128, trans_b=False),
    PairGemm(256, 256, 128, trans_a=True, trans_b=False),
    PairGemm(256, 128, 256, c="t", clear=False),
]
# Blocks of 64 rows, whose columns lie in two groups of lanes.
FEW_ROWS = [
    PairGemm(128, 128, 64, tile=(64, 128, 64)),
    PairGemm(200, 72, 100, tile=(64, 48, 64), trans_b=False),
    PairGemm(100, 300, 136, tile=(64, 256, 32), c="t", clear=False, threads=256),
    PairGemm(128, 16, 192, tile=(64, 16, 64), a="w"),
    PairGemm(300, 136, 200, tile=(64, 64, 64), size=4, trans_a=True),
]
A_MEMORIES = [
    PairGemm(256, 128, 192, a="f"),
    PairGemm(256, 128, 192, a="t"),
    PairGemm(256, 128, 192, a="w"),
    PairGemm(300, 96, 136, a="t", c="t", clear=False, tile=(128, 96, 64)),
]
TYPES = [
    PairGemm(256, 128, 128, dtype=dtype, trans_b=trans_b, tile=(128, 64, 64))
    for dtype in ("float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8")
    for trans_b in (True, False)
] + [
    PairGemm(128, 128, 128, dtype=dtype, tile=(64, 64, 64))
    for dtype in ("float16", "float32", "float8_e4m3fn", "int8")
]


def check(case: PairGemm) -> None:
    kernel = tilelang.compile(case.build(), target="sm_100a")
    assert "tcgen05.mma.cta_group::2" in kernel.get_ptx()
    assert "cta_group::1" not in kernel.get_ptx()
    a_shape, b_shape, c_shape = case.shapes
    if case.dtype == "uint8":
        a, b = (torch.randint(0, 5, shape).to(torch.uint8) for shape in (a_shape, b_shape))
    else:
        a, b = values(a_shape, case.dtype), values(b_shape, case.dtype)
    c = torch.full(c_shape, 77, dtype=getattr(torch, case.c_type))
    read = torch.zeros((case.m, case.k) if case.read else (1, 1)).to(a.dtype)
    kernel(a, b, c, read)
    left = a.double().T if case.trans_a else a.double()
    right = b.double().T if case.trans_b else b.double()
    assert torch.equal(c.double(), left @ right)
    if case.read:
        assert torch.equal(read, a)


@every_schedule
@pytest.mark.parametrize("case", SHAPES + FEW_ROWS + A_MEMORIES + TYPES, ids=str)
def test_gemm(case):
    check(case)


@every_schedule
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "case",
    [
        PairGemm(m=300, n=200, k=416),
        PairGemm(m=256, n=64, k=64, tile=(128, 64, 64)),
        PairGemm(m=512, n=128, k=200, tile=(256, 128, 32), threads=256),
        PairGemm(m=600, n=136, k=200, size=4),
        PairGemm(m=256, n=128, k=320, trans_b=False, c="t", clear=False),
        PairGemm(m=256, n=128, k=320, a="f"),
        PairGemm(m=256, n=128, k=320, a="t"),
        PairGemm(m=256, n=128, k=320, a="w"),
        PairGemm(m=256, n=128, k=320, read=True),
        PairGemm(m=200, n=136, k=300, tile=(64, 128, 64)),
        PairGemm(m=128, n=96, k=320, tile=(64, 96, 64), c="t", clear=False, read=True),
    ],
    ids=str,
)
def test_pipeline(case, stages):
    """Slots of both blocks are filled before the leader's gemm, and given back in both after it."""
    check(replace(case, stages=stages))


@every_schedule
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("K", [40, 64, 128, 416])
@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_persistent(pairs, K, threads):
    """Pairs with one tile more than others, loops shorter than the pipeline."""
    M, N = 2 * 256 + 70, 136
    tile = (threads, 128, 64)
    kernel = tilelang.compile(
        persistent(M, N, K, tile, pairs=pairs, threads=threads), target="sm_100a"
    )
    assert ("c_tmem_full" in kernel.get_kernel_source()) == (K > 64)
    check_gemm(kernel, M, N, K)


@every_schedule
@pytest.mark.parametrize("stages", [0, 2])
def test_tiles_for_several_blocks(stages):
    kernel = tilelang.compile(shared_rows(200, stages), target="sm_100a")
    assert ".multicast::cluster" in kernel.get_ptx()
    reason = "it is for several blocks, and pairs of blocks compute the gemms"
    assert any(reason in str(remark) for remark in kernel.remarks) == (stages > 1)
    check_gemm(kernel, 256, 128, 200)


@every_schedule
@pytest.mark.parametrize("stages", [0, 1, 2, 3])
@pytest.mark.parametrize("L", [128, 200, 512])
def test_chained(L, stages):
    M, D = 300, 64
    kernel = tilelang.compile(chained(M, L, D, stages=stages), target="sm_100a")
    q, k, v = (torch.randint(-2, 3, (n, D)).bfloat16() for n in (M, L, L))
    o = poisoned(M, D)
    kernel(q, k, v, o)
    # Scores are integers of up to 64 * 4, exact in bfloat16.
    scores = (q.double() @ k.double().T).clamp(min=0)
    assert torch.equal(o.double(), scores @ v.double())


def test_half_of_the_bytes_of_b_enter_a_block():
    """The loads of each block complete on the barrier of the leader."""
    kernel = tilelang.compile(PairGemm(256, 128, 256, stages=3).build(), target="sm_100a")
    source, ptx = kernel.get_kernel_source(), kernel.get_ptx()
    assert "tl::mbarrier_arrive_expect_tx_pair(a_full[a_slot], 24576u)" in source
    assert ".mbarrier::complete_tx::bytes.cta_group::2" in ptx


def test_arrivals_order_memory_of_the_cluster_where_threads_write_operands():
    """In shared memory ("w"), or in slots of tensor memory ("t"); TMA loads "s"."""
    published = "mbarrier.arrive.release.cluster"
    for a in ("s", "t", "w"):
        kernel = tilelang.compile(PairGemm(256, 128, 256, a=a, stages=2).build(), target="sm_100a")
        assert (published in kernel.get_ptx()) == (a != "s")
        assert ("try_wait.parity.acquire.cluster" in kernel.get_ptx()) == (a != "s")


def test_exact_values_reach_the_reference():
    """The reference of this file tells halves of B apart."""
    a, b = exact(4, 8), exact(6, 8)
    assert not torch.equal(a.double() @ b.double().T, a.double() @ b.roll(3, 0).double().T)
