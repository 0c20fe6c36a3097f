"""Reductions beside torch: gradients of LayerNorm's weights, argmax, prefix sums.

    python benchmark/reductions.py [--rows 1152000] [--only gradients argmax cumsum long]
                                   [--json FOLDER]

Prints microseconds of the median run, launch included, with the L2 cache flushed before each.
Results are checked first. The gradients take one launch: the blocks' parts are combined by the last
one to come (T.alloc_reducer of scope "grid").
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import in_turns
import result_files
import torch

import tilelang
import tilelang.language as T

COLUMNS = 16
LONG = 1 << 24
#: functions that are not of this compiler
PEERS = ("torch", "compile", "copy")


def gradients(rows: int, share: int, threads: int) -> Any:
    """dW and dB of LayerNorm over short rows, `share` of them a block."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, COLUMNS), "float16"),
        DY: T.Tensor((rows, COLUMNS), "float16"),
        mean: T.Tensor((rows,)),
        rstd: T.Tensor((rows,)),
        DW: T.Tensor((COLUMNS,)),
        DB: T.Tensor((COLUMNS,)),
    ):
        with T.Kernel(rows // share, threads=threads) as bx:
            w = T.alloc_reducer((COLUMNS,), "float32", scope="grid", out=DW, deterministic=True)
            b = T.alloc_reducer((COLUMNS,), "float32", scope="grid", out=DB, deterministic=True)
            for i, j in T.Parallel(share, COLUMNS):
                row = bx * share + i
                g = T.cast(DY[row, j], "float32")
                w[j] += g * (T.cast(X[row, j], "float32") - mean[row]) * rstd[row]
                b[j] += g
            T.finalize_reducer(w)
            T.finalize_reducer(b)

    return tilelang.compile(kernel)


def gradient_runs(rows: int) -> dict[str, Callable[[], object]]:
    """The candidates and torch, on the same arguments."""
    x, dy = (torch.randn(rows, COLUMNS, device="cuda").half() for _ in range(2))
    mean, rstd = x.float().mean(1), torch.rsqrt(x.float().var(1, correction=0) + 1e-5)
    weight = torch.ones(COLUMNS, device="cuda").half()
    normal = (x.double() - mean[:, None]) * rstd[:, None]
    wanted = (dy.double() * normal).sum(0), dy.double().sum(0)
    runs: dict[str, Callable[[], object]] = {
        "torch": lambda: torch.ops.aten.native_layer_norm_backward(
            dy, x, [COLUMNS], mean[:, None], rstd[:, None], weight, weight, [False, True, True]
        )
    }
    for share in (4608, 2304, 1152):
        for threads in (128, 256, 512):
            if rows % share:
                continue
            dw, db = (torch.full((COLUMNS,), torch.nan, device="cuda") for _ in range(2))
            kernel = gradients(rows, share, threads)
            arguments = (x, dy, mean, rstd, dw, db)
            kernel(*arguments)
            for found, want in zip((dw, db), wanted, strict=True):
                torch.testing.assert_close(found.double(), want, rtol=1e-4, atol=0.2)
            runs[f"{rows // share} blocks of {threads}"] = lambda k=kernel, a=arguments: k(*a)
    return runs


def argmax(rows: int, columns: int, threads: int = 256) -> Any:
    """The index of the greatest element of each row, a row a block."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), "bfloat16"), place: T.Tensor((rows,), "int64")):
        with T.Kernel(rows, threads=threads) as bx:
            T.reduce_argmax(X[bx, :], place[bx], dim=1)

    return tilelang.compile(kernel)


def argmax_runs(rows: int, columns: int) -> dict[str, Callable[[], object]]:
    """Ours and torch's."""
    x = torch.randn(rows, columns, device="cuda").bfloat16()
    found = torch.zeros(rows, dtype=torch.int64, device="cuda")
    kernel, compiled = argmax(rows, columns), torch.compile(lambda x: x.argmax(1))
    kernel(x, found)
    assert torch.equal(x.gather(1, found[:, None])[:, 0], x.amax(1))
    return {
        "tilelang": lambda: kernel(x, found),
        "torch": lambda: x.argmax(1),
        "compile": lambda: compiled(x),
    }


def cumsum(rows: int, columns: int, threads: int = 256) -> Any:
    """Prefix sums of rows, a row a block."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns)), Y: T.Tensor((rows, columns))):
        with T.Kernel(rows, threads=threads) as bx:
            T.cumsum(X[bx, :], Y[bx, :], dim=1)

    return tilelang.compile(kernel)


def cumsum_runs(rows: int, columns: int) -> dict[str, Callable[[], object]]:
    """Ours and torch's."""
    x = torch.randn(rows, columns, device="cuda")
    y = torch.full_like(x, torch.nan)
    kernel, compiled = cumsum(rows, columns), torch.compile(lambda x: x.cumsum(1))
    kernel(x, y)
    torch.testing.assert_close(y.double(), x.double().cumsum(1), rtol=1e-4, atol=1e-2)
    return {
        "tilelang": lambda: kernel(x, y),
        "torch": lambda: x.cumsum(1),
        "compile": lambda: compiled(x),
    }


def long_cumsum(length: int, blocks: int, threads: int) -> Any:
    """Prefix sums of one row by all blocks."""

    @T.prim_func
    def kernel(X: T.Tensor((length,)), Y: T.Tensor((length,))):
        with T.Kernel(blocks, threads=threads):
            T.cumsum(X, Y, scope="grid")

    return tilelang.compile(kernel)


def long_runs() -> dict[str, Callable[[], object]]:
    """The candidates, torch, and a copy of as many bytes."""
    x = torch.randn(LONG, device="cuda")
    y = torch.full_like(x, torch.nan)
    compiled = torch.compile(lambda x: x.cumsum(0))
    runs: dict[str, Callable[[], object]] = {
        "torch": lambda: x.cumsum(0),
        "compile": lambda: compiled(x),
        "copy": lambda: y.copy_(x),
    }
    first: dict[int, torch.Tensor] = {}
    for blocks, threads in ((528, 256), (792, 256), (1056, 128), (264, 512), (528, 512)):
        kernel = long_cumsum(LONG, blocks, threads)
        kernel(x, y.fill_(torch.nan))
        torch.testing.assert_close(y.double(), x.double().cumsum(0), rtol=1e-4, atol=1e-1)
        same = first.setdefault(threads, y.clone())
        assert torch.equal(same, y), "the order of additions depends on the blocks"
        runs[f"{blocks} blocks of {threads}"] = lambda k=kernel: k(x, y)
    return runs


def show(
    title: str, runs: dict[str, Callable[[], object]], moved: int, table: result_files.Table
) -> None:
    """Prints the times of functions that move so many bytes, and adds a row to the table.

    The row has the fastest of the functions that are not peers.
    """
    print(title)
    times = in_turns.milliseconds(runs, rounds=3)
    for name, ms in times.items():
        print(f"  {name:<24}{1000 * ms:8.1f} us {moved / ms / 1e9:7.2f} TB/s", flush=True)
    own = min(ms for name, ms in times.items() if name not in PEERS)
    peers = [f"{1000 * times[n]:.1f}" if n in times else "" for n in ("torch", "compile")]
    table.add(title, f"{1000 * own:.1f}", *peers)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1152000)
    parser.add_argument("--only", nargs="*", default=["gradients", "argmax", "cumsum", "long"])
    result_files.add_option(parser)
    options = parser.parse_args()
    table = result_files.Table("reductions", ("", "this compiler", "torch", "torch.compile"))
    print(torch.cuda.get_device_name())
    if "gradients" in options.only:
        moved = options.rows * (2 * 2 * COLUMNS + 8)
        title = f"gradients of LayerNorm's weights, {options.rows:,} x {COLUMNS} float16"
        show(title, gradient_runs(options.rows), moved, table)
    if "argmax" in options.only:
        for rows, columns in ((32768, 4096), (1000, 50264)):
            title = f"argmax of {rows} x {columns} bfloat16"
            show(title, argmax_runs(rows, columns), 2 * rows * columns, table)
    if "cumsum" in options.only:
        for rows, columns in ((32768, 1024), (8192, 4096), (1000, 50264), (1000, 50257)):
            title = f"cumsum of {rows} x {columns} float32"
            show(title, cumsum_runs(rows, columns), 8 * rows * columns, table)
    if "long" in options.only:
        title = f"cumsum of {LONG:,} float32, one row by all blocks"
        show(title, long_runs(), 8 * LONG, table)
    table.save(options.json)


if __name__ == "__main__":
    main()
