"""Blocks that compute several short rows."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]

every_schedule = pytest.mark.every_schedule


def norm(M, N, dtype="float32", threads=128, flat=False, tensor_rows=None):
    """Y = (X - mean) / S * W, with S = sqrt(variance + 1e-3)."""
    tile = (N,) if flat else (1, N)

    @T.prim_func
    def main(
        X: T.Tensor((tensor_rows or M, N), dtype),
        W: T.Tensor((N,), dtype),
        S: T.Tensor((tensor_rows or M,), "float32"),
        Y: T.Tensor((tensor_rows or M, N), dtype),
    ):
        with T.Kernel(M, threads=threads) as row:
            x = T.alloc_fragment(tile, "float32")
            w = T.alloc_fragment((N,), "float32")
            square = T.alloc_fragment(tile, "float32")
            mean, variance = (T.alloc_fragment((1,), "float32") for _ in range(2))
            T.copy(X[row, 0], x)
            T.copy(W, w)
            T.reduce_sum(x, mean, dim=0 if flat else 1)
            if flat:
                for j in T.Parallel(N):
                    x[j] -= mean[0] / N
                    square[j] = x[j] * x[j]
            else:
                for i, j in T.Parallel(1, N):
                    x[i, j] -= mean[i] / N
                    square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=0 if flat else 1)
            for i in T.Parallel(1):
                variance[i] = T.sqrt(variance[i] / N + 1e-3)
                S[row + i] = variance[i]
            if flat:
                for j in T.Parallel(N):
                    Y[row, j] = x[j] / variance[0] * w[j]
            else:
                for i, j in T.Parallel(1, N):
                    x[i, j] = x[i, j] / variance[i] * w[j]
                T.copy(x, Y[row, 0])

    return main


def on(program, target="sm_100a", sms=1, **configs):
    return tilelang.compile(
        program, target=with_sm_count(resolve(target), sms), pass_configs=configs
    )


def rows_of(kernel):
    found = [r.message for r in kernel.remarks if "rows instead of one" in r.message]
    return int(found[0].split("a block computes ")[1].split()[0]) if found else 1


def check(kernel, M, N, dtype="float32", tensor_rows=None):
    rows = tensor_rows or M
    x, w = (torch.randn(*s).to(getattr(torch, dtype)) for s in ((rows, N), (N,)))
    s, y = torch.full((rows,), torch.nan), torch.full_like(x, torch.nan)
    kernel(x, w, s, y)
    z = x[:M].double()
    z = z - z.mean(1, keepdim=True)
    root = (z.square().mean(1, keepdim=True) + 1e-3).sqrt()
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    torch.testing.assert_close(s[:M].double(), root[:, 0], rtol=tolerance, atol=tolerance)
    want = z / root * w.double()
    torch.testing.assert_close(y[:M].double(), want, rtol=tolerance, atol=tolerance)
    assert y[M:].isnan().all()
    assert s[M:].isnan().all()


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    ("M", "N", "options"),
    [
        (1024, 64, {"dtype": "bfloat16"}),
        (333, 128, {"dtype": "float16"}),  # the last block has rows behind the tensor
        (77, 512, {"threads": 256}),
        (640, 17, {}),
        (515, 100, {"dtype": "bfloat16"}),
        (101, 250, {"dtype": "bfloat16"}),  # threads load the last row again
        (400, 1, {"threads": 32}),
    ],
)
def test_results(M, N, options, flat, target):
    kernel = on(norm(M, N, flat=flat, **options), target)
    # a reduction of the only dimension keeps its row if that has one element
    assert (rows_of(kernel) > 1) != (flat and N == 1)
    options.pop("threads", None)
    check(kernel, M, N, **options)


def test_rows_of_the_call():
    M = T.dynamic("M")
    kernel = on(norm(M, 64))
    assert rows_of(kernel) > 1
    for rows in (1, 63, 64, 65, 300):
        check(kernel, rows, 64)


@pytest.mark.parametrize(("M", "expected"), [(256, 64), (250, 1)])
def test_tensors_that_go_on_behind_the_grid(M, expected):
    kernel = on(norm(M, 64, tensor_rows=300))
    assert rows_of(kernel) == expected
    check(kernel, M, 64, tensor_rows=300)


def test_axes_of_the_grid():
    """The rows are along the axis that selects rows of all tensors."""
    B, H, M, N = 3, 2, 65, 128

    @T.prim_func
    def softmax(X: T.Tensor((B, M, H, N), "float32"), Y: T.Tensor((B, H, M, N), "float32")):
        with T.Kernel(H, M, B, threads=64) as (head, row, batch):
            x = T.alloc_fragment((1, N), "float32")
            most, total = T.alloc_fragment((1,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[batch, row, head, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                Y[batch, head, row, j] = x[i, j] / total[i]

    kernel = on(softmax)
    assert rows_of(kernel) > 1
    x = torch.randn(B, M, H, N)
    y = torch.full((B, H, M, N), torch.nan)
    kernel(x, y)
    torch.testing.assert_close(y, x.transpose(1, 2).softmax(-1))


@pytest.mark.parametrize("M", [320, 300])
def test_names_of_the_row(M):
    N = 96

    @T.prim_func
    def main(X: T.Tensor((2 * M, N), "float32"), P: T.Tensor((M,), "int32"),
             Y: T.Tensor((M,), "float32")):  # fmt: skip
        with T.Kernel(M, threads=32) as row:
            x, total = T.alloc_fragment((N,), "float32"), T.alloc_fragment((1,), "float32")
            twice = row * 2
            for j in T.Parallel(N):
                x[j] = X[twice + P[row], j] * (row + 1)
            T.reduce_sum(x, total, dim=0)
            T.copy(total, Y[row])

    kernel = on(main)
    assert rows_of(kernel) > 1
    x, i, y = torch.randn(2 * M, N), torch.randint(0, 2, (M,)).int(), torch.full((M,), torch.nan)
    kernel(x, i, y)
    row = torch.arange(M)
    want = x.double()[2 * row + i].sum(1) * (row + 1)
    torch.testing.assert_close(y.double(), want, rtol=1e-4, atol=1e-2)


def several(M, N):
    """Two rows a block: the program says how many."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M,), "float32")):
        with T.Kernel(M // 2, threads=128) as block:
            x, total = T.alloc_fragment((2, N), "float32"), T.alloc_fragment((2,), "float32")
            T.copy(X[block * 2, 0], x)
            T.reduce_sum(x, total, dim=1)
            T.copy(total, Y[block * 2])

    return main


def columns(M, N):
    """A column a block."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(N, threads=128) as column:
            x, total = T.alloc_fragment((M,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[0:M, column], x)
            T.reduce_sum(x, total, dim=0)
            T.copy(total, Y[column])

    return main


def test_what_joining_needs():
    assert rows_of(on(norm(1024, 64))) == 64
    assert rows_of(on(norm(1024, 64), **{"tl.disable_block_fitting": True})) == 1
    assert rows_of(on(norm(40, 64), sms=132)) == 1  # too few blocks
    assert rows_of(on(norm(2048, 1024))) == 1  # long rows
    assert rows_of(on(several(1024, 64))) == 1
    kernel = on(columns(64, 1024))
    assert rows_of(kernel) == 1
    x, y = torch.randn(64, 1024), torch.full((1024,), torch.nan)
    kernel(x, y)
    torch.testing.assert_close(y, x.sum(0), rtol=1e-4, atol=1e-4)
