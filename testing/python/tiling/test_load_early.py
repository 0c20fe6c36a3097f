"""Loads by TMA that move up in straight-line programs."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang
import tilelang.language as T

OFF = {"tl.disable_load_early": True}


def attention(batch, heads, length, dim, between=None):
    """Attention of at most 128 tokens, without a loop.

    Args:
        between: what stands between the first product and the load of V: None, "write", which
            stores to V, or "touch", which uses the tile of V.
    """
    scale = math.log2(math.e) / math.sqrt(dim)
    tensor = T.Tensor((batch, length, heads, dim), "bfloat16")

    @T.prim_func
    def main(Q: tensor, K: tensor, V: tensor, O: tensor):  # noqa: E741
        with T.Kernel(heads, batch, threads=128) as (head, sequence):
            queries = T.alloc_shared((128, dim), "bfloat16")
            keys = T.alloc_shared((128, dim), "bfloat16")
            values = T.alloc_shared((128, dim), "bfloat16")
            scores = T.alloc_fragment((128, 128), "float32")
            weights = T.alloc_fragment((128, 128), "bfloat16")
            result = T.alloc_fragment((128, dim), "float32")
            highest = T.alloc_fragment((128,), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.copy(Q[sequence, 0:128, head, :], queries)
            T.copy(K[sequence, 0:128, head, :], keys)
            T.clear(scores)
            T.gemm(queries, keys, scores, transpose_B=True)
            if between == "write":
                T.copy(K[sequence, 0:128, head, :], V[sequence, 0:128, head, :])
            if between == "touch":
                T.copy(K[sequence, 0:128, head, :], values)
                for i, j in T.Parallel(128, 128):
                    scores[i, j] += values[j, 0]
            for i, j in T.Parallel(128, 128):
                scores[i, j] = T.if_then_else(j < length, scores[i, j], -T.infinity("float32"))
            T.reduce_max(scores, highest, dim=1)
            for i, j in T.Parallel(128, 128):
                scores[i, j] = T.exp2((scores[i, j] - highest[i]) * scale)
            T.reduce_sum(scores, total, dim=1)
            T.copy(scores, weights)
            T.copy(V[sequence, 0:128, head, :], values)
            T.clear(result)
            T.gemm(weights, values, result)
            for i, j in T.Parallel(128, dim):
                result[i, j] /= total[i]
            T.copy(result, O[sequence, 0:128, head, :])

    return main


def loads(kernel):
    """The tensors that TMA loads and, as "exp", the exponentials, in the order of the code."""
    found = []
    for line in kernel.get_kernel_source().splitlines():
        if "tl::tma_load(&" in line:
            found.append(line.split("&")[1].split("_map")[0])
        elif "exp2" in line and "exp" not in found:
            found.append("exp")
    return found


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("between", [None, "write", "touch"])
@pytest.mark.parametrize("length", [128, 107])
def test_attention_without_a_loop(target, between, length):
    batch, heads, dim = 2, 3, 64
    kernel = tilelang.compile(attention(batch, heads, length, dim, between), target=target)
    q, k, v = (torch.randn(batch, length, heads, dim).bfloat16() for _ in range(3))
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float())
    if between == "touch":
        scores += k.float()[..., 0].permute(0, 2, 1)[:, :, None]
    values = k if between == "write" else v
    weights = torch.softmax(scores / math.sqrt(dim), dim=-1)
    want = torch.einsum("bhij,bjhd->bihd", weights, values.float())
    out = torch.full_like(q, torch.nan)
    kernel(q, k, v, out)
    torch.testing.assert_close(out.float(), want, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_values_are_loaded_before_the_softmax(target):
    program = attention(32, 8, 128, 64)
    early = loads(tilelang.compile(program, target=target))
    late = loads(tilelang.compile(program, target=target, pass_configs=OFF))
    assert early.index("V") < early.index("exp")
    assert late.index("V") > late.index("exp")


def test_a_load_stays_behind_a_use_of_its_tile():
    names = loads(tilelang.compile(attention(32, 8, 128, 64, "touch"), target="sm_100a"))
    assert names == ["Q", "K", "K", "V", "exp"]


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("where", ["tile", "row"])
def test_a_load_stays_behind_the_allocations_that_it_uses(target, where):
    """Python runs the loop, so that the second tile is allocated behind the first copies."""

    @T.prim_func
    def main(
        A: T.Tensor((4, 128, 128), "float16"),
        B: T.Tensor((4, 128, 128), "float16"),
        at: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(1, threads=128):
            for tensor, index in ((A, 0), (A, 1), (A, 2)):
                tile = T.alloc_shared((128, 128), "float16")
                if where == "row":
                    row = T.alloc_var("int32", init=at[0] + index)
                    T.copy(tensor[row, 0, 0], tile)
                else:
                    T.copy(tensor[index, 0, 0], tile)
                T.copy(tile, B[index, 0, 0])

    a, at = torch.randn(4, 128, 128).half(), torch.ones(1).int()
    out = torch.full_like(a, torch.nan)
    tilelang.compile(main, target=target)(a, out, at)
    first = 1 if where == "row" else 0
    assert torch.equal(out[:3], a[first : first + 3])
