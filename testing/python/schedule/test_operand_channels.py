"""Operands that threads compute, in two slots of tensor memory or shared memory."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def scaled(M, N, K, columns=64, threads=128, dtype="float8_e4m3fn", persistent=0):
    """C = (2 A) B^T, with A of another type: threads convert and double it in registers."""
    rows, depth = 128, 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        tiles = T.ceildiv(M, rows) * T.ceildiv(N, columns)
        with T.Kernel(persistent or tiles, threads=threads) as block:
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((columns, depth), "bfloat16")
            narrow = T.alloc_fragment((rows, depth), dtype)
            wide = T.alloc_fragment((rows, depth), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            for tile in T.serial(T.ceildiv(tiles - block, persistent or tiles)):
                number = block + tile * (persistent or tiles)
                by, bx = number // T.ceildiv(N, columns), number % T.ceildiv(N, columns)
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
                    T.copy(A[by * rows, k * depth], a)
                    T.copy(B[bx * columns, k * depth], b)
                    T.copy(a, narrow)
                    for i, j in T.Parallel(rows, depth):
                        wide[i, j] = T.cast(narrow[i, j], "bfloat16") * T.bfloat16(2)
                    T.gemm(wide, b, c, transpose_B=True)
                T.copy(c, C[by * rows, bx * columns])

    return main


def check(kernel, M, N, K, dtype="float8_e4m3fn"):
    a = torch.randint(-4, 5, (M, K)).to(getattr(torch, dtype))
    b = torch.randint(-4, 5, (N, K)).bfloat16()
    c = torch.full((M, N), torch.nan)
    kernel(a, b, c)
    torch.testing.assert_close(c, 2 * a.float() @ b.float().T, rtol=0, atol=0)


def remarks(kernel):
    return " ".join(r.message for r in kernel.remarks)


@every_schedule
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("persistent", [0, 1, 2])
@pytest.mark.parametrize("K", [64, 128, 320, 200])
def test_results(K, persistent, threads):
    sizes = 200, 136, K
    kernel = tilelang.compile(
        scaled(*sizes, threads=threads, persistent=persistent), target="sm_100a"
    )
    check(kernel, *sizes)
    assert ("two slots" in remarks(kernel)) == (K > 64)  # else there is no loop


def test_schedule_shows_the_channel():
    kernel = tilelang.compile(scaled(256, 128, 512), target="sm_100a")
    channels = [channel for launch in kernel.schedule().launches for channel in launch.channels]
    (operand,) = [channel for channel in channels if channel.memory == "tensor memory"]
    assert (operand.slots, operand.producer, operand.consumer) == (2, "threads", "mma")
    assert operand.release == "tcgen05.commit"


def test_full_tensor_memory_keeps_one_slot():
    kernel = tilelang.compile(scaled(256, 256, 256, columns=256), target="sm_100a")
    check(kernel, 256, 256, 256)
    assert "two slots" in remarks(kernel)

    @T.prim_func
    def full(
        A: T.Tensor((128, 256), "bfloat16"),
        B: T.Tensor((256, 256), "bfloat16"),
        C: T.Tensor((128, 256), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((256, 64), "bfloat16")
            r = T.alloc_fragment((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 256), "float32")
            others = T.alloc_tmem((128, 224), "float32")
            s = T.alloc_fragment((128, 224), "float32")
            T.fill(s, 1)
            T.copy(s, others)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.copy(a, r)
                for i, j in T.Parallel(128, 64):
                    r[i, j] = r[i, j] * T.bfloat16(2)
                T.gemm(r, b, c, transpose_B=True)
            T.copy(others, s)
            for i, j in T.Parallel(128, 224):
                C[i, j] = c[i, j] + s[i, j] - 1
            T.copy(c, C)

    kernel = tilelang.compile(full, target="sm_100a")
    assert "two slots" not in remarks(kernel)
    a, b = torch.randn(128, 256).bfloat16(), torch.randn(256, 256).bfloat16()
    c = torch.empty(128, 256)
    kernel(a, b, c)
    torch.testing.assert_close(c, 2 * a.float() @ b.float().T, rtol=1e-2, atol=1e-1)


def test_threads_that_read_results_take_turns():
    """Threads scale the sums in each iteration: they and the tensor core take turns."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "bfloat16"),
        B: T.Tensor((64, 256), "bfloat16"),
        C: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            r = T.alloc_fragment((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.copy(a, r)
                for i, j in T.Parallel(128, 64):
                    c[i, j] = c[i, j] * 0.5
                T.gemm(r, b, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_100a")
    assert "two slots" not in remarks(kernel)
    a, b = torch.randn(128, 256).bfloat16(), torch.randn(64, 256).bfloat16()
    c = torch.empty(128, 64)
    kernel(a, b, c)
    want = torch.zeros(128, 64)
    for k in range(0, 256, 64):
        want = want / 2 + a[:, k : k + 64].float() @ b[:, k : k + 64].float().T
    torch.testing.assert_close(c, want, rtol=1e-2, atol=1e-1)


def dequantised(M, N, K, rows=128, columns=64, threads=128, stages=3, by_copy=False, partial=False):
    """C = A W^T, W of four bits: threads write its bfloat16 values to shared memory.

    ``by_copy``: from a fragment. ``partial``: only odd steps write all columns of the tile.
    """
    depth = 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        W: T.Tensor((N, K // 2), "uint8"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), "bfloat16")
            packed = T.alloc_shared((columns, depth // 2), "uint8")
            w = T.alloc_shared((columns, depth), "bfloat16")
            wide = T.alloc_fragment((columns, depth), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            if partial:
                T.clear(w)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=stages):
                T.copy(A[by * rows, k * depth], a)
                T.copy(W[bx * columns, k * depth // 2], packed)
                if by_copy:
                    for i, j in T.Parallel(columns, depth):
                        wide[i, j] = ((packed[i, j // 2] >> (4 * (j % 2))) & 15) - 8
                    T.copy(wide, w)
                elif partial:
                    for i, j in T.Parallel(columns, depth):
                        if k % 2 == 1 or j % 2 == 0:
                            w[i, j] = ((packed[i, j // 2] >> (4 * (j % 2))) & 15) - 8
                else:
                    for i, j in T.Parallel(columns, depth):
                        nibble = (packed[i, j // 2] >> (4 * (j % 2))) & 15
                        w[i, j] = nibble - 8
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * rows, bx * columns])

    return main


def check_dequantised(kernel, M, N, K, partial=False):
    a = torch.randint(-4, 5, (M, K)).bfloat16()
    packed = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8)
    w = torch.stack([packed & 15, packed >> 4], dim=-1).reshape(N, K).float() - 8
    if partial:  # odd columns keep what the last odd step wrote
        steps = w.reshape(N, -1, 64)
        for k in range(0, steps.shape[1], 2):
            steps[:, k, 1::2] = steps[:, k - 1, 1::2] if k else 0
        w = steps.reshape(N, -1)
    c = torch.full((M, N), torch.nan)
    kernel(a, packed, c)
    torch.testing.assert_close(c, a.float() @ w.T, rtol=0, atol=0)


@every_schedule
@pytest.mark.parametrize("by_copy", [False, True])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("K", [128, 192, 448])
def test_operands_in_shared_memory(K, threads, by_copy):
    sizes = 200, 136, K
    kernel = tilelang.compile(
        dequantised(*sizes, threads=threads, by_copy=by_copy), target="sm_100a"
    )
    assert 'two slots of "w" in shared memory' in remarks(kernel)
    check_dequantised(kernel, *sizes)


@every_schedule
def test_operands_that_an_iteration_writes_in_part_have_one_slot():
    kernel = tilelang.compile(dequantised(128, 64, 448, partial=True), target="sm_100a")
    assert "two slots" not in remarks(kernel)
    check_dequantised(kernel, 128, 64, 448, partial=True)


def test_full_shared_memory_keeps_one_slot():
    """Twelve stages of 18 KiB and a tile of 8 KiB leave less than 8 KiB."""
    sizes = 128, 64, 1024
    kernel = tilelang.compile(
        dequantised(*sizes, stages=12),
        target="sm_100a",
        pass_configs={"tl.disable_tile_choice": True},
    )
    assert "two slots" not in remarks(kernel)
    check_dequantised(kernel, *sizes)


def computed(form, K, rows=128, columns=64):
    """C = A' W^T, threads write W = B - 1; A' = A + 1 by threads, too, where ``form`` says "both".

    "persistent": a block computes all tiles. "twice": two gemms read each tile of W. "guarded":
    only even steps multiply. "read": threads read W behind the gemm. "before": threads also write
    W before the loop. "updated": the loop that writes W also writes B, which TMA has loaded;
    "updated, guarded": the same where only even steps multiply.
    """
    depth = 64
    M, N = 2 * rows, 2 * columns
    steps = K // depth if isinstance(K, int) else T.ceildiv(K, depth)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1 if form == "persistent" else 4, threads=128) as block:
            a = T.alloc_shared((rows, depth), "bfloat16")
            x = T.alloc_shared((rows, depth), "bfloat16")
            b = T.alloc_shared((columns, depth), "bfloat16")
            w = T.alloc_shared((columns, depth), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            d = T.alloc_fragment((rows, columns), "float32")
            seen = T.alloc_fragment((columns, depth), "bfloat16")
            for tile in T.serial(4 if form == "persistent" else 1):
                by, bx = (block + tile) // 2, (block + tile) % 2
                T.clear(c)
                T.clear(d)
                if form == "before":
                    T.fill(w, 7)
                for k in T.Pipelined(steps, num_stages=3):
                    T.copy(A[by * rows, k * depth], a)
                    T.copy(B[bx * columns, k * depth], b)
                    for i, j in T.Parallel(columns, depth):
                        if "updated" in form:
                            b[i, j] = b[i, j] - T.bfloat16(1)
                            w[i, j] = b[i, j]
                        else:
                            w[i, j] = b[i, j] - T.bfloat16(1)
                    if form == "both":
                        for i, j in T.Parallel(rows, depth):
                            x[i, j] = a[i, j] + T.bfloat16(1)
                        T.gemm(x, w, c, transpose_B=True)
                    elif "guarded" in form:
                        if k % 2 == 0:
                            T.gemm(a, w, c, transpose_B=True)
                    else:
                        T.gemm(a, w, c, transpose_B=True)
                    if form == "twice":
                        T.gemm(a, w, d, transpose_B=True)
                    if form == "read":
                        T.copy(w, seen)
                if form == "twice":
                    for i, j in T.Parallel(rows, columns):
                        c[i, j] += d[i, j]
                T.copy(c, C[by * rows, bx * columns])

    return main


FORMS = [
    *("plain", "persistent", "twice", "both", "guarded", "read", "before"),
    *("updated", "updated, guarded"),
]


@every_schedule
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_forms_of_computed_operands(form, known, steps):
    K = 64 * steps
    kernel = tilelang.compile(computed(form, K if known else T.dynamic("K")), target="sm_100a")
    a, b = torch.randint(-3, 4, (256, K)).bfloat16(), torch.randint(-3, 4, (128, K)).bfloat16()
    c = torch.full((256, 128), torch.nan)
    kernel(a, b, c)
    x, w = (a.float() + 1 if form == "both" else a.float()), b.float() - 1
    if "guarded" in form:
        w.view(128, steps, 64)[:, 1::2] = 0
    want = x @ w.T * (2 if form == "twice" else 1)
    torch.testing.assert_close(c, want, rtol=0, atol=0)
