"""Results of gemms that the compiler sends through the shared memory of the operands."""

from __future__ import annotations

import pytest
import torch
from sm90.gemm_kernels import poisoned

import tilelang
import tilelang.language as T

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
#: ragged tiles at both edges, more blocks than half of the multiprocessors
M, N, K = 584, 520, 72


def program(
    m=64, n=64, threads=128, dtype="float16", out=None, rows=M, columns=N, depth=K, stages=2,
    results=1, relu=False, counted=False,
):  # fmt: skip
    """C = A B as a user first writes it, or two results; ``relu`` changes the sums.

    ``counted``: of as many steps along K as the argument says.
    """
    out = out or dtype

    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), dtype),
        B: T.Tensor((depth, columns), dtype),
        C: T.Tensor((rows, columns), out),
        D: T.Tensor((rows, columns), out),
        steps: T.int32,
    ):
        with T.Kernel(T.ceildiv(columns, n), T.ceildiv(rows, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, 32), dtype)
            b = T.alloc_shared((32, n), dtype)
            c = T.alloc_fragment((m, n), "float32")
            d = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            if results == 2:
                T.clear(d)
            for k in T.Pipelined(steps if counted else T.ceildiv(depth, 32), num_stages=stages):
                T.copy(A[by * m, k * 32], a)
                T.copy(B[k * 32, bx * n], b)
                T.gemm(a, b, c)
                if results == 2:
                    T.gemm(a, b, d)
            if relu:
                for i, j in T.Parallel(m, n):
                    c[i, j] = T.max(c[i, j] + 1.0, 0.0)
            T.copy(c, C[by * m, bx * n])
            if results == 2:
                T.copy(d, D[by * m, bx * n])

    return main


def plain(*sizes, configs=None, **options):
    """The program, compiled."""
    return tilelang.compile(program(*sizes, **options), target="sm_90a", pass_configs=configs)


def is_staged(kernel) -> bool:
    return any("in the bytes of the operands" in remark.message for remark in kernel.remarks)


def check(
    kernel,
    dtype="float16",
    out=None,
    sizes=(M, N, K),
    change=None,
    both=False,
    steps=3,
    device="cpu",
):
    rows, columns, depth = sizes
    torch.manual_seed(0)
    kinds = getattr(torch, dtype), getattr(torch, out or dtype)
    a = torch.randn(rows, depth).to(kinds[0]).to(device)
    b = torch.randn(depth, columns).to(kinds[0]).to(device)
    c, d = (poisoned((rows, columns), out or dtype, device) for _ in range(2))
    kernel(a, b, c, d, steps)
    want = a[:, : steps * 32].double() @ b[: steps * 32].double()
    tolerance = {"rtol": 2 * torch.finfo(kinds[1]).eps, "atol": 1e-4}
    first = want if change is None else change(want)
    torch.testing.assert_close(c.double(), first, **tolerance)
    if both:
        torch.testing.assert_close(d.double(), want, **tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("m", "n", "threads"), [(64, 64, 128), (128, 24, 256), (64, 72, 128)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.every_schedule
def test_results_are_those_of_a_float64_product(m, n, threads, dtype, device):
    kernel = plain(m, n, threads, dtype)
    assert is_staged(kernel)
    assert "stmatrix" in kernel.get_ptx()
    assert "cp.async.bulk.tensor.2d.global" in kernel.get_ptx()
    check(kernel, dtype, device=device)


@pytest.mark.every_schedule
def test_sums_may_be_changed_before():
    kernel = plain(relu=True)
    assert is_staged(kernel)
    check(kernel, change=lambda want: (want + 1.0).clamp(min=0.0))


@pytest.mark.every_schedule
def test_two_results_follow_each_other():
    kernel = plain(results=2)
    assert is_staged(kernel)
    check(kernel, both=True)


@pytest.mark.every_schedule
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_loops_of_any_length(steps):
    kernel = plain(counted=True)
    assert is_staged(kernel)
    check(kernel, steps=steps)


def test_the_tile_takes_no_memory_of_its_own():
    sizes = {"m": 64, "n": 128, "stages": 3}  # the tile: 16 KiB; operands: 36 KiB
    off = {tilelang.PassConfigKey.TL_DISABLE_RESULT_STAGING: True}
    used = [
        tilelang.lower(program(**sizes), target="sm_90a", pass_configs=configs)
        for configs in (None, off)
    ]
    assert len({str(lowered.spec.launches[0].shared_memory) for lowered in used}) == 1


@pytest.mark.parametrize(
    "case",
    [
        {"out": "float32"},  # threads store whole sectors
        {"columns": 516},  # rows that the accelerator cannot store
        {"rows": 256, "columns": 256, "configs": {"tl.disable_tile_choice": True}},  # a small grid
        {"configs": {"tl.disable_result_staging": True}},
    ],
    ids=str,
)
def test_other_results_go_straight(case):
    kernel = plain(**case)
    assert not is_staged(kernel)
    sizes = case.get("rows", M), case.get("columns", N), K
    check(kernel, out=case.get("out"), sizes=sizes)


def test_a_block_of_several_tiles_stores_as_the_program_says():
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(66, threads=128) as block:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for by, bx in T.Persistent([T.ceildiv(M, 64), T.ceildiv(N, 64)], 66, block):
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(A[by * 64, k * 32], a)
                    T.copy(B[k * 32, bx * 64], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * 64, bx * 64])

    assert not is_staged(tilelang.compile(main, target="sm_90a"))
