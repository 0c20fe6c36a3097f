"""A mask that a gemm adds to becomes one that is added to its result, in tensor memory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import pipeline, run_pass

ROWS, KEYS, DIM = 256, 128, 128  # two groups of rows: S and O take all columns


def attention(causal: Any, length: int):
    """As one first writes it: the mask is what the scores begin with."""
    scale = math.log2(math.e) / math.sqrt(DIM)
    hidden = -T.infinity("float32")

    @T.prim_func
    def main(
        Q: T.Tensor((length, DIM), "bfloat16"),
        K: T.Tensor((length, DIM), "bfloat16"),
        V: T.Tensor((length, DIM), "bfloat16"),
        Out: T.Tensor((length, DIM), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, ROWS), threads=256) as bx:
            q = T.alloc_shared((ROWS, DIM), "bfloat16")
            k, v = (T.alloc_shared((KEYS, DIM), "bfloat16") for _ in range(2))
            s = T.alloc_fragment((ROWS, KEYS), "float32")
            p = T.alloc_fragment((ROWS, KEYS), "bfloat16")
            out = T.alloc_fragment((ROWS, DIM), "float32")
            highest, before, total, part = (T.alloc_fragment((ROWS,), "float32") for _ in range(4))
            T.copy(Q[bx * ROWS, 0], q)
            T.clear(out)
            T.clear(total)
            T.fill(highest, hidden)
            blocks = T.min(T.ceildiv(length, KEYS), (bx + 1) * ROWS // KEYS)
            for n in T.Pipelined(blocks, num_stages=2):
                T.copy(K[n * KEYS, 0], k)
                for i, j in T.Parallel(ROWS, KEYS):
                    s[i, j] = causal(bx * ROWS + i, n * KEYS + j, hidden)
                T.gemm(q, k, s, transpose_B=True)
                T.copy(V[n * KEYS, 0], v)
                T.copy(highest, before)
                T.reduce_max(s, highest, dim=1, clear=False)
                for i, j in T.Parallel(ROWS, KEYS):
                    s[i, j] = T.exp2((s[i, j] - highest[i]) * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(ROWS):
                    before[i] = T.exp2((before[i] - highest[i]) * scale)
                    total[i] = total[i] * before[i] + part[i]
                for i, j in T.Parallel(ROWS, DIM):
                    out[i, j] *= before[i]
                T.copy(s, p)
                T.gemm(p, v, out)
            for i, j in T.Parallel(ROWS, DIM):
                out[i, j] /= total[i]
            T.copy(out, Out[bx * ROWS, 0])

    return main


def seen(row, key, hidden):
    return T.if_then_else(row >= key, 0.0, hidden)


@pytest.mark.every_schedule
def test_causal_attention_with_two_groups_of_rows() -> None:
    length = 300
    kernel = tilelang.compile(attention(seen, length), target="sm_100a")
    q, k, v = (torch.randn(length, DIM).bfloat16() for _ in range(3))
    out = torch.full((length, DIM), torch.nan)
    kernel(q, k, v, out)
    scores = (q.double() @ k.double().T / math.sqrt(DIM)).masked_fill(
        torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf
    )
    torch.testing.assert_close(out.double(), scores.softmax(1) @ v.double(), rtol=0.01, atol=0.01)


def one_gemm(value: Any, between: str = "", clear: bool = False):
    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "bfloat16"),
        Limit: T.Tensor((128,), "int32"),
        C: T.Tensor((128, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            limit = T.alloc_var("int32", init=n)
            T.copy(A, a)
            T.copy(A[0:64, 0:64], b)
            for _ in T.serial(2):
                for i, j in T.Parallel(128, 64):
                    c[i, j] = value(i, j, limit, Limit)
                if between == "read":
                    T.copy(c[0:64, :], c[64:128, :])
                elif between == "variable":
                    limit = limit + 1
                elif between == "written":
                    Limit[0] = 3
                elif between == "left":
                    if n > 3:
                        break
                elif between == "beside":
                    Limit[0] = limit
                T.gemm(a, b, c, clear_accum=clear)
                T.copy(c, C)

    return main


def by_value(i, j, limit, Limit):
    return T.if_then_else(j < limit, 0.0, -T.infinity("float32"))


def by_tensor(i, j, limit, Limit):
    return T.if_then_else(j < Limit[i], 0.0, -T.infinity("float32"))


def both_ways(i, j, limit, Limit):
    return T.if_then_else(i < 9, by_value(i, j, limit, Limit), 0.0)


def by_a_number_that_rounds(i, j, limit, Limit):
    return T.if_then_else(j < limit, 0.0, -1e4)


def by_a_value(i, j, limit, Limit):
    return T.if_then_else(j < limit, T.cast(i, "float32"), 0.0)


CASES = {
    "value": (one_gemm(by_value), True),
    "both ways": (one_gemm(both_ways), True),
    "tensor": (one_gemm(by_tensor), True),
    "beside": (one_gemm(by_value, "beside"), True),
    "a number that rounds": (one_gemm(by_a_number_that_rounds), False),
    "a value": (one_gemm(by_a_value), False),
    "overwritten": (one_gemm(by_value, clear=True), False),
    "read": (one_gemm(by_value, "read"), False),
    "variable": (one_gemm(by_value, "variable"), False),
    "written": (one_gemm(by_tensor, "written"), False),
    "left": (one_gemm(by_value, "left"), False),
}


@pytest.mark.parametrize("name", CASES)
def test_which_masks_move(name: str) -> None:
    func, moves = CASES[name]
    for step in pipeline():
        before, func = func, run_pass(step, func, "sm_100a")
        if step == "mask_results":
            assert (str(before) != str(func)) is moves
            break


def test_registers_keep_their_mask() -> None:
    """By wgmma the mask is in the registers that the gemm adds to."""
    func = one_gemm(by_value)
    for step in pipeline():
        before, func = func, run_pass(step, func, "sm_90a")
        if step == "mask_results":
            assert str(before) == str(func)
            break
