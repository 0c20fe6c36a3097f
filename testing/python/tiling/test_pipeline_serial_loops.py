"""Serial loops over tiles of tensors that the compiler pipelines, and those that it leaves."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

PIPELINED = "T.serial: the loop is pipelined, as by T.Pipelined with"


def squares(m, n, dtype="bfloat16", rows=32, columns=64, shared=True):
    """S = the sums of squares of rows, tile after tile."""

    @T.prim_func
    def main(X: T.Tensor((m, n), dtype), S: T.Tensor((m,), "float32")):
        with T.Kernel(T.ceildiv(m, rows), threads=128) as b:
            tile = (T.alloc_shared if shared else T.alloc_fragment)((rows, columns), dtype)
            x = T.alloc_fragment((rows, columns), "float32")
            s = T.alloc_fragment((rows,), "float32")
            T.clear(s)
            for k in T.serial(T.ceildiv(n, columns)):
                T.copy(X[b * rows, k * columns], tile)
                for i, j in T.Parallel(rows, columns):
                    x[i, j] = T.cast(tile[i, j], "float32") * T.cast(tile[i, j], "float32")
                T.reduce_sum(x, s, dim=1, clear=False)
            T.copy(s, S[b * rows])

    return main


def said(kernel):
    return " ".join(remark.message for remark in kernel.remarks)


def integers(shape, dtype):
    return torch.randint(-3, 4, shape).to(getattr(torch, dtype))


def run_squares(kernel, m, n, dtype):
    torch.manual_seed(0)
    x = integers((m, n), dtype)
    sums = torch.full((m,), 77.0)
    kernel(x, sums)
    assert torch.equal(sums.double(), x.double().square().sum(1))


@pytest.mark.every_schedule
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8"])
@pytest.mark.parametrize("sizes", [(64, 256), (61, 777), (1, 1023)], ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_sums_over_tiles(dtype, sizes, shared):
    kernel = tilelang.compile(squares(*sizes, dtype, shared=shared), target="sm_100a")
    assert PIPELINED in said(kernel)
    run_squares(kernel, *sizes, dtype)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_shared_tiles_on_other_targets(target):
    kernel = tilelang.compile(squares(64, 512), target=target)
    assert PIPELINED in said(kernel)
    run_squares(kernel, 64, 512, "bfloat16")
    kernel = tilelang.compile(squares(64, 512, shared=False), target=target)
    assert PIPELINED not in said(kernel)


def test_few_blocks_have_many_stages():
    """A block that has an SM for itself loads about 128 KiB ahead."""
    few = tilelang.compile(squares(64, 4096), target="sm_100a")
    assert f"{PIPELINED} 16 stages" in said(few)
    many = tilelang.compile(squares(32 * 148 * 8, 4096), target="sm_100a")
    assert f"{PIPELINED} 4 stages" in said(many)
    short = tilelang.compile(squares(64, 640), target="sm_100a")
    assert f"{PIPELINED} 5 stages" in said(short)


@pytest.mark.every_schedule
def test_dynamic_sizes():
    m, n = T.dynamic("m, n")
    kernel = tilelang.compile(squares(m, n), target="sm_100a")
    assert PIPELINED in said(kernel)
    for sizes in ((40, 520), (3, 24), (1, 1), (33, 131), (2, 1023), (1, 1088), (5, 2048)):
        run_squares(kernel, *sizes, "bfloat16")


def test_tiles_that_are_changed_and_stored():
    """Both loops of a norm run ahead, and the second one changes the tile that it loads."""
    m, n, rows, columns = 24, 640, 8, 128

    @T.prim_func
    def main(
        X: T.Tensor((m, n), "float32"), W: T.Tensor((n,), "float32"), Y: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(m // rows, threads=128) as b:
            tile = T.alloc_shared((rows, columns), "float32")
            s = T.alloc_fragment((rows, columns), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.clear(s)
            for k in T.serial(n // columns):
                T.copy(X[b * rows, k * columns], tile)
                for i, j in T.Parallel(rows, columns):
                    s[i, j] += tile[i, j]
            T.reduce_sum(s, total, dim=1)
            for k in range(n // columns):
                T.copy(X[b * rows, k * columns], tile)
                for i, j in T.Parallel(rows, columns):
                    tile[i, j] = tile[i, j] * W[k * columns + j] + total[i]
                T.copy(tile, Y[b * rows, k * columns])

    kernel = tilelang.compile(main, target="sm_100a")
    assert said(kernel).count(PIPELINED) == 2
    torch.manual_seed(0)
    x, w = integers((m, n), "float32"), integers((n,), "float32")
    y = torch.full((m, n), 77.0)
    kernel(x, w, y)
    assert torch.equal(y, x * w + x.sum(1, keepdim=True))


def test_sums_that_a_parallel_loop_loads():
    """A product with a vector: one parallel loop is all of the serial loop."""
    m, k = 24, 1100

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"), X: T.Tensor((k,), "bfloat16"), Y: T.Tensor((m,), "float32")
    ):
        with T.Kernel(m // 8, threads=64) as b:
            s = T.alloc_fragment((8, 256), "float32")
            y = T.alloc_fragment((8,), "float32")
            T.clear(s)
            for step in T.serial(T.ceildiv(k, 256)):
                for i, j in T.Parallel(8, 256):
                    s[i, j] += A[b * 8 + i, step * 256 + j] * X[step * 256 + j]
            T.reduce_sum(s, y, dim=1)
            T.copy(y, Y[b * 8])

    kernel = tilelang.compile(main, target="sm_100a")
    assert PIPELINED in said(kernel)
    torch.manual_seed(0)
    a, x = integers((m, k), "bfloat16"), integers((k,), "bfloat16")
    y = torch.full((m,), 77.0)
    kernel(a, x, y)
    assert torch.equal(y.double(), a.double() @ x.double())


def test_loops_that_read_what_they_write_stay():
    """Each iteration reads what the one before has stored."""

    @T.prim_func
    def main(X: T.Tensor((9, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((128,), "float32")
            for k in T.serial(8):
                T.copy(X[k, :], tile)
                for j in T.Parallel(128):
                    X[k + 1, j] = tile[j] + 1.0

    kernel = tilelang.compile(main, target="sm_100a")
    assert PIPELINED not in said(kernel)
    x = torch.zeros(9, 128)
    kernel(x)
    assert torch.equal(x, torch.arange(9.0)[:, None].expand(9, 128))


@pytest.mark.parametrize(
    ("sizes", "options", "configs"),
    [
        ((64, 192), {}, {}),  # three iterations
        ((64, 512), {}, {"tl.disable_load_early": True}),
        ((2**14, 2048), {"columns": 256, "rows": 16, "dtype": "float32"}, {}),  # enough under way
    ],
    ids=str,
)
def test_loops_that_stay(sizes, options, configs):
    kernel = tilelang.compile(squares(*sizes, **options), target="sm_100a", pass_configs=configs)
    assert PIPELINED not in said(kernel)
