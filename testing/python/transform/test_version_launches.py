"""Plain gemms of sizes of the call: a kernel for rows of whole vectors, and one for all."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned
from transform.odd_rows import OFF

import tilelang
import tilelang.language as T

ONE = {tilelang.PassConfigKey.TL_DISABLE_LAUNCH_VERSIONS: True}
AS_WRITTEN = {tilelang.PassConfigKey.TL_DISABLE_TILE_CHOICE: True}


def program(rows=None, columns=None, depth=None, multiple=None, order="NN"):
    """C = A B; sizes that are not given are those of the call."""
    M, N, K = rows or T.dynamic("M"), columns or T.dynamic("N"), depth or T.dynamic("K")
    tb = order[1] == "T"

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K) if tb else (K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((64, 32) if tb else (32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            if multiple:
                T.assume(N % multiple == 0)
                T.assume(K % multiple == 0)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[bx * 64, k * 32] if tb else B[k * 32, bx * 64], b)
                T.gemm(a, b, c, transpose_B=tb)
            T.copy(c, C[by * 64, bx * 64])

    return main


def check(kernel, rows, columns, depth, order="NN"):
    a, b = torch.randn(rows, depth).half(), torch.randn(depth, columns).half()
    c = poisoned((rows, columns), "float16", "cpu")
    kernel(a, b.T.contiguous() if order[1] == "T" else b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=2e-3, atol=1e-2)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("order", ["NN", "NT"])
def test_each_call_takes_one(target, order):
    kernel = tilelang.compile(program(order=order), target=target, pass_configs=OFF)
    source = kernel.get_kernel_source()
    *by_vectors, by_elements = source.split("__global__")[1:]
    fast = "tl::cp_async(" if target == "sm_80" else "tl::tma_load"
    assert all(fast in text for text in by_vectors) and fast not in by_elements
    assert len(by_vectors) <= (1 if target == "sm_80" else 5)  # with tiles for different sizes
    for sizes in [(70, 72, 40), (70, 71, 40), (70, 72, 41), (65, 1, 1), (3, 136, 200)]:
        check(kernel, *sizes, order=order)
    assert "is a multiple of 8" in " ".join(remark.message for remark in kernel.remarks)


@pytest.mark.parametrize("options", [{"columns": 72}, {"depth": 40}], ids=str)
def test_one_size_of_the_call(options):
    kernel = tilelang.compile(program(**options), target="sm_90a")
    assert "main_kernel_1" in kernel.get_kernel_source()
    for size in (64, 77):
        check(kernel, 70, options.get("columns", size), options.get("depth", size))


@pytest.mark.parametrize(
    ("options", "configs"),
    [
        ({"columns": 72, "depth": 40}, AS_WRITTEN),  # rows of the call alone
        ({"columns": 71, "depth": 41}, AS_WRITTEN),
        ({"multiple": 8}, AS_WRITTEN),
        ({}, ONE),
    ],
    ids=str,
)
def test_one_kernel_is_enough(options, configs):
    kernel = tilelang.compile(program(**options), target="sm_90a", pass_configs=configs)
    assert "main_kernel_1" not in kernel.get_kernel_source()
    check(kernel, 70, options.get("columns", 72), options.get("depth", 40))


def test_exported_libraries_describe_the_tensors_of_one(tmp_path):
    kernel = tilelang.compile(program(), target="sm_90a", pass_configs=OFF | AS_WRITTEN)
    kernel.export_host_source(tmp_path / "gemm.cc")
    apart = (tmp_path / "gemm.cc").read_text().split("namespace overlapping")[0]
    first, second = apart.split("!IsEmpty(grid)")[1:]
    assert "TensorMap a" in first and "TensorMap a" not in second
