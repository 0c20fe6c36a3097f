"""Rows of norms and softmax that TMA loads ahead on Blackwell."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

pytestmark = pytest.mark.over_field

every_schedule = pytest.mark.every_schedule


def norm(M, N, rows=1, threads=128, dtype="bfloat16", residual=False):
    """Y = Z / sqrt(mean(Z * Z)) * W, with Z = X, or X + R."""

    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        R: T.Tensor((M, N), dtype),
        W: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as block:
            x = T.alloc_fragment((rows, N), "float32")
            squares = T.alloc_fragment((rows, N), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[block * rows, 0], x)
            if residual:
                r = T.alloc_fragment((rows, N), "float32")
                T.copy(R[block * rows, 0], r)
                for i, j in T.Parallel(rows, N):
                    x[i, j] += r[i, j]
            for i, j in T.Parallel(rows, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] * T.rsqrt(total[i] / N + 1e-6) * W[j]
            T.copy(x, Y[block * rows, 0])

    return main


def on(program, sms=1, **configs):
    return tilelang.compile(
        program, target=with_sm_count(resolve("sm_100a"), sms), pass_configs=configs
    )


def streams(kernel):
    return any("in turn, and TMA loads" in r.message for r in kernel.remarks)


def check(kernel, M, N, dtype="bfloat16", residual=False):
    x, r, w = (torch.randn(*s).to(getattr(torch, dtype)) for s in ((M, N), (M, N), (N,)))
    y = torch.full_like(x, torch.nan)
    kernel(x, r, w, y)
    z = x.float() + r.float() if residual else x.float()
    want = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-6) * w.float()
    torch.testing.assert_close(y.float(), want, rtol=2e-2, atol=2e-2)


@every_schedule
@pytest.mark.parametrize(
    ("M", "N", "options"),
    [
        (35, 4096, {}),
        (35, 3000, {}),  # no whole boxes of TMA
        (41, 2048, {"residual": True}),
        (150, 1000, {"rows": 4, "threads": 256, "dtype": "float32"}),
        (99, 512, {"rows": 8, "threads": 64, "dtype": "float16"}),  # the last tile is not whole
        (5, 16384, {"threads": 256}),  # 64 boxes of TMA
        (601, 72, {"rows": 3, "dtype": "float32"}),  # tiles of no whole 128 bytes
        (601, 136, {"rows": 5}),
        (70, 512, {"threads": 512}),  # eight threads for one that stays
    ],
)
def test_results(M, N, options):
    kernel = on(norm(M, N, **options))
    assert streams(kernel)
    assert not any("by threads after all" in r.message for r in kernel.remarks)
    options.pop("rows", None), options.pop("threads", None)
    check(kernel, M, N, **options)


def test_dynamic_rows():
    M = T.dynamic("M")
    kernel = on(norm(M, 2048))
    assert streams(kernel)
    for rows in (1, 7, 40):
        check(kernel, rows, 2048)


def test_grid_of_three_dimensions():
    B, H, M, N = 2, 3, 7, 4096

    @T.prim_func
    def softmax(X: T.Tensor((B, H, M, N), "bfloat16"), Y: T.Tensor((B, H, M, N), "bfloat16")):
        with T.Kernel(M, H, B, threads=128) as (row, head, batch):
            x = T.alloc_fragment((1, N), "float32")
            most = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[batch, head, row, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                Y[batch, head, row, j] = x[i, j] / total[i]

    kernel = on(softmax)
    assert streams(kernel)
    x = torch.randn(B, H, M, N).bfloat16()
    y = torch.full_like(x, torch.nan)
    kernel(x, y)
    torch.testing.assert_close(y.float(), x.float().softmax(-1), rtol=2e-2, atol=1e-4)


def test_what_a_stream_needs():
    assert not streams(on(norm(35, 4096), **{"tl.disable_persistent_blocks": True}))
    assert not streams(on(norm(12, 4096), sms=2))  # too few blocks
    assert not streams(on(norm(35, 4100)))  # rows at no multiple of 16 bytes
    assert not streams(on(norm(400, 64), **{"tl.disable_block_fitting": True}))  # too few bytes
    assert not streams(on(norm(64, 40960)))  # too many registers
    assert not streams(tilelang.compile(norm(9000, 4096), target="sm_90a"))


def test_rows_that_are_changed_in_place_stay():
    M, N = 40, 4096

    @T.prim_func
    def double(X: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((1, N), "bfloat16")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, N):
                X[row, j] = x[i, j] * T.bfloat16(2)

    kernel = on(double)
    assert not streams(kernel)
    x = torch.randn(M, N).bfloat16()
    want = x * 2
    kernel(x)
    assert torch.equal(x, want)


def test_tensors_of_a_call_that_overlap():
    kernel = on(norm(35, 4096))
    assert streams(kernel)
    x, w = torch.randn(35, 4096).bfloat16(), torch.randn(4096).bfloat16()
    want = torch.empty_like(x)
    kernel(x.clone(), x, w, want)
    kernel(x, x, w, x)
    torch.testing.assert_close(x, want, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("columns", "threads", "expected"),
    [(128, 128, 32), (512, 512, 64), (2048, 256, 64), (4096, 512, 128), (16384, 512, 256),
     (16384, 128, 256), (777, 256, 64), (512, 32, 32),
     (32776, 1024, 512)],
)  # fmt: skip
def test_threads_have_elements_to_reduce(columns, threads, expected):
    """A reduction takes as long for a thread with one element as with many."""
    apart = {"tl.disable_block_fitting": True} if columns <= 512 else {}  # one row a block
    kernel = on(norm(4000, columns, threads=threads), **apart)
    source = kernel.get_kernel_source()
    launched = int(re.search(r"__launch_bounds__\((\d+)", source)[1])
    assert launched == expected + (32 if streams(kernel) else 0)
    if threads > expected:
        assert f"{expected} threads instead of {threads}" in " ".join(
            r.message for r in kernel.remarks
        )


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_120a"])
def test_other_targets_keep_the_threads(target):
    kernel = tilelang.compile(norm(40000, 512, threads=512), target=target)
    assert "__launch_bounds__(512" in kernel.get_kernel_source()


def test_elementwise_work_keeps_the_threads():
    @T.prim_func
    def double(X: T.Tensor((4000, 512), "float32"), Y: T.Tensor((4000, 512), "float32")):
        with T.Kernel(4000, threads=256) as row:
            x = T.alloc_fragment((1, 512), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, 512):
                Y[row, j] = 2 * x[i, j]

    kernel = on(double)
    assert "256 threads" not in " ".join(r.message for r in kernel.remarks)
    x = torch.randn(4000, 512)
    y = torch.full_like(x, torch.nan)
    kernel(x, y)
    assert torch.equal(y, 2 * x)


@pytest.mark.parametrize("columns", [12288, 16384])
def test_long_rows_are_loaded_by_tma(columns):
    """Threads of one warp would take twenty times as long."""
    program = norm(640, columns, threads=256)
    kernel = tilelang.compile(program, target="sm_100a")
    assert streams(kernel)
    assert "by threads after all" not in " ".join(r.message for r in kernel.remarks)
    kept = tilelang.compile(
        program, target="sm_100a", pass_configs={"tl.disable_persistent_blocks": True}
    )
    assert kernel.profile().timing.grid_us < kept.profile().timing.grid_us
