"""Each warpgroup stores the part of a tile that it has filled, and waits for nobody else."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
every_schedule = pytest.mark.every_schedule
OWN_BARRIERS = "tl::sync_threads((warp >> 2) + "


def persistent(M, N, K, m, n, threads, policy=T.GemmWarpPolicy.FullRow, out="bfloat16"):
    """C = A B^T by three blocks, each with several tiles."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), out)
    ):  # fmt: skip
        with T.Kernel(3, threads=threads) as block:
            a = T.alloc_shared((m, 64), "bfloat16")
            b = T.alloc_shared((n, 64), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            tile = T.alloc_shared((m, n), out)
            for by, bx in T.Persistent([T.ceildiv(M, m), T.ceildiv(N, n)], 3, block):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                    T.copy(A[by * m, i * 64], a)
                    T.copy(B[bx * n, i * 64], b)
                    T.gemm(a, b, c, transpose_B=True, policy=policy)
                T.copy(c, tile)
                T.copy(tile, C[by * m, bx * n])

    return tilelang.compile(main, target="sm_90a")


def check(kernel, M, N, K, out, device):
    a, b = (torch.randn(rows, K).bfloat16().to(device) for rows in (M, N))
    c = poisoned((M, N), out, device)
    kernel(a, b, c)
    want = a.double() @ b.double().T
    assert (c.double() - want).norm() < 4e-3 * want.norm()
    assert (c.double() - want).abs().max() < 2**-6 * want.abs().max()


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("m", "n", "threads", "policy", "out"),
    [
        (128, 64, 256, T.GemmWarpPolicy.FullRow, "bfloat16"),
        (192, 64, 384, T.GemmWarpPolicy.FullRow, "bfloat16"),
        (128, 64, 256, T.GemmWarpPolicy.FullRow, "float32"),
        (64, 256, 256, T.GemmWarpPolicy.FullCol, "bfloat16"),
        (64, 128, 256, T.GemmWarpPolicy.FullCol, "float32"),
        (88, 128, 256, T.GemmWarpPolicy.FullCol, "bfloat16"),
        (40, 192, 384, T.GemmWarpPolicy.Square, "bfloat16"),
        (80, 64, 256, T.GemmWarpPolicy.FullRow, "bfloat16"),
        (24, 128, 256, T.GemmWarpPolicy.FullCol, "float32"),
    ],
)
def test_tiles_of_a_persistent_kernel(m, n, threads, policy, out, device):
    M, N, K = 2 * m + 40, 2 * n + 24, 200
    kernel = persistent(M, N, K, m, n, threads, policy, out)
    source = kernel.get_kernel_source()
    assert source.count(OWN_BARRIERS) == 2
    assert f"tl::sync_threads(15, {threads})" not in source
    assert "warp == 4" in source
    check(kernel, M, N, K, out, device)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
def test_one_tile_a_block(device):
    @T.prim_func
    def main(A: T.Tensor((200, 64), "bfloat16"), B: T.Tensor((64, 64), "bfloat16"),
             C: T.Tensor((200, 64), "bfloat16")):  # fmt: skip
        with T.Kernel(2, threads=256) as bx:
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A[bx * 128, 0], a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, a)  # which all have read
            T.copy(a, C[bx * 128, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    source = kernel.get_kernel_source()
    assert source.count(OWN_BARRIERS) == 1 and source.count("__syncthreads()") == 2
    a, b = (torch.randn(rows, 64).bfloat16().to(device) for rows in (200, 64))
    c = poisoned((200, 64), "bfloat16", device)
    kernel(a, b, c)
    assert (c.double() - a.double() @ b.double().T).norm() < 4e-3 * c.double().norm()


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("policy", [T.GemmWarpPolicy.FullRow, T.GemmWarpPolicy.FullCol])
def test_transposed_tiles(policy, device):
    """Warpgroups have rows of the product, columns of the tile, or the other way round."""

    @T.prim_func
    def main(A: T.Tensor((384, 64), "bfloat16"), B: T.Tensor((128, 64), "bfloat16"),
             C: T.Tensor((128, 384), "float32")):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            tile = T.alloc_shared((128, 128), "float32")
            T.copy(B, b)
            for by in T.serial(3):
                T.copy(A[by * 128, 0], a)
                T.gemm(a, b, c, transpose_B=True, clear_accum=True, policy=policy)
                for j, i in T.Parallel(128, 128):
                    tile[j, i] = c[i, j]
                T.copy(tile, C[0, by * 128])

    kernel = tilelang.compile(main, target="sm_90a")
    assert kernel.get_kernel_source().count(OWN_BARRIERS) == 2
    a, b = (torch.randn(rows, 64).bfloat16().to(device) for rows in (384, 128))
    c = poisoned((128, 384), "float32", device)
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), b.double() @ a.double().T, atol=1e-3, rtol=1e-5)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("columns", "block"), [(128, 8), (96, 16), (192, 64)])
def test_tiles_of_blocks_of_columns(columns, block, device):
    """Warpgroups have half of the columns each: whole blocks of them, but of three."""
    blocks = columns // block

    @T.prim_func
    def main(A: T.Tensor((64, 64), "bfloat16"), B: T.Tensor((64, columns), "bfloat16"),
             F: T.Tensor((64,), "float32"),
             C: T.Tensor((3, blocks, 64, block), "float32")):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "bfloat16")
            b = T.alloc_shared((64, columns), "bfloat16")
            T.annotate_layout({b: tilelang.layout.make_quarter_bank_swizzled_layout(b)})
            c = T.alloc_fragment((64, columns), "float32")
            factors = T.alloc_fragment((64,), "float32")
            tile = T.alloc_shared((blocks, 64, block), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(F, factors)
            T.clear(c)
            for i in T.serial(3):
                T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullCol)
                for q, d in T.Parallel(64, columns):
                    tile[d // block, q, d % block] = c[q, d] * factors[q]
                T.copy(tile, C[i, :, :, :])

    kernel = tilelang.compile(main, target="sm_90a")
    assert f"wgmma_m64n{columns // 2}k16" in kernel.get_kernel_source()
    assert (OWN_BARRIERS in kernel.get_kernel_source()) == (blocks % 2 == 0)
    a, b, f = torch.randn(64, 64), torch.randn(64, columns), torch.randn(64, device=device)
    a, b = a.bfloat16().to(device), b.bfloat16().to(device)
    c = poisoned((3, blocks, 64, block), "float32", device)
    kernel(a, b, f, c)
    want = (f.double()[:, None] * (a.double() @ b.double())).view(64, blocks, block)
    for i in range(3):
        torch.testing.assert_close(
            c[i].double(), (i + 1) * want.transpose(0, 1), atol=1e-3, rtol=1e-5
        )


def windows(step, twice=False):
    """Tiles of 128 rows, one after another, each ``step`` rows further."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "bfloat16"), B: T.Tensor((64, 64), "bfloat16"),
             C: T.Tensor((512, 64), "bfloat16")):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            tile = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for i in T.serial(4):
                T.gemm(a, b, c, transpose_B=True)
                T.copy(c, tile)
                T.copy(tile, C[i * step, 0])
                if twice:
                    T.copy(tile, C[i * step + 64, 0])

    return tilelang.compile(main, target="sm_90a")


@every_schedule
@pytest.mark.parametrize(("step", "twice"), [(128, False), (64, False), (128, True)])
def test_windows_that_overlap_are_stored_by_one_thread(step, twice):
    """Else the store of one warpgroup could overtake the later one of another."""
    kernel = windows(step, twice)
    apart = step == 128 and not twice
    assert (OWN_BARRIERS in kernel.get_kernel_source()) == apart
    a, b = torch.randn(128, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    c = poisoned((512, 64), "bfloat16", "cpu")
    kernel(a, b, c)
    want = torch.full((640, 64), float("nan"), dtype=torch.float64)
    for i in range(4):
        tile = (i + 1) * (a.double() @ b.double().T)
        want[i * step : i * step + 128] = tile
        if twice:
            want[i * step + 64 : i * step + 192] = tile
    written = ~want[:512].isnan()
    assert torch.equal(written, ~c.isnan())
    assert (c.double() - want[:512])[written].norm() < 4e-3 * want[:512][written].norm()


def test_too_few_barriers_for_each_warpgroup():
    """All wait together: slower, and as right."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "bfloat16"), B: T.Tensor((64, 64), "bfloat16"),
             C: T.Tensor((128, 64), "bfloat16")):  # fmt: skip
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for number in T.serial(14):
                T.sync_threads(number + 1, 256)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, a)
            T.copy(a, C)

    kernel = tilelang.compile(main, target="sm_90a")
    source = kernel.get_kernel_source()
    assert OWN_BARRIERS not in source and "warp == 4" in source
    a, b = torch.randn(128, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    c = poisoned((128, 64), "bfloat16", "cpu")
    kernel(a, b, c)
    assert (c.double() - a.double() @ b.double().T).norm() < 4e-3 * c.double().norm()
