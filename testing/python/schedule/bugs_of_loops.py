"""Cases of test_bugs_elsewhere.py: loops whose tiles threads use."""

from __future__ import annotations

import torch
from schedule.bug_list import TMA, Case, bug, flipped, poison, rows, small

import tilelang.language as T


@bug("a loop of one iteration, or none, waits for ever", count=(0, 1, 2, 3, 4))
def trip_counts(count: int) -> Case:
    a = small(112, 64, dtype=torch.float32)
    return Case(rows(), (a, poison(112, 64), count), {1: flipped(a, 16, count)})


@bug("rows without a second dimension are announced, but nobody arrives", count=(1, 3, 5))
def one_dimension(count: int) -> Case:
    @T.prim_func
    def main(A: T.Tensor((5 * 128,), "float32"), B: T.Tensor((5 * 128,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((128,), "float32")
            for i in T.Pipelined(n, num_stages=3):
                T.copy(A[i * 128], a)
                for q in T.Parallel(128):
                    B[i * 128 + q] = a[127 - q]

    a = small(640, dtype=torch.float32)
    want = torch.full((5, 128), -77.0)
    want[:count] = a.reshape(5, 128)[:count].flip(1)
    return Case(main, (a, poison(640), count), {1: want.reshape(640)})


@bug("iterations that use different barriers count their phases by the loop")
def tiles_in_turn() -> Case:
    @T.prim_func
    def main(A: T.Tensor((112, 64), "float32"), B: T.Tensor((112, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            b = T.alloc_shared((16, 64), "float32")
            for i in T.Pipelined(7, num_stages=2):
                if i % 3 == 0:
                    T.copy(A[i * 16, 0], a)
                    for r, q in T.Parallel(16, 64):
                        B[i * 16 + r, q] = a[15 - r, q]
                else:
                    T.copy(A[i * 16, 0], b)
                    for r, q in T.Parallel(16, 64):
                        B[i * 16 + r, q] = b[15 - r, q]

    a = small(112, 64, dtype=torch.float32)
    return Case(main, (a, poison(112, 64)), {1: flipped(a, 16, 7)})


@bug("a tile that an iteration reads, changes and reads again is loaded too early")
def changed_in_place() -> Case:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            f = T.alloc_fragment((16, 64), "float32")
            for i in T.Pipelined(4, num_stages=2):
                T.copy(A[i * 16, 0], a)
                for r, q in T.Parallel(16, 64):
                    f[r, q] = a[15 - r, q]
                for r, q in T.Parallel(16, 64):
                    a[r, q] = f[r, q] * 2
                for r, q in T.Parallel(16, 64):
                    B[i * 16 + r, q] = a[15 - r, q] + f[r, q]

    a = small(64, 64, dtype=torch.float32)
    tiles = a.reshape(4, 16, 64)
    return Case(main, (a, poison(64, 64)), {1: (2 * tiles + tiles.flip(1)).reshape(64, 64)})


@bug("what an iteration adds by atomic operations the next one reads too early")
def read_after_atomics() -> Case:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64,), "float32")
            for i in T.Pipelined(4, num_stages=3):
                T.copy(A, a)
                for q in T.Parallel(64):
                    B[i, q] = a[63 - q]
                for q in T.Parallel(64):
                    T.atomic_add(A[q], 1)

    a = small(64, dtype=torch.float32)
    want = torch.stack([a.flip(0) + i for i in range(4)])
    return Case(main, (a.clone(), poison(4, 64)), {0: a + 4, 1: want})


@bug("a mask that says which blocks are there steers one role only")
def mask_of_blocks() -> Case:
    @T.prim_func
    def main(
        Mask: T.Tensor((6,), "int32"),
        A: T.Tensor((96, 64), "float32"),
        B: T.Tensor((16, 64), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            total = T.alloc_fragment((16, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(6, num_stages=2):
                if Mask[i] != 0:
                    T.copy(A[i * 16, 0], a)
                    for r, q in T.Parallel(16, 64):
                        total[r, q] += a[15 - r, q]
            T.copy(total, B)

    mask = torch.tensor([0, 1, 1, 0, 0, 1], dtype=torch.int32)
    a = small(96, 64, dtype=torch.float32)
    tiles = a.reshape(6, 16, 64).flip(1) * mask[:, None, None]
    return Case(main, (mask, a, poison(16, 64)), {2: tiles.sum(0)})


@bug("a tile that threads compute, beside others that are loaded, is not waited for")
def tile_by_threads() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float32"),
        X: T.Tensor((64, 64), "float32"),
        B: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            x = T.alloc_shared((16, 64), "float32")
            for i in T.Pipelined(4, num_stages=3):
                T.copy(A[i * 16, 0], a)
                for r, q in T.Parallel(16, 64):
                    x[r, q] = X[i * 16 + r, q] + i
                for r, q in T.Parallel(16, 64):
                    B[i * 16 + r, q] = a[15 - r, q] + x[r, 63 - q]

    a, x = small(64, 64, dtype=torch.float32), small(64, 64, dtype=torch.float32)
    want = flipped(a, 16, 4) + x.flip(1) + torch.arange(64)[:, None] // 16
    return Case(main, (a, x, poison(64, 64)), {2: want})


@bug("a warp that lags behind misses a phase: the slot is filled twice meanwhile")
def uneven_warps() -> Case:
    @T.prim_func
    def main(A: T.Tensor((112, 64), "float32"), B: T.Tensor((112, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((16, 64), "float32")
            f = T.alloc_fragment((16, 64), "float32")
            for i in T.Pipelined(7, num_stages=2):
                T.copy(A[i * 16, 0], a)
                for r, q in T.Parallel(16, 64):
                    f[r, q] = a[15 - r, q]
                    if r < 4:
                        for _ in range(20):
                            f[r, q] = f[r, q] + 1
                T.copy(f, B[i * 16, 0])

    a = small(112, 64, dtype=torch.float32)
    want = flipped(a, 16, 7)
    want.reshape(7, 16, 64)[:, :4] += 20
    return Case(main, (a, poison(112, 64)), {1: want})


@bug("arrivals are counted for another number of warps than there is", threads=(32, 96, 160))
def odd_numbers_of_warps(threads: int) -> Case:
    a = small(112, 64, dtype=torch.float32)
    return Case(rows(threads=threads), (a, poison(112, 64), 7), {1: flipped(a, 16, 7)})


@bug("a tile that TMA cannot load is not ordered with those that it can")
def unaligned_beside_aligned() -> Case:
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float32"),
        X: T.Tensor((64, 63), "float32"),
        B: T.Tensor((64, 63), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            x = T.alloc_shared((16, 63), "float32")
            for i in T.Pipelined(4, num_stages=3):
                T.copy(A[i * 16, 0], a)
                T.copy(X[i * 16, 0], x)
                for r, q in T.Parallel(16, 63):
                    B[i * 16 + r, q] = a[15 - r, q] + x[15 - r, 62 - q]

    a, x = small(64, 64, dtype=torch.float32), small(64, 63, dtype=torch.float32)
    want = flipped(a, 16, 4)[:, :63] + flipped(x, 16, 4).flip(1)
    return Case(main, (a, x, poison(64, 63)), {2: want})


@bug("parts of a result go through one buffer, counted as the tiles are", TMA)
def parts_of_a_result() -> Case:
    @T.prim_func
    def main(A: T.Tensor((192, 96), "float32"), B: T.Tensor((192, 96), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 96), "float32")
            out = T.alloc_shared((32, 32), "float32")
            for i in T.Pipelined(6, num_stages=2):
                T.copy(A[i * 32, 0], a)
                for part in T.serial(3):
                    for r, q in T.Parallel(32, 32):
                        out[r, q] = a[31 - r, part * 32 + q] + part
                    T.copy(out, B[i * 32, part * 32])

    a = small(192, 96, dtype=torch.float32)
    want = flipped(a, 32, 6) + torch.arange(96)[None] // 32
    return Case(main, (a, poison(192, 96)), {1: want})


@bug("two groups of threads synchronize by the same named barrier", threads=(128, 256))
def reductions_beside_loads(threads: int) -> Case:
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((64, 64), "float32")
            f = T.alloc_fragment((64, 64), "float32")
            high = T.alloc_fragment((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for i in T.Pipelined(4, num_stages=2):
                T.copy(A[0, i * 64], a)
                for r, q in T.Parallel(64, 64):
                    f[r, q] = a[63 - r, q]
                T.reduce_max(f, high, dim=1)
                for r in T.Parallel(64):
                    total[r] += high[r]
            T.copy(total, B)

    a = small(64, 256, dtype=torch.float32)
    return Case(main, (a, poison(64)), {1: a.flip(0).reshape(64, 4, 64).amax(2).sum(1)})


@bug("a loop that is left early leaves loads behind, for which nobody waits", last=(0, 1, 4))
def left_early(last: int) -> Case:
    @T.prim_func
    def main(A: T.Tensor((112, 64), "float32"), B: T.Tensor((112, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            for _ in T.serial(2):
                for i in T.Pipelined(7, num_stages=3):
                    T.copy(A[i * 16, 0], a)
                    for r, q in T.Parallel(16, 64):
                        B[i * 16 + r, q] = a[15 - r, q]
                    if i == n:
                        break

    a = small(112, 64, dtype=torch.float32)
    return Case(main, (a, poison(112, 64), last), {1: flipped(a, 16, last + 1)})


@bug("the place of a load does not advance where it comes from a variable", stages=(2, 3, 4))
def place_from_a_variable(stages: int) -> Case:
    @T.prim_func
    def main(A: T.Tensor((112, 64), "float32"), B: T.Tensor((112, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            at = T.alloc_var("int32")
            at = 0
            for i in T.Pipelined(7, num_stages=stages):
                T.copy(A[at, 0], a)
                for r, q in T.Parallel(16, 64):
                    B[i * 16 + r, q] = a[15 - r, q]
                at = at + 16

    a = small(112, 64, dtype=torch.float32)
    return Case(main, (a, poison(112, 64)), {1: flipped(a, 16, 7)})
