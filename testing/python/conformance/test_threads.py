"""Threads, warps and blocks: indices, votes, shuffles, barriers of the block, register shares."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

N = 64


def test_indices_and_extents(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 3, 64, 8), "int32")):
        with T.Kernel(3, 2, threads=(32, 2)):
            bx, by = T.get_block_bindings()
            tx, ty = T.get_thread_bindings()
            t = ty * T.get_thread_extent(0) + tx
            A[by, bx, t, 0] = T.get_block_binding(0)
            A[by, bx, t, 1] = T.get_block_binding(1)
            A[by, bx, t, 2] = T.get_thread_binding(0)
            A[by, bx, t, 3] = T.get_thread_binding(1)
            A[by, bx, t, 4] = T.get_block_extent(0) * 10 + T.get_block_extents()[1]
            A[by, bx, t, 5] = T.get_thread_extents()[1]
            A[by, bx, t, 6] = T.get_lane_idx()
            A[by, bx, t, 7] = T.get_warp_idx() * 10 + T.get_warp_group_idx()

    actual = run(main, target, poison(2, 3, 64, 8, dtype="int32"))
    for by in range(2):
        for bx in range(3):
            rows = [[bx, by, t % 32, t // 32, 32, 2, t % 32, t // 32 * 10] for t in range(64)]
            equal(actual[by, bx], torch.tensor(rows))


def test_votes_of_a_warp(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N, 4), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            positive = A[t] > 0
            B[t, 0] = T.cast(T.ballot(positive), "int32")
            B[t, 1] = T.cast(T.ballot_sync(positive), "int32")
            B[t, 2] = T.cast(T.any_sync(A[t] > 48), "int32")
            B[t, 3] = T.cast(T.all_sync(A[t] > -51), "int32") + T.popcount(T.activemask())

    a = integers(N)
    actual = run(main, target, a, poison(N, 4, dtype="int32"))
    for t in range(N):
        warp = a[t // 32 * 32 : t // 32 * 32 + 32]
        mask = sum(1 << lane for lane in range(32) if warp[lane] > 0)
        mask -= (mask >> 31) << 32
        equal(actual[t], torch.tensor([mask, mask, int((warp > 48).any()), 33]))


def test_shuffles(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            value = A[t]
            B[t, 0] = T.shfl_sync(value, 5)
            B[t, 1] = T.shfl_xor(value, 3)
            B[t, 2] = T.shfl_up(value, 2)
            B[t, 3] = T.shfl_down(value, 4)

    a = torch.randn(N)
    actual = run(main, target, a, poison(N, 4))
    w = a.view(2, 32)
    lanes = torch.arange(32)
    expected = [
        w[:, [5] * 32],
        w[:, lanes ^ 3],
        w[:, torch.where(lanes >= 2, lanes - 2, lanes)],
        w[:, torch.where(lanes < 28, lanes + 4, lanes)],
    ]
    equal(actual, torch.stack(expected, -1).view(N, 4))


def test_reductions_of_a_warp(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N, 3), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0] = T.warp_reduce_sum(A[t])
            B[t, 1] = T.warp_reduce_max(A[t])
            B[t, 2] = T.warp_reduce_min(A[t])

    a = integers(N)
    w = a.view(2, 32)
    rows = torch.stack([w.sum(1), w.max(1).values, w.min(1).values], -1)
    equal(run(main, target, a, poison(N, 3, dtype="int32")), rows.repeat_interleave(32, 0))


def test_votes_of_the_block(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N, 3), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0] = T.syncthreads_count(A[t] > 0)
            B[t, 1] = T.cast(T.syncthreads_or(A[t] > 48), "int32")
            B[t, 2] = T.cast(T.syncthreads_and(A[t] > -50), "int32")

    a = integers(N)
    row = torch.stack([(a > 0).sum(), (a > 48).any().long(), (a > -50).all().long()])
    equal(run(main, target, a, poison(N, 3, dtype="int32")), row.expand(N, 3))


def test_one_thread_of_a_warp(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=128):
            if T.shuffle_elect(32):
                T.atomic_add(A[T.get_warp_idx_sync()], 1)

    equal(run(main, target, torch.zeros(4, dtype=torch.int32)), torch.ones(4))


@pytest.mark.parametrize("width", [8, 16, 32])
def test_shuffles_within_parts_of_a_warp(width: int, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = T.shfl_sync(A[t], 1, width)

    a = integers(N)
    equal(
        run(main, target, a, poison(N, dtype="int32")),
        a.view(-1, width)[:, 1:2].expand(-1, width).reshape(N),
    )


def test_named_barriers_between_warps(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            S = T.alloc_shared((N,), "int32")
            t = T.get_thread_binding()
            S[t] = A[t]
            T.sync_threads(3, N)
            B[t] = S[N - 1 - t]

    a = integers(N)
    equal(run(main, target, a, poison(N, dtype="int32")), a.flip(0))


def test_register_shares() -> None:
    """The shares are those of warpgroups: sm_90a and later."""
    for arch in ("sm_90a", "sm_100a"):

        @T.prim_func
        def main(A: T.Tensor((256,), "int32")):
            with T.Kernel(1, threads=256):
                T.disable_warp_group_reg_alloc()
                t = T.get_thread_binding()
                if t < 128:
                    T.dec_max_nreg(40)
                    A[t] = t
                else:
                    T.set_max_nreg(232, 1)
                    A[t] = -t

        t = torch.arange(256)
        equal(run(main, arch, poison(256, dtype="int32")), torch.where(t < 128, t, -t))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_blocks_of_a_cluster(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=32) as bx:
            T.cluster_arrive_relaxed()
            T.cluster_wait()
            T.cluster_arrive()
            T.cluster_wait()
            if T.get_thread_binding() == 0:
                A[bx * 2] = T.block_rank_in_cluster()
                A[bx * 2 + 1] = bx

    actual = run(main, arch, poison(8, dtype="int32"))
    equal(actual, torch.tensor([0, 0, 1, 1, 0, 2, 1, 3]))


def test_fences_of_tensor_memory() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "bfloat16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_tmem((128, 64), "float32")
            r = T.alloc_fragment((128, 64), "float32")
            done = T.alloc_barrier(1)
            T.copy(A, x)
            T.tcgen05_gemm(x, x[0:64, :], c, transpose_B=True, clear_accum=True, mbar=done)
            T.mbarrier_wait_parity(done, 0)
            T.tcgen05_after_thread_sync()
            T.copy(c, r)
            T.tcgen05_before_thread_sync()
            T.sync_threads()
            T.copy(r, C)

    a = torch.randn(128, 64).bfloat16()
    c = run(main, "sm_100a", a, poison(128, 64))
    torch.testing.assert_close(c.double(), a.double() @ a[:64].double().T, rtol=1e-3, atol=1e-3)


def test_matches_in_a_warp(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N, 4), "uint32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0] = T.match_any_sync(A[t])
            B[t, 1] = T.match_all_sync(t // 32)
            B[t, 2] = T.cast(T.warp_reduce_bitand(A[t] | 12), "uint32")
            B[t, 3] = T.cast(T.warp_reduce_bitor(A[t]), "uint32") * 100 + T.cast(
                T.__ffs(A[t]), "uint32"
            )

    a = integers(N, low=0, high=4)
    b = torch.zeros(N, 4, dtype=torch.uint32)
    run(main, target, a, b)
    for t in range(N):
        warp = a[t // 32 * 32 : t // 32 * 32 + 32].tolist()
        value = int(a[t])
        same = sum(1 << lane for lane, other in enumerate(warp) if other == value)
        lowest = (value & -value).bit_length()
        both = [0xFFFFFFFF, 0]
        for other in warp:
            both = [both[0] & (other | 12), both[1] | other]
        assert b[t].tolist() == [same, 0xFFFFFFFF, both[0], both[1] * 100 + lowest]


def test_a_warp_arrives_and_another_waits(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.call_extern("void", "put", T.address_of(B[0]), t, A[t % 32])
            if t < 32:
                T.named_barrier_arrive(5, 64)
            else:
                T.sync_threads(5, 64)
            T.import_source(
                "__device__ void put(int* to, int t, int x) { if (t < 32) to[t] = x * 2; }"
            )

    a = integers(32)
    equal(run(main, target, a, poison(32, dtype="int32")), a * 2)


def test_dependent_launches(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            T.pdl_sync()
            B[T.get_thread_binding()] = A[T.get_thread_binding()]
            T.pdl_trigger()

    a = torch.randn(N)
    equal(run(main, target, a, poison(N)), a)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_shapes_of_clusters(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 2, 3), "int32")):
        with T.Kernel(4, 2, cluster_dims=(2, 1), threads=32) as (bx, by):
            x, y = T.get_cluster_ids()
            A[bx, by, 0] = x * 10 + y
            A[bx, by, 1] = T.get_cluster_size() * 100 + T.get_cluster_dims()[0]
            A[bx, by, 2] = T.get_cluster_extent(0) * 10 + T.get_cluster_extents()[1]
            A[bx, by, 0] += T.get_cluster_id(0) * 100

    actual = run(main, arch, poison(4, 2, 3, dtype="int32"))
    rows = [[[x // 2 * 110 + y, 202, 22] for y in range(2)] for x in range(4)]
    equal(actual, torch.tensor(rows))


def test_places_of_set_bits(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "uint32"), B: T.Tensor((N, 2), "uint32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0] = T.__fns(A[t], 3, 2)
            B[t, 1] = T.__fns(A[t], 31, -1)

    a = integers(N, low=0, high=2**16, dtype="int64").to(torch.uint32)
    b = torch.zeros(N, 2, dtype=torch.uint32)
    run(main, target, a, b)
    for value, (second, highest) in zip(a.tolist(), b.tolist(), strict=True):
        above = [bit for bit in range(3, 32) if value >> bit & 1]
        assert second == (above[1] if len(above) > 1 else 0xFFFFFFFF)
        assert highest == (value.bit_length() - 1) % 2**32


def bitonic(by_hand: bool) -> Any:
    """Sorts 128 numbers; the lower thread of each pair exchanges them."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), "float32")
            T.copy(A, s)
            i = T.get_thread_binding()
            for a in T.serial(7):
                for b in T.serial(a + 1):
                    if by_hand:
                        T.sync_threads()
                    j = i ^ (1 << (a - b))
                    if j > i and (s[i] > s[j]) == ((i & (2 << a)) == 0):
                        low = s[j]
                        s[j] = s[i]
                        s[i] = low
            if by_hand:
                T.sync_threads()
            T.copy(s, A)

    return main


def test_exchange_under_a_condition_on_data(target: str) -> None:
    """Which pairs exchange is known to the program alone: it orders them itself, or is refused."""
    config = {"tl.disable_thread_storage_sync": True}
    a = normal(128)
    equal(run(bitonic(True), target, a.clone(), pass_configs=config), a.sort().values)
    if target != "cuda":
        with pytest.raises(errors.SemanticsError, match="disable_thread_storage_sync") as caught:
            tilelang.compile(bitonic(False), target=target)
        assert "s[j] = s[i]" in str(caught.value) or "low = s[j]" in str(caught.value)


def test_barriers_by_names_above_15(target: str) -> None:
    """Two warps exchange, and two others; numbers of the program and of the compiler stay apart."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            tile = T.alloc_shared((128,), "float32")
            if t < 64:
                tile[t] = A[t]
                T.sync_threads(101, 64)
                B[t] = tile[63 - t]
                T.sync_threads(15, 64)
                tile[t] = A[t] * 2
                T.sync_threads(101, 64)
                B[t] += tile[63 - t]
            else:
                tile[t] = A[t]
                T.sync_threads(70000, 64)
                B[t] = tile[191 - t]
                T.sync_threads(16, 64)

    a, b = normal(128), poison(128)
    run(main, target, a, b)
    want = a.view(2, 64).flip(1) * torch.tensor([[3.0], [1.0]])
    torch.testing.assert_close(b, want.flatten())


def test_more_names_of_barriers_than_a_block_has() -> None:
    names = list(range(20, 36))

    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for name in names:
                T.sync_threads(name, 64)
            A[T.get_thread_binding()] = 0

    with pytest.raises(errors.ResourceError, match="barrier_id=35 needs a number of its own, but"):
        tilelang.compile(main, target="sm_90a")
