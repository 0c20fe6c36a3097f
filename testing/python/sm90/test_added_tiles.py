"""Tiles in shared memory that are added to a tensor: by the tensor memory accelerator."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
every_schedule = pytest.mark.every_schedule
BY_TMA = "tl::tma_store_add"


def added(dtype="float32", rows=200, blocks=3, columns=64, read=False):
    """Blocks add tiles of 128 rows that overlap, each four times."""

    @T.prim_func
    def main(A: T.Tensor((blocks * 64 + 64, columns), dtype), C: T.Tensor((rows, columns), dtype),
             D: T.Tensor((1,), dtype)):  # fmt: skip
        with T.Kernel(blocks, threads=128) as bx:
            a = T.alloc_shared((128, columns), dtype)
            for i in T.serial(4):
                for r, q in T.Parallel(128, columns):
                    a[r, q] = A[bx * 64 + r, q] * (i + 1)
                T.atomic_add(C[bx * 64, 0], a)
            if read:
                D[0] = C[0, 0]

    return tilelang.compile(main, target="sm_90a")


def check(kernel, dtype, rows, blocks, columns, device="cpu"):
    torch_dtype = getattr(torch, dtype)
    a = torch.randint(-8, 9, (blocks * 64 + 64, columns), device=device).to(torch_dtype)
    start = torch.randint(-8, 9, (rows, columns), device=device).to(torch_dtype)
    c, d = start.clone(), torch.zeros(1, dtype=torch_dtype, device=device)
    kernel(a, c, d)
    want = start.double()
    for block in range(blocks):
        end = min(block * 64 + 128, rows)
        want[block * 64 : end] += 10 * a[block * 64 : end].double()
    assert torch.equal(c.double(), want)


@every_schedule
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sums(dtype, device):
    """Integers, so that the order does not matter; the last tile reaches beyond the tensor."""
    kernel = added(dtype)
    assert BY_TMA in kernel.get_kernel_source()
    check(kernel, dtype, 200, 3, 64, device)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dtype": "float64"}, "would add float64"),
        ({"columns": 63}, "no multiple of 16 bytes"),
        ({"read": True}, "also reads C"),
    ],
)
def test_by_threads_where_the_accelerator_cannot(options, reason):
    kernel = added(**options)
    remarks = [str(remark) for remark in kernel.remarks if "T.atomic_add(C" in str(remark)]
    assert any(reason in remark for remark in remarks)
    assert BY_TMA not in kernel.get_kernel_source()
    assert "tl::atomic_add" in kernel.get_kernel_source()
    check(kernel, options.get("dtype", "float32"), 200, 3, options.get("columns", 64))


def test_a_sum_after_a_copy_waits_for_it():
    @T.prim_func
    def main(C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float32")
            b = T.alloc_shared((128, 64), "float32")
            T.fill(a, 3)
            T.fill(b, 4)
            T.copy(a, C)
            T.atomic_add(C, b)

    kernel = tilelang.compile(main, target="sm_90a")
    assert "tl::tma_store_wait<0>" in kernel.get_kernel_source()
    c = torch.full((128, 64), float("nan"))
    kernel(c)
    assert (c == 7).all()
