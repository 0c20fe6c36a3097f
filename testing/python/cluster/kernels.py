"""Kernels whose blocks reach each other's shared memory, and what they compute."""

from __future__ import annotations

import torch

import tilelang.language as T


def poisoned(*shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.full(shape, float("nan"), device=device)


def exact(*shape: int) -> torch.Tensor:
    """Small integers, whose sums of products are exact in any order."""
    return torch.randint(-4, 5, shape).half()


def broadcast_kernel(size, mask, steps, m=64, k=64, threads=128):
    """Out[b, s] is the tile that block b got in step s; members of the mask get their leader's.
    The last argument is ``steps``."""

    @T.prim_func
    def main(
        A: T.Tensor((2 * size, steps * m, k), "float16"),
        Out: T.Tensor((2 * size, steps, m, k), "float16"),
        count: T.int32,
    ):
        with T.Kernel(2 * size, threads=threads, cluster_dims=size) as bx:
            a = T.alloc_shared((m, k), "float16")
            for s in T.serial(count):
                T.copy_cluster(A[bx, s * m, 0], a, cluster_mask=mask)
                for i, j in T.Parallel(m, k):
                    Out[bx, s, i, j] = a[i, j] + 1

    return main


def broadcast_result(a, size, mask, steps):
    blocks = []
    leader = (mask & -mask).bit_length() - 1
    for block in range(a.shape[0]):
        rank = block % size
        source = block - rank + leader if mask >> rank & 1 else block
        blocks.append(a[source].reshape(steps, -1, a.shape[2]) + 1)
    return torch.stack(blocks)


def gemm(M, N, K, tile=(64, 64, 64), size=2, mask=None, threads=128, stages=0):
    """Blocks of a cluster are neighbours along N: those of the mask share the tile of A."""
    m, n, k = tile
    shared = (1 << size) - 1 if mask is None else mask

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N))):
        grid = (T.ceildiv(T.ceildiv(N, n), size) * size, T.ceildiv(M, m))
        with T.Kernel(*grid, threads=threads, cluster_dims=(size, 1, 1)) as (bx, by):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy_cluster(A[by * m, i * k], a, cluster_mask=shared)
                T.copy(B[bx * n, i * k], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * m, bx * n])

    return main


def persistent_gemm(M, N, K, tile=(128, 64, 64), size=2, clusters=2, stages=3):
    """The clusters take tile after tile; their blocks, along M, share the tiles of B."""
    m, n, k = tile
    tiles = (T.ceildiv(T.ceildiv(M, m), size), T.ceildiv(N, n))

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N))):
        with T.Kernel(clusters * size, threads=128, cluster_dims=size) as block:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            for y, bx in T.Persistent(tiles, clusters, block // size):
                by = y * size + block % size
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy_cluster(B[bx * n, i * k], b, cluster_mask=(1 << size) - 1)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * m, bx * n])

    return main


def ring_gemm(M, N, K, tile=(64, 64, 64), size=2, stages=3):
    """A pipeline by hand: a producer warp loads A for all blocks and B for its own, and the
    consumers of all blocks release the slots of A to the one that loads it. The last argument is
    the number of steps along K."""
    m, n, k = tile
    mask = (1 << size) - 1

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N)),
        steps: T.int32,
    ):
        with T.Kernel(N // n, M // m, threads=256, cluster_dims=size) as (bx, by):
            a = T.alloc_shared((stages, m, k), "float16")
            b = T.alloc_shared((stages, n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            full = T.alloc_barrier([32] * stages)
            empty = T.alloc_cluster_barrier([128 * size] * stages)
            warp = T.get_warp_idx()
            if warp == 4:
                for i in T.serial(steps):
                    s = i % stages
                    T.mbarrier_wait_parity(empty[s], i // stages % 2 ^ 1)
                    T.tma_copy(A[by * m, i * k], a[s, :, :], barrier=full[s], cluster_mask=mask)
                    T.tma_copy(B[bx * n, i * k], b[s, :, :], barrier=full[s])
                    T.mbarrier_arrive(full[s])
            elif T.get_warp_group_idx() == 0:
                T.clear(c)
                for i in T.serial(steps):
                    s = i % stages
                    T.mbarrier_wait_parity(full[s], i // stages % 2)
                    T.gemm(a[s, :, :], b[s, :, :], c, transpose_B=True)
                    for r in T.serial(size):
                        T.mbarrier_arrive(empty[s], r)
                T.copy(c, C[by * m, bx * n])

    return main


def exchange(size, shift, n, dtype, from_fragment=False, rounds=2):
    """Each block gives its row to the block `shift` ranks after it, `rounds` times."""

    @T.prim_func
    def main(X: T.Tensor((2 * size, n), dtype), Y: T.Tensor((2 * size, n), dtype)):
        with T.Kernel(2 * size, threads=64, cluster_dims=size) as bx:
            mine = T.alloc_shared((n,), dtype)
            theirs = T.alloc_shared((n,), dtype)
            held = T.alloc_fragment((n,), dtype)
            rank = T.block_rank_in_cluster()
            T.copy(X[bx, :], mine)
            for _ in T.serial(rounds):
                if from_fragment:
                    T.copy(mine, held)
                    T.copy_cluster(held, theirs, dst_block=(rank + shift) % size)
                else:
                    T.copy_cluster(mine, theirs, dst_block=(rank + shift) % size)
                T.cluster_sync()
                T.copy(theirs, mine)
                T.cluster_sync()
            T.copy(mine, Y[bx, :])

    return main


def bulk_exchange(size, shift, shape, dtype, clusters=2):
    """The same by asynchronous copies, which arrive on a barrier of the other block."""
    blocks = clusters * size

    @T.prim_func
    def main(X: T.Tensor((blocks, *shape), dtype), Y: T.Tensor((blocks, *shape), dtype)):
        with T.Kernel(blocks, threads=128, cluster_dims=size) as bx:
            mine = T.alloc_shared(shape, dtype)
            theirs = T.alloc_shared(shape, dtype)
            arrived = T.alloc_cluster_barrier(1)
            rank = T.block_rank_in_cluster()
            for i, j in T.Parallel(*shape):
                mine[i, j] = X[bx, i, j]
            T.copy_cluster(mine, theirs, dst_block=(rank + shift) % size, remote_barrier=arrived)
            T.mbarrier_wait_parity(arrived, 0)
            for i, j in T.Parallel(*shape):
                Y[bx, i, j] = theirs[i, j]

    return main


def stored_tiles(size, columns, first, types, annotate=None):
    """Parts of tiles that no bulk copy moves: threads store them, with one arrival for each."""

    @T.prim_func
    def main(X: T.Tensor((size, 32, 64), types[0]), Y: T.Tensor((size, 32, 64), types[1])):
        with T.Kernel(size, threads=96, cluster_dims=size) as bx:
            mine = T.alloc_shared((32, 64), types[0])
            theirs = T.alloc_shared((32, 64), types[1])
            arrived = T.alloc_cluster_barrier(1)
            if annotate is not None:
                T.annotate_layout({theirs: annotate(theirs)})
            T.copy(X[bx, :, :], mine)
            T.fill(theirs, -1)
            T.cluster_sync()
            T.copy_cluster(
                mine[:, first : first + columns],
                theirs[:, 0:columns],
                dst_block=(bx + 1) % size,
                remote_barrier=arrived,
            )
            T.mbarrier_wait_parity(arrived, 0)
            T.copy(theirs, Y[bx, :, :])

    return main


def bulk_rows(size, depth, rows, columns, first, target_rows):
    """Parts of tiles by asynchronous copies, a row each, with one arrival for all of them."""
    shape = (depth, 16, 64)

    @T.prim_func
    def main(
        X: T.Tensor((size, *shape), "float32"),
        Y: T.Tensor((size, depth, target_rows, columns), "float32"),
        k: T.int32,
    ):
        with T.Kernel(size, threads=128, cluster_dims=size) as bx:
            mine = T.alloc_shared(shape, "float32")
            theirs = T.alloc_shared((depth, target_rows, columns), "float32")
            arrived = T.alloc_cluster_barrier(1)
            T.copy(X[bx, :, :, :], mine)
            T.fill(theirs, -1)
            T.cluster_sync()
            T.copy_cluster(
                mine[:, k : k + rows, first : first + columns],
                theirs[:, 0:rows, :],
                dst_block=(bx + 1) % size,
                remote_barrier=arrived,
            )
            T.mbarrier_wait_parity(arrived, 0)
            T.copy(theirs, Y[bx, :, :, :])
            T.cluster_sync()

    return main


def mailboxes(size, rounds, n=128):
    """Threads store to the next block and arrive there, and wait for those of the block before."""

    @T.prim_func
    def main(X: T.Tensor((size, n)), Y: T.Tensor((size, n))):
        with T.Kernel(size, threads=128, cluster_dims=size) as bx:
            box = T.alloc_shared((n,), "float32")
            v = T.alloc_fragment((n,), "float32")
            full = T.alloc_cluster_barrier(128)
            empty = T.alloc_cluster_barrier(128)
            rank = T.block_rank_in_cluster()
            T.copy(X[bx, :], v)
            for i in T.serial(rounds):
                T.mbarrier_wait_parity(empty, i % 2 ^ 1)
                T.copy_cluster(v, box, dst_block=(rank + 1) % size)
                T.mbarrier_arrive(full, (rank + 1) % size)
                T.mbarrier_wait_parity(full, i % 2)
                T.copy(box, v)
                T.mbarrier_arrive(empty, (rank + size - 1) % size)
            T.copy(v, Y[bx, :])

    return main


def relay(size, rounds, n=128):
    """Blocks take turns: each makes its row of the tensor that of the block before plus one."""

    @T.prim_func
    def main(X: T.Tensor((size, n))):
        with T.Kernel(size, threads=n, cluster_dims=size) as bx:
            turn = T.alloc_cluster_barrier(n)
            rank = T.block_rank_in_cluster()
            t = T.get_thread_binding()
            for i in T.serial(rounds):
                if rank > 0:
                    T.mbarrier_wait_parity(turn, i % 2)
                elif i > 0:
                    T.mbarrier_wait_parity(turn, (i - 1) % 2)
                X[bx, t] = X[(bx + size - 1) % size, t] + 1
                T.mbarrier_arrive(turn, (rank + 1) % size)

    return main


def split_reduction(size, n):
    """The blocks of a cluster sum rows of X; the first of them adds the partial sums."""

    @T.prim_func
    def main(X: T.Tensor((4, size, n)), Y: T.Tensor((4, n))):
        with T.Kernel(size, 4, threads=128, cluster_dims=(size, 1)) as (bx, by):
            row = T.alloc_shared((n,), "float32")
            parts = T.alloc_shared((size, n), "float32")
            total = T.alloc_fragment((n,), "float32")
            rank = T.block_rank_in_cluster()
            T.copy(X[by, bx, :], row)
            T.copy_cluster(row, parts[rank, :], dst_block=0)
            T.cluster_arrive()
            T.cluster_wait()
            if rank == 0:
                T.reduce_sum(parts, total, dim=0)
                T.copy(total, Y[by, :])

    return main
