"""Block-scaled gemms by hand whose operands do not go together."""

from typing import Any

from wrong_kernels import cases, check

import tilelang
import tilelang.language as T


def by_hand(words=(128,), kind=T.uint32, columns=(128, 4), m=128, n=128, k=128, granularity=32,
            target="sm_100a", offset=0, pairs=False, **given: Any):  # fmt: skip
    """Compiles a gemm with factors in tensor memory."""

    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, k), T.float8_e4m3fn)
            b = T.alloc_shared((n // 2 if given.get("use_2cta") else n, k), T.float8_e4m3fn)
            c = T.alloc_tmem((m, n), T.float32)
            sf = T.alloc_shared(words, kind)
            tmem = T.alloc_tmem(columns, T.uint32)
            done = T.alloc_barrier(1)
            T.clear(a)
            T.clear(b)
            T.clear(sf)
            T.tcgen05_cp_warpx4(sf, tmem, offset, use_2cta=pairs)
            T.tcgen05_gemm_blockscaled(
                a, b, c, tmem, tmem, transpose_B=True, mbar=done,
                **{"k_start": 0, "sf_a_granularity_k": granularity,
                   "sf_b_granularity_k": granularity, **given},
            )  # fmt: skip
            T.mbarrier_wait_parity(done, 0)

    tilelang.compile(main, target=target)


def case_bytes():
    """DTypeError: smem_src of T.tcgen05_cp_warpx4 must be words of uint32"""
    by_hand(words=(512,), kind=T.uint8)


def case_some_words():
    """ShapeError: must be a multiple of 128 consecutive words, but `sf` has shape (96)"""
    by_hand(words=(96,))


def case_too_few_columns():
    """ShapeError: T.tcgen05_cp_warpx4: 256 words take 8 columns from 0 on, but `tmem` has 4"""
    by_hand(words=(2, 128))


def case_rows_of_factors():
    """ShapeError: tmem_dst of T.tcgen05_cp_warpx4 must have 128 rows, one for each lane, got 64"""
    by_hand(columns=(64, 4))


def case_pairs():
    """SemanticsError: T.tcgen05_cp_warpx4 with use_2cta=True in a kernel whose gemms do not
    have it
    """
    by_hand(pairs=True)


def case_pairs_without_a_cluster():
    """SemanticsError: T.tcgen05_gemm_blockscaled with use_2cta=True is computed by two
    neighbouring blocks of a cluster, but the kernel has no clusters
    """
    by_hand(pairs=True, use_2cta=True)


def case_columns_of_b():
    """ShapeError: SFB of T.tcgen05_gemm_blockscaled has 4 columns; 256 rows take 8"""
    by_hand(n=256)


def case_granularity():
    """SemanticsError: T.tcgen05_gemm_blockscaled: sf_a_granularity_k must be a multiple of 32, got
    `48`
    """
    by_hand(granularity=48)


def case_depth():
    """ShapeError: T.tcgen05_gemm_blockscaled: K = 256 does not divide the 128 elements that a word
    of SFA is for
    """
    by_hand(k=256)


def case_start():
    """SemanticsError: T.tcgen05_gemm_blockscaled: k_start must be a multiple of 32, got `16`"""
    by_hand(k_start=16)


def case_hopper():
    """TargetError: T.tcgen05_gemm_blockscaled: sm_90a has no tcgen05; compile with
    target="sm_100a", or write T.gemm(..., scale_A=, scale_B=)
    """
    by_hand(target="sm_90a")


def words_of(k=128, **given: Any):
    """Compiles a gemm with factors in words of shared memory."""

    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, k), T.float8_e4m3fn)
            sf = T.alloc_shared((128, 1), T.uint32)
            c = T.alloc_fragment((128, 128), T.float32)
            T.clear(c)
            T.mma_gemm_blockscaled(
                a, a, c, sf, sf, transpose_B=True,
                **{"k_start": 0, "sf_a_granularity_k": 32, "sf_b_granularity_k": 32, **given},
            )  # fmt: skip

    tilelang.compile(main, target="sm_100a")


def case_layout_of_words():
    """SemanticsError: T.mma_gemm_blockscaled: sf_layout is 'mn'; it is one of 'rowmajor'"""
    words_of(sf_layout="mn")


def case_type_of_words():
    """UnsupportedError: T.mma_gemm_blockscaled: factors for 32 elements of A and 32 of B of type
    ue4m3; there are ue4m3 for 16 and ue8m0 for 32
    """
    words_of(scale_dtype="ue4m3")


def case_blocks_of_16_float8():
    """DTypeError: T.mma_gemm_blockscaled: 16 elements of float8 share a factor; 32 do"""
    words_of(sf_a_granularity_k=16, sf_b_granularity_k=16)


def case_words_of_a_row():
    """ShapeError: SFA of T.mma_gemm_blockscaled has shape (128, 1); 128 rows of K = 256 with a
    factor for 32 elements are (128, 2) words
    """
    words_of(k=256)


@cases(globals())
def test_message(case) -> None:
    check(case)
