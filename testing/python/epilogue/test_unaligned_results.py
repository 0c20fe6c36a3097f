"""Results whose rows are no multiple of 16 bytes: threads store them along rows."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


def program(m, n, k, out, residual):
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        R: T.Tensor((m, n), "float32"),
        C: T.Tensor((m, n), out),
    ):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            a, b = (T.alloc_shared((128, 64), "bfloat16") for _ in range(2))
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                T.copy(A[by * 128, step * 64], a)
                T.copy(B[bx * 128, step * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            if residual:
                for i, j in T.Parallel(128, 128):
                    c[i, j] = c[i, j] + R[by * 128 + i, bx * 128 + j]
            T.copy(c, C[by * 128, bx * 128])

    return main


def check(kernel, m, n, k, out, residual) -> None:
    torch.manual_seed(n)
    a, b = (torch.randint(-3, 4, (rows, k)).bfloat16() for rows in (m, n))
    r = torch.randint(-3, 4, (m, n)).float()
    c = torch.full((m, n), torch.nan, dtype=getattr(torch, out))
    kernel(a, b, r, c)
    want = a.double() @ b.double().T + (r.double() if residual else 0)
    assert torch.equal(c.double(), want.to(c.dtype).double())


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("out", ["bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(300, 203, 72), (129, 130, 136), (64, 261, 64)], ids=str)
def test_results(target, residual, out, shape):
    kernel = tilelang.compile(program(*shape, out, residual), target=target)
    check(kernel, *shape, out, residual)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_columns_of_the_call(target):
    kernel = tilelang.compile(program(200, T.dynamic("n"), 72, "float32", False), target=target)
    for n in (1, 7, 128, 200, 261):
        check(kernel, 200, n, 72, "float32", False)


@pytest.mark.parametrize("out", ["bfloat16", "float32"])
def test_neighbouring_threads_store_neighbouring_elements(out):
    kernel = tilelang.compile(program(512, 511, 512, out, False), target="sm_100a")
    said = " ".join(remark.message for remark in kernel.remarks)
    assert "T.copy(c, C[" in said and "is done by threads: stride 511" in said
    assert "c_C" in kernel.get_kernel_source()  # the staged tile


def test_float32_results_leave_by_tma():
    kernel = tilelang.compile(program(512, 512, 512, "float32", False), target="sm_100a")
    assert "tl::tma_store(" in kernel.get_kernel_source()
