"""Tiles and parts of K of GEMMs whose operands threads compute."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def weights(m, n, k, dtype="bfloat16", threads=128, through=False, tile=(128, 128)):
    """C = A W^T, where W has four bits in bytes and a factor for 64 elements of a row."""
    rows, columns, depth = *tile, 64

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        W: T.Tensor((n, k // 2), "uint8"),
        S: T.Tensor((n, k // 64), dtype),
        C: T.Tensor((m, n), dtype),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            packed = T.alloc_shared((columns, depth // 2), "uint8")
            w = T.alloc_shared((columns, depth), dtype)
            wide = T.alloc_fragment((columns, depth), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=2):
                T.copy(A[by * rows, step * depth], a)
                T.copy(W[bx * columns, step * depth // 2], packed)
                if through:
                    for i, j in T.Parallel(columns, depth):
                        nibble = (packed[i, j // 2] >> T.cast(4 * (j % 2), "uint8")) & 15
                        wide[i, j] = (T.cast(nibble, dtype) - T.cast(8, dtype)) * S[
                            bx * columns + i, step
                        ]
                    T.copy(wide, w)
                else:
                    for i, j in T.Parallel(columns, depth):
                        nibble = (packed[i, j // 2] >> T.cast(4 * (j % 2), "uint8")) & 15
                        factor = S[bx * columns + i, step]
                        w[i, j] = (T.cast(nibble, dtype) - T.cast(8, dtype)) * factor
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C[by * rows, bx * columns])

    return main


def compiled(program, target="sm_100a", **configs):
    return tilelang.compile(program, target=target, pass_configs=configs)


def remarks(kernel):
    return " ".join(r.message for r in kernel.remarks)


def check(kernel, m, n, k, dtype="bfloat16"):
    element = getattr(torch, dtype)
    a = torch.randint(-2, 3, (m, k)).to(element)
    w = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    s = 2.0 ** torch.randint(-2, 2, (n, k // 64))
    c = torch.full((m, n), torch.nan, dtype=element)
    kernel(a, w, s.to(element), c)
    nibbles = torch.stack([w & 15, w >> 4], -1).reshape(n, k).float() - 8
    wanted = a.float() @ (nibbles * s.repeat_interleave(64, 1)).T
    torch.testing.assert_close(c.float(), wanted.to(element).float(), rtol=0, atol=0)


@every_schedule
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("through", [False, True], ids=["direct", "through fragments"])
@pytest.mark.parametrize("sizes", [(16, 256, 512), (1, 256, 320), (130, 200, 256)])
def test_results(sizes, through, threads):
    m, n, k = sizes
    kernel = compiled(weights(m, n, k, through=through, threads=threads))
    check(kernel, m, n, k)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("threads", [128, 256])
def test_blocks_share_iterations(threads, dtype):
    kernel = compiled(weights(16, 256, 2048, dtype, threads))
    assert "blocks of a cluster share the iterations" in remarks(kernel)
    check(kernel, 16, 256, 2048, dtype)
    alone = compiled(weights(16, 256, 2048, dtype, threads), **{"tl.disable_split_k": True})
    assert "share the iterations" not in remarks(alone)
    check(alone, 16, 256, 2048, dtype)


@pytest.mark.parametrize("parts", [2, 3, 5, 8])
def test_each_number_of_parts(parts):
    # 16 iterations, which 3 and 5 blocks would not share evenly
    kernel = compiled(weights(16, 256, 1024), **{"tl.tile_parts": parts})
    assert (f"{parts} blocks of a cluster" in remarks(kernel)) == (16 % parts == 0)
    check(kernel, 16, 256, 1024)


@pytest.mark.parametrize("columns", [32, 64, 256])
def test_tiles_of_other_widths(columns):
    kernel = compiled(weights(16, 512, 256), **{"tl.tile_columns": columns, "tl.tile_parts": 1})
    assert f"x {columns} elements" in remarks(kernel)
    check(kernel, 16, 512, 256)


def test_tiles_end_with_the_tensor():
    """A tile that does not divide the tensor keeps the program's extent."""
    kernel = compiled(weights(16, 200, 512))
    assert all(r.columns in (128, 200) for r in considered(kernel))
    check(kernel, 16, 200, 512)


def considered(kernel):
    return [tile for launch in kernel.schedule().launches for tile in launch.tiles]


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_120a"])
def test_other_targets_keep_the_tiles(target):
    kernel = compiled(weights(16, 256, 512), target)
    assert "share the iterations" not in remarks(kernel)
    check(kernel, 16, 256, 512)


def rows(m, n, k):
    """Computes A instead: C = (2 X) B^T."""

    @T.prim_func
    def main(
        X: T.Tensor((m, k), "int8"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
            x = T.alloc_shared((128, 64), "int8")
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                T.copy(X[by * 128, step * 64], x)
                T.copy(B[bx * 128, step * 64], b)
                for i, j in T.Parallel(128, 64):
                    a[i, j] = T.cast(x[i, j], "bfloat16") * T.bfloat16(2)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 128, bx * 128])

    return main


@every_schedule
@pytest.mark.parametrize("sizes", [(128, 96, 512), (256, 256, 256), (70, 70, 192)])
def test_computed_rows(sizes):
    m, n, k = sizes
    kernel = compiled(rows(m, n, k))
    x = torch.randint(-9, 10, (m, k), dtype=torch.int8)
    b = torch.randint(-3, 4, (n, k)).bfloat16()
    c = torch.full((m, n), torch.nan)
    kernel(x, b, c)
    torch.testing.assert_close(c, 2 * x.float() @ b.float().T, rtol=0, atol=0)


def carried(k, kind):
    """A = X of this step plus, by kind, what an earlier iteration left."""

    @T.prim_func
    def main(
        X: T.Tensor((128, k), "bfloat16"),
        B: T.Tensor((128, k), "bfloat16"),
        C: T.Tensor((128, 128), "float32"),
        Last: T.Tensor((128, 64), "bfloat16"),
    ):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_shared((128, 64), "bfloat16")
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((128, 64), "bfloat16")
            before = T.alloc_fragment((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(before)
            T.clear(c)
            for step in T.Pipelined(k // 64, num_stages=2):
                T.copy(X[0, step * 64], x)
                T.copy(B[0, step * 64], b)
                if kind == "sum":
                    for i, j in T.Parallel(128, 64):
                        before[i, j] = before[i, j] + x[i, j]
                    for i, j in T.Parallel(128, 64):
                        a[i, j] = before[i, j]
                elif kind == "previous":
                    for i, j in T.Parallel(128, 64):
                        a[i, j] = x[i, j] + before[i, j]
                    for i, j in T.Parallel(128, 64):
                        before[i, j] = x[i, j]
                else:
                    for i, j in T.Parallel(128, 64):
                        a[i, j] = x[i, j] + x[i, j]
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)
            if kind == "last":
                T.copy(a, Last)

    return main


@pytest.mark.parametrize("kind", ["sum", "previous", "last", "none"])
def test_iterations_that_depend_on_others_stay_in_one_block(kind):
    k = 512
    kernel = compiled(carried(k, kind))
    assert ("share the iterations" in remarks(kernel)) == (kind == "none")
    x = torch.randint(-3, 4, (128, k)).bfloat16()
    b = torch.randint(-3, 4, (128, k)).bfloat16()
    c = torch.full((128, 128), torch.nan)
    last = torch.zeros(128, 64, dtype=torch.bfloat16)
    kernel(x, b, c, last)
    steps = x.float().reshape(128, -1, 64)
    zero = torch.zeros_like(steps[:, :1])
    a = {
        "sum": steps.cumsum(1),
        "previous": steps + torch.cat([zero, steps[:, :-1]], 1),
    }.get(kind, 2 * steps)
    torch.testing.assert_close(c, a.reshape(128, k) @ b.float().T, rtol=0, atol=0)
    if kind == "last":
        torch.testing.assert_close(last.float(), a[:, -1], rtol=0, atol=0)


def updated(m, n, k, threads=128):
    """C = max(A, 0) (B + 1), where threads change the loaded tiles in place."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((k, n), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=threads) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                T.copy(A[by * 128, step * 64], a)
                T.copy(B[step * 64, bx * 128], b)
                for i, j in T.Parallel(128, 64):
                    a[i, j] = T.max(a[i, j], 0)
                for i, j in T.Parallel(64, 128):
                    b[i, j] = b[i, j] + T.bfloat16(1)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 128])

    return main


@every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("sizes", [(128, 128, 512), (200, 256, 192)])
def test_both_operands_change_in_place(sizes, target):
    m, n, k = sizes
    kernel = compiled(updated(m, n, k), target)
    a, b = torch.randint(-3, 4, (m, k)).bfloat16(), torch.randint(-3, 4, (k, n)).bfloat16()
    c = torch.full((m, n), torch.nan)
    kernel(a, b, c)
    torch.testing.assert_close(c, a.float().clamp(min=0) @ (b.float() + 1), rtol=0, atol=0)


def in_registers(m, n, k, rows=128, columns=128, threads=128, reads_again=False):
    """C = max(A, 0) B, where A is a fragment that threads compute."""

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((k, n), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
        Last: T.Tensor((m, 64), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            loaded = T.alloc_shared((rows, 64), "bfloat16")
            a = T.alloc_fragment((rows, 64), "bfloat16")
            b = T.alloc_shared((64, columns), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                T.copy(A[by * rows, step * 64], loaded)
                T.copy(B[step * 64, bx * columns], b)
                for i, j in T.Parallel(rows, 64):
                    a[i, j] = T.max(loaded[i, j], 0)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])
            if reads_again:
                T.copy(a, Last[by * rows, 0])

    return main


def check_in_registers(kernel, m, n, k, last=False):
    a = torch.randint(-3, 4, (m, k)).bfloat16()
    b = torch.randint(-3, 4, (k, n)).bfloat16()
    c = torch.full((m, n), torch.nan)
    rest = torch.full((m, 64), torch.nan).bfloat16()
    kernel(a, b, c, rest)
    assert torch.equal(c, a.float().clamp(min=0) @ b.float())
    if last:
        assert torch.equal(rest, a[:, -64:].clamp(min=0))


@every_schedule
@pytest.mark.parametrize(
    ("sizes", "tile", "threads"),
    [
        ((16, 256, 1024), (128, 128), 128),
        ((1, 200, 512), (64, 64), 128),
        ((130, 264, 320), (128, 64), 256),
        ((256, 136, 192), (64, 32), 128),
    ],
)
def test_results_of_a_in_registers(sizes, tile, threads):
    kernel = compiled(in_registers(*sizes, *tile, threads))
    assert "T.Kernel: blocks compute tiles of" in remarks(kernel)
    check_in_registers(kernel, *sizes)


def test_a_in_registers_takes_less_time_in_chosen_tiles():
    program = in_registers(16, 1024, 1024)
    kept = compiled(program, **{"tl.disable_tile_choice": True})
    assert compiled(program).profile().timing.grid_us < kept.profile().timing.grid_us


def test_a_in_registers_that_is_read_again_keeps_its_tile():
    kernel = compiled(in_registers(64, 128, 256, reads_again=True))
    assert "T.Kernel: blocks compute tiles of" not in remarks(kernel)
    check_in_registers(kernel, 64, 128, 256, last=True)
