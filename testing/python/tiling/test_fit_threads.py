"""More threads for blocks whose fragments need more registers than a thread has."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import tilelang
import tilelang.language as T


def attention(
    rows=128, keys=128, dim=128, length=200, threads=128, dtype="float16", reads_threads=False,
    swizzled=False,
):  # fmt: skip
    """softmax(Q K^T / sqrt(dim)) V of one head, with the online softmax."""
    scale = 1.44269504 / math.sqrt(dim)

    @T.prim_func
    def main(
        Q: T.Tensor((length, dim), dtype),
        K: T.Tensor((length, dim), dtype),
        V: T.Tensor((length, dim), dtype),
        Out: T.Tensor((length, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(length, rows), threads=threads) as bx:
            q = T.alloc_shared((rows, dim), dtype)
            k = T.alloc_shared((keys, dim), dtype)
            v = T.alloc_shared((keys, dim), dtype)
            s = T.alloc_fragment((rows, keys), "float32")
            p = T.alloc_fragment((rows, keys), dtype)
            o = T.alloc_fragment((rows, dim), "float32")
            top = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            if swizzled:
                T.annotate_layout({q: tilelang.layout.make_swizzled_layout(q)})
            T.copy(Q[bx * rows, 0], q)
            T.clear(o)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(length, keys), num_stages=2):
                T.copy(K[step * keys, 0], k)
                T.copy(V[step * keys, 0], v)
                for i, j in T.Parallel(rows, keys):
                    s[i, j] = T.if_then_else(step * keys + j < length, 0.0, -T.infinity("float32"))
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i, j in T.Parallel(rows, keys):
                    s[i, j] = T.exp2((s[i, j] - top[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(rows):
                    before[i] = T.exp2((before[i] - top[i]) * scale)
                    total[i] = total[i] * before[i] + part[i]
                T.copy(s, p)
                for i, j in T.Parallel(rows, dim):
                    o[i, j] = o[i, j] * before[i]
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, dim):
                o[i, j] = o[i, j] / total[i]
            if reads_threads and T.get_thread_binding() == 0:
                T.print(total[0])
            T.copy(o, Out[bx * rows, 0])

    return main


def message(target, configs=None, **options) -> str:
    lowered = tilelang.lower(attention(**options), target=target, pass_configs=configs)
    return " ".join(remark.message for remark in lowered.remarks)


WIDER = "256 threads instead of 128 compute a block"


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize(
    "options",
    [{"length": 136}, {"length": 300, "dim": 64, "dtype": "bfloat16"}, {"swizzled": True}],
    ids=str,
)
def test_more_threads_hold_the_fragments(target, options):
    if target != "sm_90a":
        options = {**options, "keys": 64, "dim": 128, "length": 136}  # for their shared memory
    kernel = tilelang.compile(attention(**options), target=target)
    assert WIDER in " ".join(remark.message for remark in kernel.remarks)
    length, dim = options.get("length", 200), options.get("dim", 128)
    torch.manual_seed(0)
    dtype = getattr(torch, options.get("dtype", "float16"))
    q, k, v = (torch.randn(length, dim).to(dtype) for _ in range(3))
    out = torch.full((length, dim), float("nan"), dtype=dtype)
    kernel(q, k, v, out)
    want = scaled_dot_product_attention(*(x.double()[None] for x in (q, k, v)))[0]
    torch.testing.assert_close(out.double(), want, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("target", "options", "configs"),
    [
        ("sm_90a", {"rows": 64, "keys": 64}, None),  # 160 registers suffice
        ("sm_90a", {"threads": 256}, None),
        ("sm_90a", {"reads_threads": True}, None),
        ("sm_90a", {}, {"tl.disable_block_fitting": True}),
        ("sm_100a", {}, None),  # sums are in tensor memory
    ],
    ids=str,
)
def test_threads_that_stay(target, options, configs):
    assert "threads instead of" not in message(target, configs, **options)
