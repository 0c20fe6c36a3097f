"""Accumulators to shared memory by stmatrix, in 16 bits, and from there by the tensor memory
accelerator."""

from __future__ import annotations

import pytest
import torch
from block_gemms import integers
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
WITHOUT_WGMMA = {"tl.disable_wgmma": True}


def product(
    m: int,
    n: int,
    threads: int,
    accumulator: str = "float32",
    staged: str = "float16",
    layout=None,
    by_loop: bool = False,
    configs: dict | None = None,
    target: str = "sm_90a",
):
    """C = 2 A @ B^T by way of a tile in shared memory."""

    @T.prim_func
    def main(
        A: T.Tensor((m, 32), "float16"),
        B: T.Tensor((n, 32), "float16"),
        C: T.Tensor((m, n), staged),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, 32), "float16")
            b = T.alloc_shared((n, 32), "float16")
            c = T.alloc_fragment((m, n), accumulator)
            d = T.alloc_shared((m, n), staged)
            if layout is not None:
                T.annotate_layout({d: layout(d)})
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(m, n):
                c[i, j] *= 2
            if by_loop:
                for i, j in T.Parallel(m, n):
                    d[i, j] = c[i, j]
            else:
                T.copy(c, d)
            T.copy(d, C)

    return tilelang.compile(main, target=target, pass_configs=configs)


def check(kernel, m: int, n: int, staged: str = "float16", device: str = "cpu") -> None:
    a, b = integers((m, 32), "float16", device), integers((n, 32), "float16", device)
    c = poisoned((m, n), staged, device)
    kernel(a, b, c)
    want = (2 * a.double() @ b.double().T).to(getattr(torch, staged))
    assert torch.equal(c, want)


def stores(kernel) -> list[str]:
    """``x4``, ``x4.trans``, .. of each stmatrix."""
    lines = kernel.get_ptx().splitlines()
    return [
        line.split(".m8n8.")[1].split(".shared")[0] for line in lines if "stmatrix.sync" in line
    ]


@pytest.mark.every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("staged", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("m", "n", "threads", "kinds"),
    [(64, 64, 128, {"x4"}), (128, 32, 256, {"x4"}), (256, 48, 128, {"x4"}), (64, 8, 128, {"x2"})],
)
def test_sizes(m, n, threads, kinds, staged, device):
    kernel = product(m, n, threads, staged=staged)
    assert set(stores(kernel)) == kinds
    assert len(stores(kernel)) == m * n // threads // (8 if kinds == {"x4"} else 4)
    assert "cp.async.bulk.tensor.2d.global.shared" in kernel.get_ptx()
    check(kernel, m, n, staged, device)


def test_rows_go_to_different_banks():
    """The tile is swizzled as wide as its rows allow, as the accelerator reads it."""
    assert "^ (tx & 7)" in product(64, 64, 128).get_kernel_source()


LAYOUTS = {
    "rows": tilelang.layout.make_linear_layout,
    "padded by a row of a matrix": lambda tile: tilelang.layout.make_padded_layout(tile, 8),
    "64 bytes": tilelang.layout.make_half_bank_swizzled_layout,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_that_keep_16_bytes_together(layout):
    kernel = product(64, 64, 128, layout=LAYOUTS[layout])
    assert stores(kernel) == ["x4"] * 4
    check(kernel, 64, 64)


def test_a_layout_that_does_not():
    kernel = product(64, 64, 128, layout=lambda tile: tilelang.layout.make_padded_layout(tile, 2))
    assert not stores(kernel)
    check(kernel, 64, 64)


@pytest.mark.parametrize("accumulator", ["float32", "float16"])
@pytest.mark.parametrize("by_loop", [False, True])
@pytest.mark.parametrize("configs", [None, WITHOUT_WGMMA], ids=["wgmma", "mma.sync"])
def test_fragments_of_either_instruction(configs, by_loop, accumulator):
    kernel = product(64, 64, 128, accumulator, by_loop=by_loop, configs=configs)
    assert stores(kernel) == ["x4"] * 4
    check(kernel, 64, 64)


@pytest.mark.parametrize(
    ("staged", "target"), [("float32", "sm_90a"), ("float16", "sm_80")], ids=str
)
def test_others_store_by_threads(staged, target):
    kernel = product(64, 64, 128, staged=staged, target=target)
    assert not stores(kernel)
    check(kernel, 64, 64, staged)


def slots(offset: int):
    """The stage, and the columns behind ``offset``, of a larger tile; the stage is known at run
    time only."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 16), "float16"), B: T.Tensor((4, 32, 16), "float16"),
        C: T.Tensor((4, 64, 32), "float16"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 16), "float16")
            b = T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            d = T.alloc_shared((2, 64, 64), "float16")
            T.copy(A, a)
            for i in T.serial(4):
                T.copy(B[i, :, :], b)
                T.gemm(a, b, c, transpose_B=True, clear_accum=True)
                T.copy(c, d[i % 2, :, offset : offset + 32])
                T.copy(d[i % 2, :, offset : offset + 32], C[i, :, :])

    return tilelang.compile(main, target="sm_90a")


@pytest.mark.every_schedule
@pytest.mark.parametrize(("offset", "fits"), [(0, True), (32, True), (8, True), (4, False)])
def test_slices(offset, fits):
    kernel = slots(offset)
    assert bool(stores(kernel)) == fits
    a, b = integers((64, 16), "float16"), integers((4, 32, 16), "float16")
    c = poisoned((4, 64, 32), "float16")
    kernel(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double().mT)


def transposed(m: int, n: int, threads: int, staged: str, configs: dict | None, offset: int = 0):
    """C = (A @ B^T)^T by way of columns of a tile in shared memory, ``offset`` of them before."""

    @T.prim_func
    def main(
        A: T.Tensor((m, 32), "float16"), B: T.Tensor((n, 32), "float16"),
        C: T.Tensor((n, m), staged),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((m, 32), "float16")
            b = T.alloc_shared((n, 32), "float16")
            c = T.alloc_fragment((m, n), "float32")
            d = T.alloc_shared((n, m + offset), staged)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(m, n):
                d[j, i + offset] = c[i, j]
            T.copy(d[:, offset : offset + m], C)

    return tilelang.compile(main, target="sm_90a", pass_configs=configs)


@pytest.mark.every_schedule
@pytest.mark.parametrize("configs", [None, WITHOUT_WGMMA], ids=["wgmma", "mma.sync"])
@pytest.mark.parametrize("staged", ["float16", "bfloat16"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("m", "n", "threads", "kind"),
    [(64, 64, 128, "x4"), (128, 16, 256, "x4"), (192, 48, 128, "x4"), (64, 8, 128, "x2")],
)
def test_transposed(m, n, threads, kind, staged, configs, device):
    kernel = transposed(m, n, threads, staged, configs)
    assert set(stores(kernel)) == {f"{kind}.trans"}
    a, b = integers((m, 32), "float16", device), integers((n, 32), "float16", device)
    c = poisoned((n, m), staged, device)
    kernel(a, b, c)
    assert torch.equal(c, (b.double() @ a.double().T).to(c.dtype))


@pytest.mark.parametrize(("offset", "fits"), [(8, True), (24, True), (2, False), (4, False)])
def test_transposed_slices(offset, fits):
    kernel = transposed(64, 32, 128, "float16", None, offset)
    assert stores(kernel) == (["x4.trans"] * 2 if fits else [])
    a, b = integers((64, 32), "float16"), integers((32, 32), "float16")
    c = poisoned((32, 64), "float16")
    kernel(a, b, c)
    assert torch.equal(c, (b.double() @ a.double().T).half())
