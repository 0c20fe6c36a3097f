"""Block-scaled gemms in TileLang's names: factors that the program brings to tensor memory."""

from __future__ import annotations

import pytest
import torch
from conformance.running import poison, run
from conformance.test_block_scaled import MIXED, words
from conformance.test_block_scaled_fp4 import value_of

import tilelang.language as T


def by_hand(m, n, k, block_n, granularity, stages=2):
    """A role loads, one transposes words of factors, and one brings them and multiplies."""
    period, groups, steps = granularity // 32, -(-k // (4 * granularity)), -(-k // 128)
    granularities = {f"sf_{side}_granularity_k": granularity for side in "ab"}

    @T.prim_func
    def main(
        A: T.Tensor((m, k), MIXED[0]),
        B: T.Tensor((n, k), MIXED[1]),
        SFA: T.Tensor((groups, m), T.uint32),
        SFB: T.Tensor((groups, n), T.uint32),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, 128), threads=128) as (bx, by):
            a = T.alloc_shared((stages, 128, 128), MIXED[0])
            b = T.alloc_shared((stages, block_n, 128), MIXED[1])
            sfa, sfb = (T.alloc_shared((stages, w), T.uint32) for w in (128, block_n))
            c = T.alloc_tmem((128, block_n), T.float32)
            sfa_tmem = T.alloc_tmem((128, 4), T.uint32)
            sfb_tmem = T.alloc_tmem((128, block_n // 32), T.uint32)
            loaded, turned = (T.alloc_barrier([32] * stages) for _ in range(2))
            consumed = T.alloc_barrier([1] * stages)
            done = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if tx < 32:
                for i in T.serial(steps):
                    s, phase = i % stages, i // stages % 2
                    T.mbarrier_wait_parity(consumed[s], phase ^ 1)
                    T.tma_copy(A[by * 128, i * 128], a[s, :, :], barrier=loaded[s])
                    T.tma_copy(B[bx * block_n, i * 128], b[s, :, :], barrier=loaded[s])
                    if i % period == 0:
                        T.tma_copy(SFA[i // period, by * 128], sfa[s, :], barrier=loaded[s])
                        T.tma_copy(SFB[i // period, bx * block_n], sfb[s, :], barrier=loaded[s])
                    T.mbarrier_arrive(loaded[s])
            elif tx < 64:
                for i in T.serial(steps):
                    s, phase = i % stages, i // stages % 2
                    T.mbarrier_wait_parity(loaded[s], phase)
                    T.mbarrier_wait_parity(turned[s], phase)
                    if i % period == 0:
                        T.tcgen05_cp_warpx4(sfa[s, :], sfa_tmem)
                        T.tcgen05_cp_warpx4(sfb[s, :], sfb_tmem)
                    T.tcgen05_gemm_blockscaled(
                        a[s, :, :], b[s, :, :], c, sfa_tmem, sfb_tmem, transpose_B=True,
                        clear_accum=i == 0, mbar=consumed[s], k_start=i * 128, **granularities,
                    )  # fmt: skip
                T.tcgen05_mma_arrive(done)
            elif tx < 96:
                for i in T.serial(steps):
                    s = i % stages
                    T.mbarrier_wait_parity(loaded[s], i // stages % 2)
                    if i % period == 0:
                        T.tcgen05_sf_warp_transpose(sfa[s, :])
                        T.tcgen05_sf_warp_transpose(sfb[s, :])
                        T.fence_proxy_async()
                    T.mbarrier_arrive(turned[s])
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C[by * 128, bx * block_n])

    return main


def scaled(values, codes, granularity):
    factors = torch.exp2(codes.double() - 127).repeat_interleave(granularity, 1)
    return values.double() * factors[:, : values.shape[1]]


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("shape", "block_n", "granularity"),
    [((132, 260, 640), 256, 128), ((128, 128, 288), 128, 32)],
)
def test_words_by_hand(shape: tuple[int, int, int], block_n: int, granularity: int) -> None:
    m, n, k = shape
    a, b = (torch.randn(r, k).to(getattr(torch, t)) for r, t in zip((m, n), MIXED, strict=True))
    sa, sb = (torch.randint(120, 134, (r, -(-k // granularity))).byte() for r in (m, n))
    c = poison(m, n)
    run(by_hand(m, n, k, block_n, granularity), "sm_100a", a, b, words(sa), words(sb), c)
    wide = [scaled(x, s, granularity) for x, s in ((a, sa), (b, sb))]
    size = wide[0].abs() @ wide[1].abs().T
    assert bool(((c.double() - wide[0] @ wide[1].T).abs() <= 1e-5 * size).all())


def gemm_of_words(m, n, k, granularity, by_rows):
    """T.mma_gemm_blockscaled of words (rows, words), in one tile of K."""
    count = -(-k // (4 * granularity))
    packed = granularity == 16
    kinds = (T.float4_e2m1fn,) * 2 if packed else MIXED

    @T.prim_func
    def main(
        A: T.Tensor((m, k), kinds[0]),
        B: T.Tensor((n, k), kinds[1]),
        SFA: T.Tensor((m, count), T.uint32),
        SFB: T.Tensor((n, count), T.uint32),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, k), kinds[0], packed=packed)
            b = T.alloc_shared((n, k), kinds[1], packed=packed)
            sfa = T.alloc_shared((m, count), T.uint32)
            sfb = T.alloc_shared((n, count), T.uint32)
            c = T.alloc_fragment((m, n), T.float32)
            T.clear(c)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(SFA, sfa)
            T.copy(SFB, sfb)
            T.mma_gemm_blockscaled(
                a, b, c, sfa, sfb, transpose_B=True, k_start=0, sf_a_granularity_k=granularity,
                sf_b_granularity_k=granularity,
                sf_layout="rowmajor" if by_rows else "blockscaled_chunk_kmajor",
            )  # fmt: skip
            T.copy(c, C)

    return main


def in_words(codes: torch.Tensor, by_rows: bool) -> torch.Tensor:
    """Factors (rows, blocks) as words (rows, blocks / 4); or rows l, l + 32, .. side by side."""
    rows = words(codes).T.contiguous()
    if by_rows:
        return rows
    chunks = rows.view(torch.int32).view(4, 32, -1).permute(2, 1, 0)
    return chunks.contiguous().view(rows.shape).view(torch.uint32)


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a", "sm_90a"])
@pytest.mark.parametrize(("granularity", "by_rows"), [(16, True), (16, False), (64, True)])
def test_words_in_shared_memory(target: str, granularity: int, by_rows: bool) -> None:
    m, n, k = 128, 128 if not by_rows else 72, 128
    if granularity == 16:
        a, b = (torch.randint(0, 256, (r, k // 2)).byte() for r in (m, n))
        factors = [(torch.rand(r, k // 16) * 8).to(torch.float8_e4m3fn) for r in (m, n)]
        codes = [x.view(torch.uint8) for x in factors]
        wide = [
            value_of(x) * s.double().repeat_interleave(16, 1)
            for x, s in zip((a, b), factors, strict=True)
        ]
    else:
        a, b = (torch.randn(r, k).to(getattr(torch, t)) for r, t in zip((m, n), MIXED, strict=True))
        codes = [torch.randint(120, 134, (r, k // granularity)).byte() for r in (m, n)]
        wide = [scaled(x, s, granularity) for x, s in zip((a, b), codes, strict=True)]
    c = poison(m, n)
    given = [in_words(x, by_rows) for x in codes]
    run(gemm_of_words(m, n, k, granularity, by_rows), target, a, b, *given, c)
    size = wide[0].abs() @ wide[1].abs().T
    bound = 1e-5 if target != "sm_90a" else 1e-2  # products in bfloat16
    assert bool(((c.double() - wide[0] @ wide[1].T).abs() <= bound * size).all())
