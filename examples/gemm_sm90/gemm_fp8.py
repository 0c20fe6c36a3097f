"""GEMM of float8 on Hopper, its sums kept in float32: C = A @ B^T.

The tensor core keeps 13 bits of a sum of float8. With promote_every= it sums so many products along
K; the threads add these sums in float32.

    python gemm_fp8.py [--m 128] [--n 128] [--k 2048] [--dtype float8_e4m3fn]
"""

import argparse

import torch

import tilelang
import tilelang.language as T


def gemm(M, N, K, promote_every, dtype, block_M=128, block_N=128, block_K=128, threads=256):
    """Returns C (M, N) float32 = A (M, K) @ B (N, K)^T of ``dtype`` as a prim_func.

    ``promote_every`` divides ``block_K``; None leaves the sums to the tensor core.
    """
    promotion = {} if promote_every is None else {"promote_every": promote_every}

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a = T.alloc_shared((block_M, block_K), dtype)
            b = T.alloc_shared((block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[bx * block_N, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True, **promotion)
            T.copy(c, C[by * block_M, bx * block_N])

    return main


def relative_error(kernel, a: torch.Tensor, b: torch.Tensor) -> float:
    """The norm of the error of ``kernel(a, b, c)`` over that of the product in float64."""
    exact = a.cpu().double() @ b.cpu().double().T
    c = torch.full(exact.shape, float("nan"), device=a.device)
    kernel(a, b, c)
    return ((c.cpu().double() - exact).norm() / exact.norm()).item()


def main():
    """Compiles both, runs and checks them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("m", 128), ("n", 128), ("k", 2048)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--dtype", choices=("float8_e4m3fn", "float8_e5m2"), default="float8_e4m3fn"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    kind = getattr(torch, args.dtype)
    a = torch.randn(args.m, args.k).to(kind).to(args.device)
    b = torch.randn(args.n, args.k).to(kind).to(args.device)
    errors = {}
    for promote_every in (None, 128):
        function = gemm(args.m, args.n, args.k, promote_every, args.dtype)
        errors[promote_every] = relative_error(tilelang.compile(function, target="sm_90a"), a, b)
        print(f"promote_every={promote_every}: relative error {errors[promote_every]:.2g}")
    assert errors[128] < 3e-4
    print("correct")


if __name__ == "__main__":
    main()
