"""Kernels of inference servers, as their authors write them: pages, ragged groups, experts."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from conformance.running import close, normal, poison, run

import tilelang
import tilelang.language as T

LOG2E = 1.44269504
LEAST = -1e30


def column(rows: int) -> Any:
    return T.alloc_fragment((rows,), "float32")


@T.macro
def weigh(scores, out, total, top, before, added, scale):
    """Turns scores into exponentials, and rescales the sum and the result so far to them."""
    T.copy(top, before)
    T.reduce_max(scores, top, dim=1, clear=False)
    for x, y in T.Parallel(*scores.shape):
        scores[x, y] = T.exp2((scores[x, y] - top[x]) * scale)
    T.reduce_sum(scores, added, dim=1)
    for x in T.Parallel(scores.shape[0]):
        before[x] = T.exp2((before[x] - top[x]) * scale)
        total[x] = total[x] * before[x] + added[x]
    for x, y in T.Parallel(*out.shape):
        out[x, y] *= before[x]


@T.macro
def combine(Parts, Logs, Out, b, h):
    """The mean of the parts of a query, weighted by their sums of exponentials."""
    splits, dim = Parts.shape[2:]
    largest = T.alloc_var("float32", LEAST)
    weight = T.alloc_var("float32", 0.0)
    result = T.alloc_fragment((dim,), "float32")
    T.clear(result)
    for s in T.serial(splits):
        largest = T.max(largest, Logs[b, h, s])
    for s in T.serial(splits):
        weight = weight + T.exp2(Logs[b, h, s] - largest)
    for s in T.serial(splits):
        for d in T.Parallel(dim):
            result[d] += Parts[b, h, s, d] * T.exp2(Logs[b, h, s] - largest) / weight
    for d in T.Parallel(dim):
        Out[b, h, d] = result[d]


def paged_decoding(heads: int, kv_heads: int, dim: int, page: int, most: int, splits: int) -> Any:
    """Attention of one query on a cache in pages; splits of the cache, then their combination."""
    group, rows, block, batch = heads // kv_heads, 16, 32, 3
    scale, pages = dim**-0.5 * LOG2E, T.dynamic("pages")

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), "float16"),
        K: T.Tensor((pages, page, kv_heads, dim), "float16"),
        V: T.Tensor((pages, page, kv_heads, dim), "float16"),
        Table: T.Tensor((batch, most), "int32"),
        Lengths: T.Tensor((batch,), "int32"),
        Parts: T.Tensor((batch, heads, splits, dim), "float32"),
        Logs: T.Tensor((batch, heads, splits), "float32"),
        Out: T.Tensor((batch, heads, dim), "float16"),
    ):
        with T.Kernel(batch, kv_heads, splits, threads=128) as (b, h, split):
            q = T.alloc_shared((rows, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            p = T.alloc_shared((rows, block), "float16")
            scores = T.alloc_fragment((rows, block), "float32")
            out = T.alloc_fragment((rows, dim), "float32")
            top, before, total, added = column(rows), column(rows), column(rows), column(rows)
            T.clear(out)
            T.clear(total)
            T.fill(top, LEAST)
            for i, j in T.Parallel(rows, dim):
                q[i, j] = T.if_then_else(i < group, Q[b, h * group + T.min(i, group - 1), j], 0)
            blocks = T.ceildiv(Lengths[b], block)
            each = T.ceildiv(blocks, splits)
            for i in T.Pipelined(T.max(0, T.min(each, blocks - each * split)), num_stages=2):
                place = (each * split + i) * block
                at, row = Table[b, place // page], place % page
                T.copy(K[at, row : row + block, h, :], k)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for x, y in T.Parallel(rows, block):
                    scores[x, y] = T.if_then_else(place + y < Lengths[b], scores[x, y], LEAST)
                weigh(scores, out, total, top, before, added, scale)
                T.copy(scores, p)
                T.copy(V[at, row : row + block, h, :], v)
                T.gemm(p, v, out, policy=T.GemmWarpPolicy.FullCol)
            for x, y in T.Parallel(rows, dim):
                if x < group:
                    weighted = out[x, y] / T.max(total[x], 1e-30)
                    Parts[b, h * group + x, split, y] = weighted
            for x in T.Parallel(rows):
                if x < group:
                    log = T.log2(total[x]) + top[x] * scale
                    Logs[b, h * group + x, split] = T.if_then_else(total[x] > 0, log, LEAST)
        with T.Kernel(batch, heads, threads=64) as (b, h):
            combine(Parts, Logs, Out, b, h)

    return main


def test_paged_decoding(target: str) -> None:
    """A length of 1 leaves splits empty; 317 ends inside a block."""
    heads, kv_heads, dim, page, most, splits, pages = 12, 2, 64, 64, 5, 3, 20
    k, v = (normal(pages, page, kv_heads, dim, dtype="float16") for _ in "kv")
    q = normal(3, heads, dim, dtype="float16")
    table = torch.stack([torch.randperm(pages)[:most] for _ in range(3)]).int()
    lengths = torch.tensor([1, 130, 317], dtype=torch.int32)
    parts, logs = poison(3, heads, splits, dim), poison(3, heads, splits)
    out = poison(3, heads, dim, dtype="float16")
    program = paged_decoding(heads, kv_heads, dim, page, most, splits)
    run(program, target, q, k, v, table, lengths, parts, logs, out)
    for b in range(3):
        keys, values = (
            x[table[b].long()].flatten(0, 1)[: lengths[b]].double().repeat_interleave(6, 1)
            for x in (k, v)
        )
        scores = torch.einsum("hd,shd->hs", q[b].double(), keys) * dim**-0.5
        close(out[b], torch.einsum("hs,shd->hd", scores.softmax(1), values), 2e-3)


def windowed(batch: int, heads: int, dim: int, window: int) -> Any:
    """Causal attention within a window, of sequences one after the other, with a sink a head."""
    rows, scale, total = 64, dim**-0.5 * LOG2E, T.dynamic("total")

    @T.prim_func
    def main(
        Q: T.Tensor((total, heads, dim), "bfloat16"),
        K: T.Tensor((total, heads, dim), "bfloat16"),
        V: T.Tensor((total, heads, dim), "bfloat16"),
        Ends: T.Tensor((batch + 1,), "int32"),
        longest: T.int32,
        Sinks: T.Tensor((heads,), "float32"),
        Out: T.Tensor((total, heads, dim), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(longest, rows), heads, batch, threads=128) as (bx, h, b):
            q = T.alloc_shared((rows, dim), "bfloat16")
            k = T.alloc_shared((rows, dim), "bfloat16")
            v = T.alloc_shared((rows, dim), "bfloat16")
            scores = T.alloc_fragment((rows, rows), "float32")
            p = T.alloc_fragment((rows, rows), "bfloat16")
            out = T.alloc_fragment((rows, dim), "float32")
            top, before, weight, added = column(rows), column(rows), column(rows), column(rows)
            first, length = Ends[b], Ends[b + 1] - Ends[b]
            T.copy(Q[first + bx * rows : first + (bx + 1) * rows, h, :], q)
            T.clear(out)
            T.clear(weight)
            T.fill(top, LEAST)
            begin = T.max(0, bx * rows - window) // rows
            for i in T.Pipelined(begin, T.min(T.ceildiv(length, rows), bx + 1), num_stages=2):
                T.copy(K[first + i * rows : first + (i + 1) * rows, h, :], k)
                for x, y in T.Parallel(rows, rows):
                    at, to = bx * rows + x, i * rows + y
                    seen = (at >= to) & (to > at - window) & (to < length)
                    scores[x, y] = T.if_then_else(seen, 0, LEAST)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                weigh(scores, out, weight, top, before, added, scale)
                T.copy(scores, p)
                T.copy(V[first + i * rows : first + (i + 1) * rows, h, :], v)
                T.gemm(p, v, out, policy=T.GemmWarpPolicy.FullRow)
            for x in T.Parallel(rows):
                weight[x] += T.exp2(Sinks[h] * LOG2E - top[x] * scale)
            for x, y in T.Parallel(rows, dim):
                if bx * rows + x < length:
                    Out[first + bx * rows + x, h, y] = out[x, y] / weight[x]

    return main


def test_windows_with_sinks(target: str) -> None:
    lengths, heads, dim, window = [70, 1, 130], 2, 64, 40
    ends = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    q, k, v = (normal(sum(lengths), heads, dim, dtype="bfloat16") for _ in "qkv")
    sinks, out = normal(heads), poison(sum(lengths), heads, dim, dtype="bfloat16")
    run(windowed(3, heads, dim, window), target, q, k, v, ends, max(lengths), sinks, out)
    for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        scores = torch.einsum("qhd,khd->hqk", q[a:b].double(), k[a:b].double()) * dim**-0.5
        far = torch.arange(b - a)[:, None] - torch.arange(b - a)
        scores = scores.masked_fill((far < 0) | (far >= window), -math.inf)
        sink = sinks.double()[:, None, None].expand(heads, b - a, 1)
        p = torch.cat([scores, sink], 2).softmax(2)[..., :-1]
        close(out[a:b], torch.einsum("hqk,khd->qhd", p, v[a:b].double()), 2e-2)


def grouped(sizes: list[int], depth: int, columns: int) -> Any:
    """Products of groups of rows with a matrix each; blocks of rows do not divide the groups."""
    groups, rows, width, step = len(sizes), 64, 64, 32
    blocks = sum(-(-size // rows) for size in sizes)

    @T.prim_func
    def main(
        A: T.Tensor((sum(sizes), depth), "bfloat16"),
        B: T.Tensor((groups, depth, columns), "bfloat16"),
        Sizes: T.Tensor((groups,), "int32"),
        Begins: T.Tensor((groups,), "int32"),
        Padded: T.Tensor((groups,), "int32"),
        C: T.Tensor((sum(sizes), columns), "float32"),
    ):
        with T.Kernel(blocks, T.ceildiv(columns, width), threads=128) as (bx, by):
            a = T.alloc_shared((rows, step), "bfloat16")
            b = T.alloc_shared((step, width), "bfloat16")
            c = T.alloc_fragment((rows, width), "float32")
            group = T.alloc_var("int32", 0)
            for i in range(groups):
                group = T.if_then_else(bx * rows >= Padded[i], i, group)
            first = bx * rows - Padded[group] + Begins[group]
            left = Sizes[group] - (bx * rows - Padded[group])
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(depth, step), num_stages=2):
                T.copy(A[first : first + rows, k * step : (k + 1) * step], a)
                T.copy(B[group, k * step, by * width], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(rows, width):
                if i < left and by * width + j < columns:
                    C[first + i, by * width + j] = c[i, j]

    return main


def test_ragged_groups(target: str) -> None:
    sizes, depth, columns = [33, 1, 70, 128], 104, 88
    begins = torch.tensor([0, *sizes[:-1]]).cumsum(0)
    padded = torch.tensor([0, *(-(-size // 64) * 64 for size in sizes[:-1])]).cumsum(0)
    a = normal(sum(sizes), depth, dtype="bfloat16")
    b = normal(len(sizes), depth, columns, dtype="bfloat16")
    tables = [torch.tensor(sizes).int(), begins.int(), padded.int()]
    c = run(grouped(sizes, depth, columns), target, a, b, *tables, poison(sum(sizes), columns))
    for group, (rows, out) in enumerate(zip(a.split(sizes), c.split(sizes), strict=True)):
        close(out, rows.double() @ b[group].double(), 1e-3)


def experts(tokens: int, chosen: int, count: int, depth: int, width: int, rows: int) -> Any:
    """Two products of gathered rows, and SwiGLU; rows that fill a block name no token."""
    blocks, columns, step = T.dynamic("blocks"), 64, 64

    @T.prim_func
    def main(
        X: T.Tensor((tokens, depth), "bfloat16"),
        W: T.Tensor((count, 2 * width, depth), "bfloat16"),
        Rows: T.Tensor((blocks * rows,), "int32"),
        Expert: T.Tensor((blocks,), "int32"),
        Y: T.Tensor((tokens * chosen, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(width, columns), blocks, threads=128) as (bx, by):
            x = T.alloc_shared((rows, step), "bfloat16")
            w_gate = T.alloc_shared((columns, step), "bfloat16")
            w_up = T.alloc_shared((columns, step), "bfloat16")
            gate = T.alloc_fragment((rows, columns), "float32")
            up = T.alloc_fragment((rows, columns), "float32")
            expert = Expert[by]
            T.clear(gate)
            T.clear(up)
            for k in T.Pipelined(T.ceildiv(depth, step), num_stages=2):
                for i, j in T.Parallel(rows, step):
                    row = Rows[by * rows + i]
                    x[i, j] = T.if_then_else(
                        (row < tokens * chosen) & (k * step + j < depth),
                        X[T.min(row // chosen, tokens - 1), k * step + j],
                        0,
                    )
                T.copy(W[expert, bx * columns, k * step], w_gate)
                T.copy(W[expert, width + bx * columns, k * step], w_up)
                T.gemm(x, w_gate, gate, transpose_B=True)
                T.gemm(x, w_up, up, transpose_B=True)
            for i, j in T.Parallel(rows, columns):
                row = Rows[by * rows + i]
                if row < tokens * chosen and bx * columns + j < width:
                    Y[row, bx * columns + j] = gate[i, j] / (1 + T.exp(-gate[i, j])) * up[i, j]

    return main


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_experts_of_gathered_rows(rows: int, target: str) -> None:
    tokens, chosen, count, depth, width = 37, 2, 4, 136, 96
    x, w = (
        normal(tokens, depth, dtype="bfloat16"),
        normal(count, 2 * width, depth, dtype="bfloat16"),
    )
    choice = torch.stack([torch.randperm(count)[:chosen] for _ in range(tokens)]).flatten()
    order: list[int] = []
    expert: list[int] = []
    for e in range(count):
        mine = (choice == e).nonzero().flatten().tolist()
        mine += [tokens * chosen] * (-len(mine) % rows)
        order += mine
        expert += [e] * (len(mine) // rows)
    kernel = tilelang.compile(experts(tokens, chosen, count, depth, width, rows), target=target)
    y = poison(tokens * chosen, width)
    kernel(x, w, torch.tensor(order).int(), torch.tensor(expert).int(), y)
    wide, weights = x.double().repeat_interleave(chosen, 0), w.double()[choice]
    gate = torch.einsum("td,tcd->tc", wide, weights[:, :width])
    up = torch.einsum("td,tcd->tc", wide, weights[:, width:])
    close(y, torch.nn.functional.silu(gate) * up, 1e-3)
