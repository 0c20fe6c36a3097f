"""Tensors that were expanded, so that several elements are one: kernels may read them."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def gemm(stride):
    """C (m, 64) = A (m, 128) B^T, rows of A ``stride`` elements apart."""
    m = T.dynamic("m")

    @T.prim_func
    def kernel(
        A: T.StridedTensor((m, 128), (stride, 1), "float16"),
        B: T.Tensor((64, 128), "float16"),
        C: T.Tensor((m, 64), "float32"),
    ):
        with T.Kernel(1, T.ceildiv(m, 128), threads=128) as (_, by):
            x = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 128, k * 64], x)
                T.copy(B[0, k * 64], b)
                T.gemm(x, b, c, transpose_B=True)
            T.copy(c, C[by * 128, 0])

    return kernel


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("known", [False, True])
def test_a_gemm_reads_one_row_for_all(target: str, known: bool) -> None:
    kernel = tilelang.compile(gemm(0 if known else T.dynamic("s")), target=target)
    a = torch.randint(-2, 3, (1, 128)).half().expand(200, 128)
    b = torch.randint(-2, 3, (64, 128)).half()
    strides = (a,) if known else (a, torch.randint(-2, 3, (200, 256)).half()[:, :128])
    for tensor in strides:
        c = torch.full((200, 64), float("nan"))
        kernel(tensor, b, c)
        assert torch.equal(c.double(), tensor.double() @ b.double().T)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_threads_load_rows_that_are_one(target: str) -> None:
    """No tensor map has a stride of 0; where the call gives the stride, another launch runs."""
    dynamic = tilelang.compile(gemm(T.dynamic("s")), target=target)
    assert any("0 < s" in remark.message for remark in dynamic.remarks)
    known = tilelang.compile(gemm(0), target=target)
    assert "A_map" not in known.get_kernel_source()
    assert any("stride 0 of dimension 0 of A" in remark.message for remark in known.remarks)


def test_a_stride_of_int32_sizes_does_not_wrap() -> None:
    """The host computes n * 1024 in 64 bits."""
    n = T.dynamic("n")

    @T.prim_func
    def kernel(A: T.StridedTensor((2, n), (n * 1024, 1), "uint8"), C: T.Tensor((2, 8), "uint8")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(2, 8):
                C[i, j] = A[i, j]

    size = 2**21 + 64
    memory = torch.empty(size * 1024 + size, dtype=torch.uint8)
    a = memory.as_strided((2, size), (size * 1024, 1))
    a[:, :8] = torch.arange(16, dtype=torch.uint8).view(2, 8)
    c = torch.zeros(2, 8, dtype=torch.uint8)
    compiled = tilelang.compile(kernel, target="sm_80")
    compiled(a, c)
    assert torch.equal(c, a[:, :8])
    with pytest.raises(tilelang.errors.ArgumentError, match=rf"must be n \* 1024 = {size * 1024}"):
        compiled(memory.as_strided((2, size), (size * 512, 1)), c)
