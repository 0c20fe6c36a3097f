"""What programs with clusters are refused for, by message and line."""

from __future__ import annotations

import pytest
import torch
from cluster.kernels import poisoned
from wrong_kernels import cases, check

import tilelang
import tilelang.language as T
from tilelang import errors


def compiled(body, size=2, grid=4, target="sm_90a", configs=None, types=("float16", "float16")):
    """A kernel that calls ``body(A, Out, a, b, bar)`` with two tensors, two tiles and a barrier."""
    cluster = {} if size is None else {"cluster_dims": size}

    @T.prim_func
    def main(A: T.Tensor((grid, 64, 64), "float16"), Out: T.Tensor((grid, 64, 64), "float16")):
        with T.Kernel(grid, threads=128, **cluster) as bx:
            a = T.alloc_shared((64, 64), types[0])
            b = T.alloc_shared((64, 64), types[1])
            bar = T.alloc_cluster_barrier(1)
            T.copy(A[bx, :, :], a)
            body(A[bx, :, :], Out[bx, :, :], a, b, bar)

    return tilelang.compile(main, target=target, pass_configs=configs)


def case_mask_outside_of_the_cluster():
    """SemanticsError: T.copy_cluster with cluster_mask=: cluster_mask 7 names block 2, which a
    cluster of 2 does not have; its ranks are 0 to 1
    """
    compiled(lambda A, out, a, b, bar: T.copy_cluster(A, a, cluster_mask=0b111))


def case_mask_of_tma_copy_outside_of_the_cluster():
    """SemanticsError: T.tma_copy: cluster_mask 4 names block 2"""
    compiled(lambda A, out, a, b, bar: T.tma_copy(A, a, barrier=bar, cluster_mask=4))


def case_mask_that_is_none():
    """SemanticsError: T.copy_cluster: cluster_mask is `0`; it is a constant with a bit for each"""
    compiled(lambda A, out, a, b, bar: T.copy_cluster(A, a, cluster_mask=0))


def case_mask_without_a_cluster():
    """SemanticsError: accesses other blocks, but the kernel has no clusters; launch it with
    T.Kernel(..., cluster_dims=2)
    """
    compiled(lambda A, out, a, b, bar: T.copy_cluster(A, a, cluster_mask=1), size=None)


def case_rank_outside_of_the_cluster():
    """SemanticsError: dst_block of T.copy_cluster is 2, which a cluster of 2 blocks does not"""
    compiled(lambda A, out, a, b, bar: T.copy_cluster(a, b, dst_block=2))


def case_arrival_outside_of_the_cluster():
    """SemanticsError: cta_id of T.mbarrier_arrive is 5, which a cluster of 2 blocks does not"""
    compiled(lambda A, out, a, b, bar: T.mbarrier_arrive(bar, 5))


def case_neither_mask_nor_block():
    """SemanticsError: T.copy_cluster takes either cluster_mask= ... or dst_block="""
    compiled(lambda A, out, a, b, bar: T.copy_cluster(A, a))


def case_mask_with_a_barrier():
    """SemanticsError: T.copy_cluster with cluster_mask waits for the tile itself"""
    compiled(lambda A, out, a, b, bar: T.copy_cluster(A, a, cluster_mask=3, remote_barrier=bar))


def case_tma_copy_without_a_barrier():
    """SemanticsError: T.tma_copy needs barrier=, on which the bytes of the tile complete"""
    compiled(lambda A, out, a, b, bar: T.tma_copy(A, a))


def case_tma_copy_to_a_tensor():
    """LayoutError: T.tma_copy: it copies from a tensor to shared memory"""
    compiled(lambda A, out, a, b, bar: T.tma_copy(a, out, barrier=bar))


def case_tma_copy_that_converts():
    """LayoutError: T.tma_copy: it converts the element type"""
    compiled(lambda A, out, a, b, bar: T.tma_copy(A, b, barrier=bar), types=("float16", "float32"))


def case_tma_copy_where_it_is_ruled_out():
    """LayoutError: T.tma_copy: the pass option tl.disable_tma_lower is set"""
    options = {tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True}
    compiled(lambda A, out, a, b, bar: T.tma_copy(A, a, barrier=bar), configs=options)


def case_no_accelerator():
    """TargetError: T.tma_copy: sm_80 has no TMA"""
    compiled(lambda A, out, a, b, bar: T.tma_copy(A, a, barrier=bar), size=None, target="sm_80")


def case_no_clusters():
    """ResourceError: cluster_dims: sm_80 has no clusters"""
    compiled(lambda A, out, a, b, bar: T.cluster_sync(), target="sm_80")


def case_tensor_to_another_block():
    """ScopeError: T.copy_cluster with dst_block= copies from shared memory or a fragment to shared
    memory, got A
    """
    compiled(lambda A, out, a, b, bar: T.copy_cluster(A, a, dst_block=1))


def case_barrier_of_one_block():
    """SemanticsError: T.cluster_sync waits for all blocks of the cluster, but `rank == 0`"""

    @T.macro
    def body(A, out, a, b, bar):
        rank = T.block_rank_in_cluster()
        if rank == 0:
            T.cluster_sync()

    compiled(body)


def case_clusters_that_do_not_divide_the_grid():
    """ShapeError: clusters of 2 blocks along x do not divide the grid, which has 3 blocks along
    x
    """
    compiled(lambda A, out, a, b, bar: T.cluster_sync(), grid=3)


@cases(globals())
def test_refused(case):
    check(case)


def test_grid_of_the_arguments():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32")):
        with T.Kernel(n, threads=64, cluster_dims=4) as bx:
            A[bx, T.get_thread_binding()] = T.block_rank_in_cluster()

    kernel = tilelang.compile(main, target="sm_90a")
    a = poisoned(8, 64)
    kernel(a)
    assert torch.equal(a, (torch.arange(8) % 4).float()[:, None].expand(8, 64))
    with pytest.raises(errors.ArgumentError, match="clusters of 4 do not divide"):
        kernel(poisoned(6, 64))
