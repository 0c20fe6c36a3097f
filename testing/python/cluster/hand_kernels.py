"""Kernels that issue gemms of pairs of blocks by hand: the even block for both."""

from __future__ import annotations

from dataclasses import dataclass

from sm100_kernels import ACCUMULATOR

import tilelang.language as T


@T.macro
def bring(case, tensor, tiles, s, row, k, barrier, k_first):
    """Fills a tile by TMA, or has a warp's threads do it."""
    if case.loads != "threads":
        if k_first:
            T.tma_copy(tensor[k, row], tiles[s, :, :], barrier=barrier)
        else:
            T.tma_copy(tensor[row, k], tiles[s, :, :], barrier=barrier)
    else:
        for x, y in T.Parallel(*tiles.shape[1:]):
            tiles[s, x, y] = tensor[row + x, k + y]


@dataclass(frozen=True)
class HandGemm:
    """C (m, n) = A @ B^T (or A @ B) in tiles. A warp of each block loads; one of the even block
    issues gemms. Loads complete at the even block ("leader"), or on each block's own barriers, for
    which a third warp waits and tells the even block ("own"); or that warp of threads copies
    ("threads")."""

    m: int
    n: int
    k: int
    tile: tuple[int, int, int] = (128, 128, 64)  # of a block
    dtype: str = "bfloat16"
    trans_b: bool = True
    stages: int = 2
    size: int = 2  # of the clusters
    loads: str = "leader"

    @property
    def c_type(self) -> str:
        return ACCUMULATOR.get(self.dtype, "float32")

    @property
    def shapes(self):
        b = (self.n, self.k) if self.trans_b else (self.k, self.n)
        return (self.m, self.k), b, (self.m, self.n)

    def build(self):
        m, n, k = self.tile
        size, stages, steps, trans_b = self.size, self.stages, -(-self.k // k), self.trans_b
        shapes, own = self.shapes, self.loads != "leader"
        rows = -(-self.m // (m * size)) * size

        @T.prim_func
        def main(
            A: T.Tensor(shapes[0], self.dtype),
            B: T.Tensor(shapes[1], self.dtype),
            C: T.Tensor(shapes[2], self.c_type),
        ):
            with T.Kernel(rows, T.ceildiv(self.n, n), threads=128, cluster_dims=size) as (by, bx):
                a = T.alloc_shared((stages, m, k), self.dtype)
                b = T.alloc_shared(
                    (stages, n // 2, k) if trans_b else (stages, k, n // 2), self.dtype
                )
                c = T.alloc_tmem((m, n), self.c_type)
                filled = T.alloc_barrier([32] * stages)
                full = T.alloc_cluster_barrier([2 * 32] * stages)
                consumed = T.alloc_cluster_barrier([1] * stages)
                done = T.alloc_barrier(1)
                tx, rank = T.get_thread_binding(), T.block_rank_in_cluster()
                row, column = by * m, bx * n + rank % 2 * (n // 2)
                if tx < 32:
                    for i in T.serial(steps):
                        s = i % stages
                        T.mbarrier_wait_parity(consumed[s], i // stages % 2 ^ 1)
                        loaded = filled if own else full
                        bring(self, A, a, s, row, i * k, loaded[s], False)
                        bring(self, B, b, s, column, i * k, loaded[s], not trans_b)
                        if self.loads == "threads":
                            T.fence_proxy_async()
                        if own:
                            T.mbarrier_arrive(filled[s])
                        else:
                            T.mbarrier_arrive(full[s], rank - rank % 2)
                elif tx < 64 and rank % 2 == 0:
                    for i in T.serial(steps):
                        s = i % stages
                        T.mbarrier_wait_parity(full[s], i // stages % 2)
                        T.tcgen05_gemm(
                            a[s, :, :], b[s, :, :], c, transpose_B=trans_b, clear_accum=i == 0,
                            mbar=consumed[s], use_2cta=True,
                        )  # fmt: skip
                    T.tcgen05_mma_arrive(done, arrive_2cta=True)
                elif tx >= 64 and tx < 96 and own:
                    for i in T.serial(steps):
                        s = i % stages
                        T.mbarrier_wait_parity(filled[s], i // stages % 2)
                        T.mbarrier_arrive(full[s], rank - rank % 2)
                T.mbarrier_wait_parity(done, 0)
                for j in T.unroll(0, n, 16):
                    T.copy(c[:, j : j + 16], C[row, bx * n + j])

        return main


def persistent(M, N, K, pairs=2, stages=3, tile=(128, 128, 64)):
    """Pairs take tile after tile; four warps of each block store one while the tensor cores compute
    the next."""
    m, n, k = tile
    columns, steps = -(-N // n), -(-K // k)
    tiles = -(-M // (2 * m)) * columns
    turns = -(-tiles // pairs)

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N))):
        with T.Kernel(2 * pairs, threads=256, cluster_dims=2) as block:
            a = T.alloc_shared((stages, m, k), "float16")
            b = T.alloc_shared((stages, n // 2, k), "float16")
            c = T.alloc_tmem((2, m, n), "float32")
            loaded = T.alloc_cluster_barrier([2 * 32] * stages)
            consumed = T.alloc_cluster_barrier([1] * stages)
            full = T.alloc_cluster_barrier([1] * 2)
            empty = T.alloc_cluster_barrier([2 * 128] * 2)
            tx, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            if tx < 32:
                for w in T.serial(turns):
                    tile_id = block // 2 + w * pairs
                    if tile_id < tiles:
                        row = tile_id // columns * 2 * m + rank * m
                        column = tile_id % columns * n + rank * (n // 2)
                        for i in T.serial(steps):
                            turn = w * steps + i
                            s = turn % stages
                            T.mbarrier_wait_parity(consumed[s], turn // stages % 2 ^ 1)
                            T.tma_copy(A[row, i * k], a[s, :, :], barrier=loaded[s])
                            T.tma_copy(B[column, i * k], b[s, :, :], barrier=loaded[s])
                            T.mbarrier_arrive(loaded[s], 0)
            elif tx < 64 and rank == 0:
                for w in T.serial(turns):
                    if block // 2 + w * pairs < tiles:
                        T.mbarrier_wait_parity(empty[w % 2], w // 2 % 2 ^ 1)
                        for i in T.serial(steps):
                            turn = w * steps + i
                            s = turn % stages
                            T.mbarrier_wait_parity(loaded[s], turn // stages % 2)
                            T.tcgen05_gemm(
                                a[s, :, :], b[s, :, :], c[w % 2, :, :], transpose_B=True,
                                clear_accum=i == 0, mbar=consumed[s], use_2cta=True,
                            )  # fmt: skip
                        T.tcgen05_mma_arrive(full[w % 2], arrive_2cta=True)
            elif tx >= 128:
                for w in T.serial(turns):
                    tile_id = block // 2 + w * pairs
                    if tile_id < tiles:
                        result = T.alloc_fragment((m, n), "float32")
                        T.mbarrier_wait_parity(full[w % 2], w // 2 % 2)
                        T.copy(c[w % 2, :, :], result)
                        T.mbarrier_arrive(empty[w % 2], 0)
                        T.copy(
                            result,
                            C[tile_id // columns * 2 * m + rank * m, tile_id % columns * n],
                        )

    return main


def operand_in_tensor_memory(K, n=128):
    """A (256, K) @ B (n, K)^T: threads of each block bring their rows of A to tensor memory."""
    k = 64
    steps = K // k

    @T.prim_func
    def main(
        A: T.Tensor((256, K), "float16"), B: T.Tensor((n, K), "float16"), C: T.Tensor((256, n))
    ):
        with T.Kernel(2, threads=192, cluster_dims=2) as block:
            rows = T.alloc_fragment((128, k), "float16")
            a = T.alloc_tmem((2, 128, k), "float16")
            b = T.alloc_shared((2, n // 2, k), "float16")
            c = T.alloc_tmem((128, n), "float32")
            ready = T.alloc_cluster_barrier([2 * 128] * 2)
            loaded = T.alloc_cluster_barrier([2 * 32] * 2)
            consumed = T.alloc_barrier([1] * 2)
            done = T.alloc_barrier(1)
            tx, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            if tx < 128:
                for i in T.serial(steps):
                    T.mbarrier_wait_parity(consumed[i % 2], i // 2 % 2 ^ 1)
                    T.copy(A[block * 128, i * k], rows)
                    T.copy(rows, a[i % 2, :, :])
                    T.mbarrier_arrive(ready[i % 2], 0)
                T.mbarrier_wait_parity(done, 0)
                for j in T.unroll(0, n, 32):
                    T.copy(c[:, j : j + 32], C[block * 128, j])
            elif tx < 160:
                for i in T.serial(steps):
                    T.mbarrier_wait_parity(consumed[i % 2], i // 2 % 2 ^ 1)
                    T.tma_copy(B[rank * (n // 2), i * k], b[i % 2, :, :], barrier=loaded[i % 2])
                    T.mbarrier_arrive(loaded[i % 2], 0)
            elif rank == 0:
                for i in T.serial(steps):
                    T.mbarrier_wait_parity(ready[i % 2], i // 2 % 2)
                    T.mbarrier_wait_parity(loaded[i % 2], i // 2 % 2)
                    T.tcgen05_gemm(
                        a[i % 2, :, :], b[i % 2, :, :], c, transpose_B=True, clear_accum=i == 0,
                        mbar=consumed[i % 2], use_2cta=True,
                    )  # fmt: skip
                T.tcgen05_mma_arrive(done, arrive_2cta=True)

    return main


@T.macro
def bring_scaled(steps, period, tensors, tiles, at, loaded, consumed):
    """A warp loads tiles of A and B, and their factors once in ``period`` steps."""
    stages, (row, column, own_column) = loaded.shape[0], at
    for i in T.serial(steps):
        s = i % stages
        T.mbarrier_wait_parity(consumed[s], i // stages % 2 ^ 1)
        T.tma_copy(tensors[0][row, i * 128], tiles[0][s, :, :], barrier=loaded[s])
        T.tma_copy(tensors[1][own_column, i * 128], tiles[1][s, :, :], barrier=loaded[s])
        if i % period == 0:
            T.tma_copy(tensors[2][i // period, row], tiles[2][s, :], barrier=loaded[s])
            T.tma_copy(tensors[3][i // period, column], tiles[3][s, :], barrier=loaded[s])
        T.mbarrier_arrive(loaded[s])


@T.macro
def turn_words(steps, period, tiles, loaded, turned):
    """A warp transposes factors, and tells the even block of all that has been loaded."""
    stages = loaded.shape[0]
    for i in T.serial(steps):
        s = i % stages
        T.mbarrier_wait_parity(loaded[s], i // stages % 2)
        if i % period == 0:
            T.tcgen05_sf_warp_transpose(tiles[2][s, :])
            T.tcgen05_sf_warp_transpose(tiles[3][s, :])
            T.fence_proxy_async()
        T.mbarrier_arrive(turned[s], 0)


def scaled(m, n, k, block_n, granularity, types, stages=2):
    """Factors in words, which a warp of each block transposes, and the even block's issues: each
    block has those of its rows of A, and of all columns of B."""
    period, groups, steps = granularity // 32, -(-k // (4 * granularity)), -(-k // 128)
    granularities = {f"sf_{side}_granularity_k": granularity for side in "ab"}

    @T.prim_func
    def main(
        A: T.Tensor((m, k), types[0]),
        B: T.Tensor((n, k), types[1]),
        SFA: T.Tensor((groups, m), T.uint32),
        SFB: T.Tensor((groups, n), T.uint32),
        C: T.Tensor((m, n), T.float32),
    ):
        with T.Kernel(-(-m // 256) * 2, T.ceildiv(n, block_n), threads=128, cluster_dims=2) as (
            by,
            bx,
        ):
            a = T.alloc_shared((stages, 128, 128), types[0])
            b = T.alloc_shared((stages, block_n // 2, 128), types[1])
            sfa = T.alloc_shared((stages, 128), T.uint32)
            sfb = T.alloc_shared((stages, -(-block_n // 128) * 128), T.uint32)
            c = T.alloc_tmem((128, block_n), T.float32)
            sfa_tmem = T.alloc_tmem((128, 4), T.uint32)
            sfb_tmem = T.alloc_tmem((128, -(-block_n // 128) * 4), T.uint32)
            loaded = T.alloc_barrier([32] * stages)
            turned = T.alloc_cluster_barrier([2 * 32] * stages)
            consumed = T.alloc_cluster_barrier([1] * stages)
            done = T.alloc_cluster_barrier(1)
            tx, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            tiles, tensors = (a, b, sfa, sfb), (A, B, SFA, SFB)
            at = by * 128, bx * block_n, bx * block_n + rank * (block_n // 2)
            if tx < 32:
                bring_scaled(steps, period, tensors, tiles, at, loaded, consumed)
            elif tx < 64 and rank == 0:
                for i in T.serial(steps):
                    s, phase = i % stages, i // stages % 2
                    T.mbarrier_wait_parity(turned[s], phase)
                    if i % period == 0:
                        T.tcgen05_cp_warpx4(sfa[s, :], sfa_tmem, use_2cta=True)
                        T.tcgen05_cp_warpx4(sfb[s, :], sfb_tmem, use_2cta=True)
                    T.tcgen05_gemm_blockscaled(
                        a[s, :, :], b[s, :, :], c, sfa_tmem, sfb_tmem, transpose_B=True,
                        clear_accum=i == 0, mbar=consumed[s], k_start=i * 128, use_2cta=True,
                        **granularities,
                    )  # fmt: skip
                T.tcgen05_mma_arrive(done, arrive_2cta=True)
            elif tx >= 64 and tx < 96:
                turn_words(steps, period, tiles, loaded, turned)
            T.mbarrier_wait_parity(done, 0)
            for j in T.unroll(0, block_n, 64):
                T.copy(c[:, j : j + 64], C[by * 128, bx * block_n + j])

    return main
