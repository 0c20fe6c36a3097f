"""GEMM on Hopper in clusters of blocks that share their tiles of A: C = A @ B^T.

A pipeline by hand. In each block one warp loads, four compute. The tile of A goes to all blocks of
a cluster at once; who loads it must know that its slot is free in all of them, so the consumers of
every block release it in every block. (T.Pipelined is shorter, and the L2 cache merges loads of
neighbouring blocks anyway: measure before you use this.)

    python gemm_multicast.py [--m 256] [--n 256] [--k 256] [--blocks 2]
"""

import argparse

import torch

import tilelang
import tilelang.language as T


def gemm(M, N, K, blocks, block_M=128, block_N=64, block_K=64, stages=4, dtype="bfloat16"):
    """Returns C (M, N) float32 = A (M, K) @ B (N, K)^T as a prim_func.

    ``blocks`` form a cluster along N; ``block_M``, ``block_N * blocks`` and ``block_K`` divide M, N
    and K.
    """
    everyone = (1 << blocks) - 1

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), "float32"),
    ):
        grid = (N // block_N, M // block_M)
        with T.Kernel(*grid, threads=160, cluster_dims=(blocks, 1, 1)) as (bx, by):
            a = T.alloc_shared((stages, block_M, block_K), dtype)
            b = T.alloc_shared((stages, block_N, block_K), dtype)
            c = T.alloc_fragment((block_M, block_N), "float32")
            full = T.alloc_barrier([32] * stages)
            empty = T.alloc_cluster_barrier([128 * blocks] * stages)
            if T.get_warp_idx() == 4:
                for k in T.serial(K // block_K):
                    s = k % stages
                    T.mbarrier_wait_parity(empty[s], k // stages % 2 ^ 1)
                    row, column = by * block_M, bx * block_N
                    T.tma_copy(
                        A[row, k * block_K], a[s, :, :], barrier=full[s], cluster_mask=everyone
                    )
                    T.tma_copy(B[column, k * block_K], b[s, :, :], barrier=full[s])
                    T.mbarrier_arrive(full[s])
            else:
                T.clear(c)
                for k in T.serial(K // block_K):
                    s = k % stages
                    T.mbarrier_wait_parity(full[s], k // stages % 2)
                    T.gemm(a[s, :, :], b[s, :, :], c, transpose_B=True)
                    for rank in T.serial(blocks):
                        T.mbarrier_arrive(empty[s], rank)
                T.copy(c, C[by * block_M, bx * block_N])

    return main


def main():
    """Compiles, runs and checks the kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("m", 256), ("n", 256), ("k", 256), ("blocks", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    kernel = tilelang.compile(gemm(args.m, args.n, args.k, args.blocks), target="sm_90a")
    a = torch.randn(args.m, args.k).bfloat16().to(args.device)
    b = torch.randn(args.n, args.k).bfloat16().to(args.device)
    c = torch.full((args.m, args.n), float("nan"), device=args.device)
    kernel(a, b, c)
    exact = a.cpu().double() @ b.cpu().double().T
    error = ((c.cpu().double() - exact).norm() / exact.norm()).item()
    print(f"relative error {error:.2g}")
    assert error < 1e-5
    print("correct")


if __name__ == "__main__":
    main()
