"""Blocks an SM, slots of tiles and skipped masks of straightforward attention on sm_100a."""

from __future__ import annotations

import math

import pytest
import torch
from sm100.checks import _assembled, _seed, _warnings_are_errors, assembled_cases, assembler

import tilelang
import tilelang.language as T

# Two blocks leave each thread 168 registers, of which a row of scores takes 128.
pytestmark = pytest.mark.may_spill("a row of scores beside the sums of its parts")
__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]


def attention(keys, dim, rows=128, block=128, stages=2, threads=128, causal=None, dtype="bfloat16"):
    """Straightforward attention of many heads; `causal` says how the program spells its mask."""
    heads = T.dynamic("heads")  # more blocks than SMs, as far as the compiler knows
    scale = math.log2(math.e) / math.sqrt(dim)
    hidden = -T.infinity("float32")

    @T.prim_func
    def main(
        Q: T.Tensor((heads, keys, dim), dtype),
        K: T.Tensor((heads, keys, dim), dtype),
        V: T.Tensor((heads, keys, dim), dtype),
        Out: T.Tensor((heads, keys, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(keys, rows), heads, threads=threads) as (bx, by):
            q = T.alloc_shared((rows, dim), dtype)
            k, v = (T.alloc_shared((block, dim), dtype) for _ in range(2))
            s = T.alloc_fragment((rows, block), "float32")
            p = T.alloc_fragment((rows, block), dtype)
            out = T.alloc_fragment((rows, dim), "float32")
            highest, before, total, part = (T.alloc_fragment((rows,), "float32") for _ in range(4))
            T.copy(Q[by, bx * rows, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(highest, hidden)
            end = T.ceildiv((bx + 1) * rows, block) if causal else T.ceildiv(keys, block)
            for n in T.Pipelined(end, num_stages=stages):
                T.copy(K[by, n * block, 0], k)
                if causal == "before":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(bx * rows + i >= n * block + j, 0, hidden)
                else:
                    T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                if causal == "after":
                    for i, j in T.Parallel(rows, block):
                        s[i, j] = T.if_then_else(n * block + j <= bx * rows + i, s[i, j], hidden)
                T.copy(V[by, n * block, 0], v)
                T.copy(highest, before)
                T.reduce_max(s, highest, dim=1, clear=False)
                for i in T.Parallel(rows):
                    before[i] = T.exp2((before[i] - highest[i]) * scale)
                for i, j in T.Parallel(rows, block):
                    s[i, j] = T.exp2((s[i, j] - highest[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * before[i] + part[i]
                T.copy(s, p)
                for i, j in T.Parallel(rows, dim):
                    out[i, j] *= before[i]
                T.gemm(p, v, out)
            for i, j in T.Parallel(rows, dim):
                out[i, j] /= total[i]
            T.copy(out, Out[by, bx * rows, 0])

    return main


def check(kernel, heads, keys, dim, causal=False, dtype=torch.bfloat16):
    q, k, v = (torch.randn(heads, keys, dim).to(dtype) for _ in range(3))
    out = torch.full((heads, keys, dim), torch.nan)
    kernel(q, k, v, out)
    scores = q.double() @ k.double().transpose(1, 2) / math.sqrt(dim)
    if causal:
        mask = torch.ones(keys, keys, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(mask, -torch.inf)
    want = torch.softmax(scores, 2) @ v.double()
    assert (out.double() - want).norm() < 5e-3 * want.norm()
    assert (out.double() - want).abs().max() < 4e-2 * want.abs().max()


def compiled(*args, target="sm_100a", configs=(), **options):
    configs = {"tl.verify_synchronization": True} | dict.fromkeys(configs, True)
    return tilelang.compile(attention(*args, **options), target=target, pass_configs=configs)


def says(kernel, text):
    return any(text in str(remark) for remark in kernel.remarks)


TWO = "two blocks share a multiprocessor"


@pytest.mark.every_schedule
@pytest.mark.parametrize("dim", [64, 128])
def test_two_blocks(dim: int) -> None:
    kernel = compiled(384, dim)
    assert says(kernel, TWO)
    check(kernel, 2, 384, dim)


@pytest.mark.every_schedule
@pytest.mark.parametrize("causal", ["before", "after"])
@pytest.mark.parametrize(("rows", "block"), [(128, 128), (128, 64), (64, 128)])
def test_masks_are_skipped(causal: str, rows: int, block: int) -> None:
    kernel = compiled(384, 64, rows=rows, block=block, causal=causal)
    check(kernel, 1, 384, 64, causal=True)


@pytest.mark.every_schedule
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_stages(stages: int) -> None:
    """The slots of a tile are what shared memory has room for, whatever the program says."""
    kernel = compiled(512, 128, stages=stages)
    assert "load" in str(kernel.schedule())
    assert says(kernel, TWO)
    assert says(kernel, "1 slot of each tile") == (stages != 1)
    check(kernel, 1, 512, 128)


@pytest.mark.every_schedule
@pytest.mark.parametrize("dim", [96, 256])
def test_one_block_where_there_is_no_room_for_two(dim: int) -> None:
    kernel = compiled(256, dim, block=64, stages=1, rows=128, threads=256 if dim > 128 else 128)
    check(kernel, 1, 256, dim)


@pytest.mark.every_schedule
def test_one_slot_of_each_tile_is_loaded_ahead() -> None:
    """Shared memory has no room for a second slot, and a warp loads K beside P V, V beside Q K."""
    kernel = compiled(256, 256, stages=2)
    assert "load" in str(kernel.schedule()) and "mma" in str(kernel.schedule())
    check(kernel, 1, 256, 256)


@pytest.mark.every_schedule
def test_stages_of_the_program_are_kept() -> None:
    kernel = compiled(256, 64, stages=1, configs=["tl.disable_stage_fitting"])
    assert not says(kernel, TWO)
    check(kernel, 1, 256, 64)


def test_blocks_of_the_program_are_kept() -> None:
    kernel = compiled(256, 128, configs=["tl.disable_block_fitting"])
    assert not says(kernel, TWO)
    check(kernel, 1, 256, 128)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_103a"])
def test_other_targets(target: str) -> None:
    threads = 256 if target == "sm_90a" else 128
    kernel = compiled(256, 64, target=target, causal="before", threads=threads)
    assert says(kernel, TWO) == (target == "sm_103a")
    check(kernel, 1, 256, 64, causal=True)


def test_rows_that_stay_are_not_rescaled() -> None:
    """A factor that is no number, or no 1, reaches the result."""
    kernel = compiled(256, 64)
    q, k, v = (torch.randn(1, 256, 64).bfloat16() for _ in range(3))
    k[0, 200, 0] = torch.nan
    out = torch.zeros(1, 256, 64)
    kernel(q, k, v, out)
    assert out.isnan().all()


@pytest.mark.parametrize("depth", [16, 48, 64, 96, 128, 192])
@pytest.mark.parametrize("stages", [2, 3, 4, 6])
def test_tiles_that_threads_load_into_fewer_slots_than_stages(stages: int, depth: int) -> None:
    """Threads load a tile no further ahead than it has slots."""
    K, M, N = 400, T.dynamic("M"), 64

    @T.prim_func
    def main(
        A: T.Tensor((K, M), "bfloat16"),
        B: T.Tensor((K, N), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 128), threads=128) as by:
            a = T.alloc_shared((depth, 128), "bfloat16")
            b = T.alloc_shared((depth, N), "bfloat16")
            c = T.alloc_fragment((128, N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=stages):
                T.copy(A[k * depth, by * 128], a)
                T.copy(B[k * depth, 0], b)
                T.gemm(a, b, c, transpose_A=True)
                for i, j in T.Parallel(128, N):
                    c[i, j] += 1
            T.copy(c, C[by * 128, 0])

    kernel = tilelang.compile(main, target="sm_100a", pass_configs={"tl.keep_stages": False})
    for rows in (19, 140):
        a, b = (torch.randint(-3, 4, (K, n)).bfloat16() for n in (rows, N))
        c = torch.full((rows, N), torch.nan)
        kernel(a, b, c)
        assert torch.equal(c, a.float().T @ b.float() + -(-K // depth))
