"""Tiles of results in the bytes of the operands of a loop, on sm_100a."""

from __future__ import annotations

import json

import pytest
import torch
from sm100.checks import _assembled, _seed, _warnings_are_errors, assembled_cases, assembler

import tilelang
import tilelang.language as T

pytestmark = [
    pytest.mark.over_field,
    pytest.mark.may_spill("a row of products beside the row of sums"),
]
__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]

ROWS = BLOCK = 128
BLOCKS = 5


def products(dim, trips="all", persistent=False, staged=True, touched=False, threads=128):
    """Out = sum over blocks of keys of bf16(Q K^T / 64) V, for 5 blocks of rows of many heads.

    ``trips``: "all" blocks of keys, or for block number i the first "i" or "i + 1".
    ``staged``: the program stages its result; else the compiler does.
    ``touched``: threads read the tile of K, too.
    """
    heads = T.dynamic("heads")
    keys = ROWS * BLOCKS

    @T.prim_func
    def main(
        Q: T.Tensor((heads, keys, dim), "bfloat16"),
        K: T.Tensor((heads, keys, dim), "bfloat16"),
        V: T.Tensor((heads, keys, dim), "bfloat16"),
        Out: T.Tensor((heads, keys, dim), "bfloat16"),
    ):
        with T.Kernel(4 if persistent else BLOCKS, heads, threads=threads) as (bx, by):
            q = T.alloc_shared((ROWS, dim), "bfloat16")
            k, v = (T.alloc_shared((BLOCK, dim), "bfloat16") for _ in range(2))
            s = T.alloc_fragment((ROWS, BLOCK), "float32")
            p = T.alloc_fragment((ROWS, BLOCK), "bfloat16")
            out = T.alloc_fragment((ROWS, dim), "float32")
            tile = T.alloc_shared((ROWS, dim), "bfloat16") if staged else None
            for each in T.serial(T.ceildiv(BLOCKS - bx, 4) if persistent else 1):
                at = bx + each * 4
                T.copy(Q[by, at * ROWS, 0], q)
                T.clear(out)
                end = {"all": BLOCKS, "i": at, "i + 1": at + 1}[trips]
                for n in T.Pipelined(end, num_stages=2):
                    T.copy(K[by, n * BLOCK, 0], k)
                    T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                    T.copy(V[by, n * BLOCK, 0], v)
                    for i, j in T.Parallel(ROWS, BLOCK):
                        p[i, j] = s[i, j] / 64
                    if touched:
                        for i, j in T.Parallel(ROWS, dim):
                            out[i, j] += k[i, j]
                    T.gemm(p, v, out)
                if staged:
                    T.copy(out, tile)
                    T.copy(tile, Out[by, at * ROWS, 0])
                else:
                    T.copy(out, Out[by, at * ROWS, 0])

    return main


def shared_bytes(kernel, dim):
    tensors = [torch.zeros(60, BLOCKS * ROWS, dim, dtype=torch.bfloat16) for _ in range(4)]
    return json.loads(kernel.profile(*tensors).json())["shared_bytes"]


def check(kernel, dim, trips="all", touched=False, heads=2):
    q, k, v = (torch.randn(heads, BLOCKS, ROWS, dim).bfloat16() for _ in range(3))
    flat = (heads, BLOCKS * ROWS, dim)
    out = torch.full(flat, torch.nan).bfloat16()
    kernel(q.reshape(flat), k.reshape(flat), v.reshape(flat), out)
    for block in range(BLOCKS):
        end = {"all": BLOCKS, "i": block, "i + 1": block + 1}[trips]
        want = torch.zeros(heads, ROWS, dim, dtype=torch.double)
        for n in range(end):
            weights = (q[:, block].double() @ k[:, n].double().mT / 64).bfloat16().double()
            want += weights @ v[:, n].double() + (k[:, n].double() if touched else 0)
        got = out.view(heads, BLOCKS, ROWS, dim)[:, block].double()
        torch.testing.assert_close(got, want, rtol=2e-2, atol=6e-2)


def compiled(dim, **options):
    configs = {"tl.verify_synchronization": True}
    return tilelang.compile(products(dim, **options), target="sm_100a", pass_configs=configs)


@pytest.mark.every_schedule
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("trips", ["all", "i", "i + 1"])
@pytest.mark.parametrize("dim", [64, 128])
def test_the_result_follows_the_operands(dim, trips, staged) -> None:
    kernel = compiled(dim, trips=trips, staged=staged)
    check(kernel, dim, trips)


def test_the_result_takes_no_bytes_of_its_own() -> None:
    kernel = compiled(128)
    tiles = 3 * ROWS * 128 * 2  # Q, K and V; the result takes those of K
    assert tiles <= shared_bytes(kernel, 128) < tiles + 4096
    assert any("two blocks share" in str(remark) for remark in kernel.remarks)


@pytest.mark.every_schedule
@pytest.mark.parametrize("trips", ["all", "i"])
def test_loads_of_the_next_tile_are_under_way(trips) -> None:
    """In a persistent kernel the result has bytes of its own."""
    kernel = compiled(64, trips=trips, persistent=True)
    assert shared_bytes(kernel, 64) >= 4 * ROWS * 64 * 2
    check(kernel, 64, trips)


@pytest.mark.every_schedule
def test_threads_read_an_operand() -> None:
    """An operand that threads may still read keeps its bytes; the others do not."""
    kernel = compiled(64, touched=True)
    check(kernel, 64, touched=True)


@pytest.mark.every_schedule
def test_two_warpgroups() -> None:
    kernel = compiled(64, threads=256)
    check(kernel, 64)


def plain(m, n, k, tile=128, depth=64):
    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k), "bfloat16"),
        C: T.Tensor((m, n), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=128) as (bx, by):
            a, b = (T.alloc_shared((tile, depth), "bfloat16") for _ in range(2))
            c = T.alloc_fragment((tile, tile), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=3):
                T.copy(A[by * tile, step * depth], a)
                T.copy(B[bx * tile, step * depth], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * tile, bx * tile])

    return main


CHOICES = {
    "alone": {"tl.tile_columns": 64, "tl.tile_pairs": False, "tl.tile_parts": 1},
    "wide": {"tl.tile_columns": 192, "tl.tile_pairs": False, "tl.tile_parts": 1},
    "pair": {"tl.tile_columns": 96, "tl.tile_pairs": True, "tl.tile_parts": 1},
    "two parts": {"tl.tile_columns": 64, "tl.tile_pairs": False, "tl.tile_parts": 2},
    "four parts": {"tl.tile_columns": 128, "tl.tile_pairs": False, "tl.tile_parts": 4},
}


@pytest.mark.every_schedule
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
def test_the_only_tile_of_a_block(choice) -> None:
    """Loops of more iterations than stages, whose result follows the last loads."""
    m, n, k = 250, 328, 1608
    configs = choice | {"tl.verify_synchronization": True}
    kernel = tilelang.compile(plain(m, n, k), target="sm_100a", pass_configs=configs)
    a, b = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
    c = torch.full((m, n), torch.nan).bfloat16()
    kernel(a, b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-2, atol=2e-1)


@pytest.mark.parametrize(("choice", "stages"), [("alone", 9), ("pair", 10), ("two parts", 8)])
def test_stages_take_the_bytes_of_the_result(choice, stages) -> None:
    kernel = tilelang.compile(plain(250, 328, 1608), target="sm_100a", pass_configs=CHOICES[choice])
    remarks = " ".join(remark.message for remark in kernel.remarks)
    assert f"with {stages} stages at most" in remarks
    assert "more stages do not fit shared memory" not in remarks
    stored = [line for line in kernel.get_kernel_source().splitlines() if "tma_store(" in line]
    assert stored
