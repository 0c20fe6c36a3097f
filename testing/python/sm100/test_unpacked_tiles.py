"""T.float4_e2m1_unpacked tiles: as tensor cores read 4-bit floats beside float8, by T.tma_copy."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T

M, N, K = 128, 64, 128
E2M1 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def test_product_of_float4_and_float8() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float4_e2m1fn),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), T.float4_e2m1_unpacked)
            b = T.alloc_shared((N, K), "float8_e4m3fn")
            c = T.alloc_fragment((M, N), "float32")
            loaded = T.alloc_barrier([32])
            if T.get_thread_binding() < 32:
                T.tma_copy(A[0:M, 0:K], a, barrier=loaded)
                T.tma_copy(B, b, barrier=loaded)
                T.mbarrier_arrive(loaded)
            T.mbarrier_wait_parity(loaded, 0)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    codes = torch.randint(0, 16, (M, K))
    a = (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8)
    b = torch.randint(-4, 5, (N, K)).to(torch.float8_e4m3fn)
    c = torch.full((M, N), float("nan"))
    tilelang.compile(main, target="sm_100a")(a, b, c)
    assert torch.equal(c, E2M1[codes] @ b.float().T)


def test_slices_whose_bounds_are_divided() -> None:
    """``i * 64 // 2`` begins at a multiple of 32, and extents are constants."""

    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((64, 256), "float16"), n: T.int32):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            loaded = T.alloc_barrier([128])
            i = T.alloc_var("int32", init=0)
            while i < n:
                T.tma_copy(A[:, i * 64 // 2 : (i + 1) * 64 // 2], a, barrier=loaded)
                T.mbarrier_arrive(loaded)
                T.mbarrier_wait_parity(loaded, i % 2)
                T.copy(a, B[:, i * 64 // 2 : (i + 1) * 64 // 2])
                i += 1

    a, b = torch.randn(64, 256).half(), torch.zeros(64, 256).half()
    tilelang.compile(main, target="sm_100a")(a, b, 8)
    assert torch.equal(a, b)
