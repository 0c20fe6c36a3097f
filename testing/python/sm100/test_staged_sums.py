"""Results that threads add up from products, sent through shared memory."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_100a", "sm_90a"]


def scaled(M, N, K, rows=128, columns=64, threads=128, out="bfloat16", factor=True):
    """C = sum of factors of rows and steps, times products of float8; or C = 2 A B^T."""
    depth = 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        S: T.Tensor((M, T.ceildiv(K, depth)), "float32"),
        C: T.Tensor((M, N), out),
    ):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), "float8_e4m3fn")
            b = T.alloc_shared((columns, depth), "float8_e4m3fn")
            product = T.alloc_fragment((rows, columns), "float32")
            total = T.alloc_fragment((rows, columns), "float32")
            narrow = T.alloc_fragment((rows, columns), out)
            T.clear(total)
            T.clear(product)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
                T.copy(A[by * rows, k * depth], a)
                T.copy(B[bx * columns, k * depth], b)
                if factor:
                    T.clear(product)
                T.gemm(a, b, product, transpose_B=True)
                if factor:
                    for i, j in T.Parallel(rows, columns):
                        total[i, j] += product[i, j] * S[by * rows + i, k]
            if factor:
                T.copy(total, C[by * rows, bx * columns])
            else:
                for i, j in T.Parallel(rows, columns):
                    narrow[i, j] = product[i, j] * 2
                T.copy(narrow, C[by * rows, bx * columns])

    return main


def check(kernel, M, N, K, factor=True, out=torch.bfloat16):
    torch.manual_seed(M + K)
    a, b = (torch.randint(-4, 5, (rows, K)).to(torch.float8_e4m3fn) for rows in (M, N))
    s = torch.randint(1, 4, (M, (K + 63) // 64)).float()
    c = torch.full((M, N), torch.nan, dtype=out)
    kernel(a, b, s, c)
    scale = s.repeat_interleave(64, dim=1)[:, :K] if factor else 2
    torch.testing.assert_close(c, ((a.float() * scale) @ b.float().T).to(out), rtol=0, atol=0)


def is_staged(kernel) -> bool:
    return any("staged in shared memory" in remark.message for remark in kernel.remarks)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("sizes", [(1160, 520, 192), (1280, 448, 64), (130, 72, 320)])
def test_sums_of_scaled_products(sizes, threads, target):
    kernel = tilelang.compile(scaled(*sizes, threads=threads), target=target)
    few = target == "sm_90a" and sizes[0] < 1000
    assert is_staged(kernel) != few
    check(kernel, *sizes)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_results_of_another_type(target):
    sizes = 1160, 520, 192
    kernel = tilelang.compile(scaled(*sizes, factor=False), target=target)
    check(kernel, *sizes, factor=False)


def test_threads_store_if_asked_to():
    sizes = 1160, 520, 192
    off = {"tl.disable_result_staging": True}
    kernel = tilelang.compile(scaled(*sizes), target="sm_100a", pass_configs=off)
    assert not is_staged(kernel)
    check(kernel, *sizes)


def test_sums_of_float32_stay():
    kernel = tilelang.compile(scaled(1160, 520, 192, out="float32"), target="sm_100a")
    assert not is_staged(kernel)
    check(kernel, 1160, 520, 192, out=torch.float32)


@pytest.mark.every_schedule
@pytest.mark.parametrize("steps", [1, 3])
def test_partial_sums_start_in_tensor_memory(steps):
    """Partial sums that each step begins anew are not copied to tensor memory."""
    M, N, K, depth = 200, 128, 128 * steps, 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, depth), "bfloat16")
            b = T.alloc_shared((64, depth), "bfloat16")
            partial = T.alloc_fragment((128, 64), "float32")
            total = T.alloc_fragment((128, 64), "float32")
            for by, bx in T.Persistent([T.ceildiv(M, 128), N // 64], 1, 0):
                T.clear(total)
                for step in T.serial(steps):
                    T.clear(partial)
                    for k in T.Pipelined(2, num_stages=3):
                        T.copy(A[by * 128, step * 128 + k * depth], a)
                        T.copy(B[bx * 64, step * 128 + k * depth], b)
                        T.gemm(a, b, partial, transpose_B=True)
                    for i, j in T.Parallel(128, 64):
                        total[i, j] += partial[i, j] * (step + 1)
                T.copy(total, C[by * 128, bx * 64])

    kernel = tilelang.compile(main, target="sm_100a")
    assert "tcgen05.st" not in kernel.get_ptx()
    a, b = torch.randint(-4, 5, (M, K)).bfloat16(), torch.randint(-4, 5, (N, K)).bfloat16()
    c = torch.full((M, N), torch.nan)
    kernel(a, b, c)
    factors = torch.arange(1, steps + 1).repeat_interleave(128)
    torch.testing.assert_close(c, (a.float() * factors) @ b.float().T, rtol=0, atol=0)


def two_results(rows, columns, depth, steps, stages=3, tile="float16"):
    """C = A B^T and D = 2 A B^T: another loop loads operands while threads store C.

    ``tile``: the type of a shared tile for C; None: the compiler stages C.
    """
    K = depth * steps

    @T.prim_func
    def main(
        A: T.Tensor((rows, K), "bfloat16"),
        B: T.Tensor((columns, K), "bfloat16"),
        C: T.Tensor((rows, columns), tile or "float16"),
        D: T.Tensor((rows, columns), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, depth), "bfloat16")
            b = T.alloc_shared((columns, depth), "bfloat16")
            c_tile = T.alloc_shared((rows, columns), tile or "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            narrow = T.alloc_fragment((rows, columns), "float16")
            T.clear(c)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(A[0, k * depth], a)
                T.copy(B[0, k * depth], b)
                T.gemm(a, b, c, transpose_B=True)
            if tile:
                T.copy(c, c_tile)
                T.copy(c_tile, C)
            else:
                for i, j in T.Parallel(rows, columns):
                    narrow[i, j] = c[i, j]
                T.copy(narrow, C)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(A[0, k * depth], a)
                T.copy(B[0, k * depth], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(rows, columns):
                narrow[i, j] = c[i, j]
            T.copy(narrow, D)

    return main


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("depth", [64, 128])
def test_results_before_another_loop(depth, steps, target):
    """Tiles of the second loop arrive early. With a depth of 128, memory is short."""
    program = two_results(128, 128, depth, steps, tile="float32" if depth == 128 else None)
    kernel = tilelang.compile(program, target=target)
    a, b = (torch.randint(-2, 3, (128, depth * steps)).bfloat16() for _ in range(2))
    c = torch.full((128, 128), torch.nan, dtype=torch.float32 if depth == 128 else torch.float16)
    d = torch.full((128, 128), torch.nan, dtype=torch.float16)
    kernel(a, b, c, d)
    want = a.float() @ b.float().T
    assert torch.equal(c.float(), want)
    assert torch.equal(d.float(), 2 * want)
