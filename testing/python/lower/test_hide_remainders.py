"""Branches of every n-th thread do not change the addresses of other threads."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T


def test_rows_of_a_reduction_beside_a_large_epilogue() -> None:
    """NVVM 13.0 gave threads 1 to 3 of four the address of another element, a misaligned one."""

    @T.prim_func
    def kernel(
        A: T.Tensor((256, 64), "float16"),
        B: T.Tensor((256, 256), "float16"),
        Products: T.Tensor((255, 240), "float16"),
        Largest: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((256, 64), "float16")
            b = T.alloc_shared((256, 256), "float16")
            p = T.alloc_fragment((64, 256), "float32")
            q = T.alloc_fragment((256, 256), "float32")
            largest = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(p)
            T.gemm(a, b, p, transpose_A=True)
            for _ in T.Pipelined(3, num_stages=4):
                T.gemm(a, a, q, transpose_B=True, clear_accum=True)
            T.reduce_max(p, largest, dim=1, clear=True)
            T.copy(q, Products[0, 0])
            T.copy(largest, Largest)

    a, b = (torch.randint(-3, 4, (256, n)).half() for n in (64, 256))
    products = torch.full((255, 240), torch.nan).half()
    largest = torch.full((64,), torch.nan)
    tilelang.compile(kernel, target="sm_100a")(a, b, products, largest)
    assert torch.equal(largest.double(), (a.double().T @ b.double()).amax(1))
    assert torch.equal(products.double(), (a.double() @ a.double().T)[:255, :240])


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("divides", [True, False])
def test_remainders_are_hidden_where_the_index_is_divided(target: str, divides: bool) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128,), "int32"), Out: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            if tx % 4 == 0 and tx < 100:
                if divides:
                    Out[tx // 4] = A[tx]
                else:
                    Out[tx] = A[tx]

    a, out = torch.randint(-99, 99, (128,)).int(), torch.full((128,), 77).int()
    want = out.clone()
    want[slice(0, 25) if divides else slice(0, 100, 4)] = a[0:100:4]
    built = tilelang.compile(kernel, target=target)
    built(a, out)
    assert torch.equal(out, want)
    hidden = re.search(r"copy_of\(", built.get_kernel_source()) is not None
    assert hidden == divides
