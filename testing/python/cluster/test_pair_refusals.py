"""What programs with gemms of pairs of blocks, or tiles for several, are refused for."""

from __future__ import annotations

import torch
from cluster.kernels import gemm
from wrong_kernels import cases, check

import tilelang
import tilelang.language as T


def pair_kernel(
    body, size=2, grid=4, target="sm_100a", n=64, m=128, k=64, dtype="float16", **options
):
    """A kernel that calls ``body(A, B, a, b, c, bx)`` with two tensors and three tiles."""
    cluster = {} if size is None else {"cluster_dims": size}

    @T.prim_func
    def main(A: T.Tensor((grid, m, k), dtype), B: T.Tensor((grid, n // 2, k), dtype), s: T.int32):
        with T.Kernel(grid, threads=128, **cluster) as bx:
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((n // 2, k), dtype)
            c = T.alloc_fragment((m, n), "float64" if dtype == "float64" else "float32")
            T.clear(c)
            T.copy(A[bx, :, :], a)
            T.copy(B[bx, :, :], b)
            body(a, b, c, bx, s)

    return tilelang.compile(main, target=target, **options)


def multiply(a, b, c, *_):
    T.gemm(a, b, c, transpose_B=True, use_2cta=True)


def case_without_clusters():
    """SemanticsError: T.gemm with use_2cta=True is computed by two neighbouring blocks of a
    cluster, but the kernel has no clusters: T.Kernel(..., cluster_dims=2)
    """
    pair_kernel(multiply, size=None)


def case_odd_clusters():
    """SemanticsError: two neighbouring blocks of a cluster, but clusters have 3 blocks"""
    pair_kernel(multiply, size=3, grid=6)


def case_hopper():
    """TargetError: T.gemm with use_2cta=True: sm_90a has no tensor cores that work for pairs of
    blocks; leave out use_2cta, or compile with target="sm_100a"
    """
    pair_kernel(multiply, target="sm_90a")


def case_float64():
    """LayoutError: T.gemm with use_2cta=True: pairs of blocks need tcgen05.mma, which does not fit
    this gemm: tcgen05.mma has no float64; leave use_2cta out
    """
    pair_kernel(multiply, dtype="float64")


def case_some_gemms():
    """SemanticsError: T.gemm has no use_2cta=True, but another gemm of the kernel has it"""

    def body(a, b, c, *_):
        multiply(a, b, c)
        T.gemm(a, a, T.alloc_fragment((128, 128), "float32"), transpose_B=True)

    pair_kernel(body)


def case_whole_b():
    """ShapeError: T.gemm: B has N = 128, which is 256 for both blocks of a pair, but C has 128
    columns
    """
    pair_kernel(
        lambda a, b, c, *_: T.gemm(
            a, a, T.alloc_fragment((128, 128), "float32"), transpose_B=True, use_2cta=True
        )
    )


def case_rows():
    """LayoutError: M of each block of a pair must be 64 or a multiple of 128"""
    pair_kernel(multiply, m=192)


def case_columns():
    """LayoutError: N of a pair of blocks must be a multiple of 16 up to 256"""
    pair_kernel(multiply, n=24)


def case_too_many_columns():
    """LayoutError: N of a pair of blocks must be a multiple of 16 up to 256"""
    pair_kernel(multiply, n=320)


def case_groups():
    """SemanticsError: T.gemm with use_2cta=True waits for its result: leave out wg_wait="""
    pair_kernel(lambda a, b, c, *_: T.gemm(a, b, c, transpose_B=True, use_2cta=True, wg_wait=1))


def by_hand(a, b, **given):
    """Issues a gemm into tensor memory."""
    wide = T.alloc_tmem((128, 64), "float32")
    T.tcgen05_gemm(
        a, b, wide, transpose_B=True, clear_accum=True,
        **{"mbar": T.alloc_barrier(1), "use_2cta": True, **given},
    )  # fmt: skip


@T.macro
def on_the_other_side(a, b, c, bx, s):
    if T.block_rank_in_cluster() == 0:
        T.sync_threads()
    else:
        by_hand(a, b)


def case_issued_by_the_odd_block():
    """SemanticsError: T.tcgen05_gemm with use_2cta=True is issued by the even block ... block 1"""
    pair_kernel(on_the_other_side)


@T.macro
def by_the_second(a, b, c, bx, s):
    if T.block_rank_in_cluster() == 1:
        by_hand(a, b)


def case_issued_by_one_odd_block_of_several():
    """SemanticsError: but block 1 of the cluster may reach it, too: put it under
    `if T.block_rank_in_cluster() % 2 == 0`
    """
    pair_kernel(by_the_second, size=4)


@T.macro
def one_without(a, b, c, bx, s):
    if T.block_rank_in_cluster() == 0:
        by_hand(a, b)
        by_hand(a, a[0:64, :], use_2cta=False)


@T.macro
def of_a_fragment(a, b, c, bx, s):
    f = T.alloc_fragment((128, 64), "float16")
    T.copy(a, f)
    if T.block_rank_in_cluster() == 0:
        by_hand(f, b)


def case_issued_gemms_of_fragments():
    """ScopeError: T.tcgen05_gemm with use_2cta=True: A is f (float16[128, 64] in a fragment).
    Only the even block issues the gemm, so it does not find an operand there that the odd block
    holds: T.copy it to shared memory before
    """
    pair_kernel(of_a_fragment)


@T.macro
def into_a_fragment(a, b, c, bx, s):
    done = T.alloc_barrier(1)
    if T.block_rank_in_cluster() == 0:
        T.gemm(a, b, c, transpose_B=True, mbar=done, use_2cta=True)


def case_issued_gemms_into_fragments():
    """ScopeError: T.gemm with use_2cta=True: C is c (float32[128, 64] in a fragment). Only
    the even block issues the gemm, so it does not find an operand there that the odd block holds:
    accumulate into T.alloc_tmem and T.copy from it later
    """
    pair_kernel(into_a_fragment)


def case_issued_gemms_with_factors_in_rows():
    """ShapeError: scale_A of T.gemm with mbar= and use_2cta=True is in rows, which each block would
    have to put into atoms, but the even one alone issues the gemm
    """
    kind = "float8_e4m3fn"

    @T.prim_func
    def main(A: T.Tensor((256, 128), kind)):
        with T.Kernel(2, threads=128, cluster_dims=2) as bx:
            a, b = T.alloc_shared((128, 128), kind), T.alloc_shared((64, 128), kind)
            factors = T.alloc_shared((128, 4), "float8_e8m0fnu")
            c, done = T.alloc_tmem((128, 128), "float32"), T.alloc_barrier(1)
            T.copy(A[bx * 128, 0], a)
            T.copy(A[bx * 64, 0], b)
            T.fill(factors, 1)
            if T.block_rank_in_cluster() == 0:
                T.gemm(
                    a, b, c, transpose_B=True, clear_accum=True, scale_A=factors, scale_B=factors,
                    mbar=done, use_2cta=True,
                )  # fmt: skip

    tilelang.compile(main, target="sm_100a")


def case_some_issued_gemms():
    """SemanticsError: T.tcgen05_gemm has no use_2cta=True, but another gemm of the kernel has it"""
    pair_kernel(one_without)


@T.macro
def arrives_in_both(a, b, c, bx, s):
    done = T.alloc_barrier(1)
    if T.block_rank_in_cluster() == 0:
        by_hand(a, b, mbar=None)
    T.tcgen05_mma_arrive(done, arrive_2cta=True)


def case_arrivals_by_both():
    """SemanticsError: T.tcgen05_mma_arrive in a kernel of pairs is issued by the even block of a
    pair for both
    """
    pair_kernel(arrives_in_both)


@T.macro
def arrives_without_pairs(a, b, c, bx, s):
    done = T.alloc_barrier(1)
    by_hand(a, a[0:64, :], mbar=None, use_2cta=False)
    T.tcgen05_mma_arrive(done, arrive_2cta=True)


def case_arrivals_without_pairs():
    """SemanticsError: T.tcgen05_mma_arrive with arrive_2cta=True in a kernel whose gemms are
    computed by single blocks
    """
    pair_kernel(arrives_without_pairs)


def case_arrivals_of_a_value():
    """SemanticsError: T.tcgen05_mma_arrive: arrive_2cta is `s`; it must be True or False"""
    pair_kernel(lambda a, b, c, bx, s: T.tcgen05_mma_arrive(T.alloc_barrier(1), arrive_2cta=s))


def case_arrival_of_two():
    """SemanticsError: T.tcgen05_mma_arrive: arrive_2cta is `2`; it must be True or False"""
    pair_kernel(lambda a, b, c, bx, s: T.tcgen05_mma_arrive(T.alloc_barrier(1), arrive_2cta=2))


@T.macro
def factors_of_one(a, b, c, bx, s):
    words, tmem = T.alloc_shared((128,), T.uint32), T.alloc_tmem((128, 4), T.uint32)
    T.clear(words)
    if T.block_rank_in_cluster() == 0:
        T.tcgen05_cp_warpx4(words, tmem)
        by_hand(a, b)


def case_factors_of_one_block():
    """SemanticsError: T.tcgen05_cp_warpx4 without use_2cta=True in a kernel whose gemms have it"""
    pair_kernel(factors_of_one)


def multicast(alloc):
    """Both blocks get a tile by hand."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((256, 64))):
        with T.Kernel(2, threads=128, cluster_dims=2) as bx:
            a = T.alloc_shared((128, 64), "float16")
            c = T.alloc_tmem((128, 64), "float32")
            loaded, done = alloc(128), T.alloc_barrier(1)
            T.tma_copy(A, a, barrier=loaded, cluster_mask=3)
            T.mbarrier_arrive(loaded)
            T.mbarrier_wait_parity(loaded, 0)
            T.cluster_sync()
            if T.block_rank_in_cluster() == 0:
                T.tcgen05_gemm(
                    a, a[0:32, :], c, transpose_B=True, clear_accum=True, mbar=done, use_2cta=True
                )
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C[bx * 128, 0])

    return tilelang.compile(main, target="sm_100a")


def case_tile_for_both_on_a_barrier_of_the_cluster():
    """SemanticsError: T.tma_copy with cluster_mask= completes on the barrier of each block, but in
    a kernel of pairs loaded (uint64[1] in shared memory) is that of the even block: allocate it by
    T.alloc_barrier
    """
    multicast(T.alloc_cluster_barrier)


def case_rows_gathered_on_a_barrier_of_the_cluster():
    """SemanticsError: T.tma_gather4 completes on the barrier of each block"""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(2, threads=128, cluster_dims=2):
            rows = T.alloc_shared((4, 64), "float16")
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((32, 64), "float16")
            T.tma_gather4(A, rows, 0, [1, 2, 3, 4], barrier=T.alloc_cluster_barrier(1))
            if T.block_rank_in_cluster() == 0:
                by_hand(a, b)

    tilelang.compile(main, target="sm_100a")


@T.macro
def tiles_of_the_rank(a, b, c, bx, s):
    rank = T.block_rank_in_cluster()
    tiles = T.alloc_shared((2, 128, 64), "float16")
    T.copy(a, tiles[rank, :, :])
    T.gemm(tiles[rank, :, :], b, c, transpose_B=True, use_2cta=True)


def case_a_begins_elsewhere():
    """SemanticsError: where A begins in tiles, `rank`, may differ between the blocks of a pair, but
    the even block issues for both: use a value that is the same in both
    """
    pair_kernel(tiles_of_the_rank)


@T.macro
def halves_of_k(a, b, c, bx, s):
    first = bx % 2 * 32
    T.gemm(a[:, 0:32], b[:, first : first + 32], c, transpose_B=True, use_2cta=True)


def case_b_begins_elsewhere():
    """SemanticsError: where B begins in b, `first`, may differ between the blocks of a pair"""
    pair_kernel(halves_of_k)


@T.macro
def columns_of_the_rank(a, b, c, bx, s):
    wide = T.alloc_tmem((128, 128), "float32")
    first = T.block_rank_in_cluster() * 64
    T.gemm(a, b, wide[:, first : first + 64], transpose_B=True, clear_accum=True, use_2cta=True)


def case_c_begins_elsewhere():
    """SemanticsError: where C begins in wide, `first`, may differ between the blocks of a pair"""
    pair_kernel(columns_of_the_rank)


@T.macro
def numbers_of_the_block(a, b, c, bx, s):
    tiles = T.alloc_shared((2, 128, 64), "float16")
    for i in T.serial(bx, bx + 2):
        T.copy(a, tiles[i % 2, :, :])
        T.gemm(tiles[i % 2, :, :], b, c, transpose_B=True, use_2cta=True)


def case_iterations_of_other_numbers():
    """SemanticsError: where A begins in tiles, `i % 2`, may differ between the blocks of a pair"""
    pair_kernel(numbers_of_the_block)


@T.macro
def some_iterations(a, b, c, bx, s):
    for i in T.serial(bx, bx + 2):
        if i < 2:
            multiply(a, b, c)


def case_conditions_on_other_numbers():
    """SemanticsError: by both blocks of a pair, but `i < 2` may differ between them"""
    pair_kernel(some_iterations)


def case_cleared_by_one_block():
    """SemanticsError: clear_accum, `bx % 2 == 0`, may differ between the blocks of a pair"""
    pair_kernel(
        lambda a, b, c, bx, s: T.gemm(
            a, b, c, transpose_B=True, clear_accum=bx % 2 == 0, use_2cta=True
        )
    )


@T.macro
def of_one_block(a, b, c, bx, s):
    if T.block_rank_in_cluster() == 0:
        multiply(a, b, c)


def case_condition_on_the_rank():
    """SemanticsError: T.gemm with use_2cta=True is computed by both blocks of a pair, but
    `block_rank_in_cluster() == 0` may differ between them
    """
    pair_kernel(of_one_block)


@T.macro
def of_first_block(a, b, c, bx, s):
    if bx < 3:
        multiply(a, b, c)


def case_condition_on_the_block():
    """SemanticsError: by both blocks of a pair, but `bx < 3` may differ between them"""
    pair_kernel(of_first_block)


@T.macro
def unequal_loops(a, b, c, bx, s):
    for _i in T.serial(bx + s):
        multiply(a, b, c)


def case_loops_that_run_unequally_often():
    """SemanticsError: but how often the loop over `_i` runs, `bx + s` times, may differ between
    them: move it to a place that all of them reach equally often
    """
    pair_kernel(unequal_loops)


@T.macro
def left_loops(a, b, c, bx, s):
    for i in T.serial(s):
        multiply(a, b, c)
        if i > bx:
            break


def case_loops_that_are_left():
    """SemanticsError: by both blocks of a pair, but `i > bx` may differ between them"""
    pair_kernel(left_loops)


@T.macro
def after_a_return(a, b, c, bx, s):
    if bx == 3:
        T.thread_return()
    multiply(a, b, c)


def case_blocks_that_have_gone():
    """SemanticsError: by both blocks of a pair, but `not (bx == 3)` may differ between"""
    pair_kernel(after_a_return)


@T.macro
def counted_loops(a, b, c, bx, s):
    i = T.alloc_var("int32")
    i = bx
    while i < s:
        multiply(a, b, c)
        i = i + 1


def case_variables_that_differ():
    """SemanticsError: by both blocks of a pair, but `i[0] < s` may differ between them"""
    pair_kernel(counted_loops)


@T.macro
def flagged(a, b, c, bx, s):
    skip = T.alloc_var("int32")
    skip = 0
    if bx % 2 == 1:
        skip = s
    if skip == 0:
        multiply(a, b, c)


def case_variables_that_are_assigned_in_one_block():
    """SemanticsError: by both blocks of a pair, but `skip[0] == 0` may differ between"""
    pair_kernel(flagged)


def case_tile_for_blocks_that_do_not_all_ask():
    """SemanticsError: T.copy_cluster with cluster_mask= waits for all blocks of its mask, but
    `bx < 3` may differ between them
    """

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(4, threads=128, cluster_dims=2) as bx:
            a = T.alloc_shared((64, 64), "float16")
            if bx < 3:
                T.copy_cluster(A, a, cluster_mask=3)

    tilelang.compile(main, target="sm_90a")


@cases(globals())
def test_refused(case):
    check(case)


@T.macro
def equal_loops(a, b, c, bx, s):
    tiles = T.alloc_shared((2, 128, 64), "float16")
    for i in T.serial(bx // 2, bx // 2 + s):
        T.copy(a, tiles[i % 2, :, :])
        T.gemm(tiles[i % 2, :, :], b, c, transpose_B=True, clear_accum=i == bx // 2, use_2cta=True)
    for i in T.serial(bx // 2 + s):
        if i < (bx - T.block_rank_in_cluster()) * s:
            multiply(a, b, c)
            if i * 2 > bx - bx % 2:
                break


@T.macro
def equal_variables(a, b, c, bx, s):
    i = T.alloc_var("int32")
    other = T.alloc_var("int32")
    i = bx // 2
    other = bx
    while i < s:
        if i != 3 and bx // 2 != 3:
            multiply(a, b, c)
        if i > 5:
            break
        i = i + 1
        other = other + i


def test_tiles_for_both_blocks_of_a_pair():
    a, c = torch.randint(-3, 4, (128, 64)).half(), torch.full((256, 64), torch.nan)
    multicast(T.alloc_barrier)(a, c)
    rows = torch.cat([a, a]).double()
    assert torch.equal(c.double(), rows @ torch.cat([a[:32], a[:32]]).double().T)


def test_what_is_the_same_in_a_pair_is_not_refused():
    pair_kernel(equal_loops)
    pair_kernel(equal_variables)
    tilelang.compile(gemm(128, 128, 128), target="sm_90a")
