"""Gradients of attention in one pass over P and dS, parts of dQ added up in memory.

``gradients`` holds a block of keys and goes through the queries, as ``dkv`` of attention_backward;
in each step it multiplies dS by its keys, too, and adds that part of dQ to a float32 tensor: five
gemms instead of seven. It does so beside the first gemm of the next step if that part has room
until then. In which order the parts come is up to chance: dQ differs from run to run in its last
bits. ``finish`` scales and rounds the sums, which ``prepare_sums`` has set to zero.

Nobody else reads the sums, so they lie in the order in which threads have a part in registers:
it goes to shared memory without bank conflicts, and from there as one piece.

Of causal attention blocks with many queries come first, of some heads of K at a time
(``heads_at_a_time``). Where heads of Q share one of K, a block has its rows of queries of all of
them before the next rows.

    python attention_backward_added.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1]
                        [--dim 128] [--causal] [--dtype bfloat16] [--target sm_90a]
                        [--device cpu]
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import attention_backward
import torch
from attention_backward import (
    Tiles,
    extents,
    multiply,
    prepare_rows,
    weights_and_gradients,
)
from attention_forward import has_tensor_memory

import tilelang
import tilelang.language as T

#: work of a block beside its steps, in steps
OVERHEAD = 4
#: heads of K that run side by side at least, and how much longer than the shortest a grid may take
HEADS, LONGER = 4, 1.02


class Part(NamedTuple):
    """A part of dQ: a tile of queries by dimensions, in registers and in memory.

    Registers have rows of queries, 8 rows by 8 dimensions in those of a warp that are stored
    together: in memory 8 dimensions of 32 queries follow each other. A warpgroup's are together.
    ``transposed``, as it is in tensor memory, a warp has 32 dimensions of a query together: memory
    has rows of queries.
    """

    step: int
    dim: int
    transposed: bool

    @property
    def registers(self) -> tuple[int, int]:
        """Extents in registers."""
        return (self.dim, self.step) if self.transposed else (self.step, self.dim)

    @property
    def rows_first(self) -> bool:
        """Whether the blocks of memory that a warpgroup fills are those of its queries."""
        return self.step > 64

    @property
    def shape(self) -> tuple[int, int, int]:
        """Extents in memory."""
        if self.transposed:
            return 1, self.step, self.dim
        rows, columns = self.step // 32, self.dim // 8
        return (rows, columns, 256) if self.rows_first else (columns, rows, 256)

    def at(self, query, d):
        """Where an element lies in memory."""
        if self.transposed:
            return 0, query, d
        rows, columns, inside = query // 32, d // 8, query % 32 * 8 + d % 8
        return (rows, columns, inside) if self.rows_first else (columns, rows, inside)


def part_of(tiles, dim, arch="sm_90a"):
    """Returns the Part of a step."""
    return Part(tiles.step, dim, has_tensor_memory(arch))


def extents_of_sums(shape, part):
    """Returns those of the sums: all parts of a head of a sequence, then of the next head."""
    return shape.batch * shape.heads, T.ceildiv(shape.queries, part.step), *part.shape


@T.macro
def multiply_all(P, dS, keys, queries, d_out, dQ, dK, dV, transposed):
    """The products of weights and of gradients of scores, which have a row for each key.

    The dS of that for dQ is rounded once more: the registers of dS_half are those of the gemm of
    dK.
    """
    P_half, dS_half = (T.alloc_fragment(P.shape, keys.dtype) for _ in range(2))
    dS_shared = T.alloc_shared(dS.shape, keys.dtype)
    T.copy(P, P_half)
    T.gemm(P_half, d_out, dV)
    T.copy(dS, dS_half)
    T.gemm(dS_half, queries, dK)
    T.copy(dS, dS_shared)
    policy = T.GemmWarpPolicy.FullRow if dQ.shape[0] > 64 else T.GemmWarpPolicy.FullCol
    a, b = (keys, dS_shared) if transposed else (dS_shared, keys)
    T.gemm(a, b, dQ, transpose_A=True, clear_accum=True, policy=policy)


@T.macro
def add(tile, part, Sums, head, number):
    """Adds a part to its sums, by its head (of all sequences) and its number among them."""
    staged = T.alloc_shared(part.shape, "float32")
    if part.transposed:  # wide boxes, of whole lines of 128 bytes
        T.annotate_layout({staged: tilelang.layout.make_swizzled_layout(staged)})
    for q, d in T.Parallel(part.step, part.dim):
        staged[part.at(q, d)] = tile[d, q] if part.transposed else tile[q, d]
    T.atomic_add(Sums[head, number, :, :, :], staged)


@T.macro
def store(tile, staged, Out, first, number):
    """By way of a tile in shared memory that is no longer needed."""
    T.copy(tile, staged)
    heads = Out.shape[2]
    T.copy(staged, Out[number // heads, first : first + tile.shape[0], number % heads, :])


def place(shape, number, i):
    """Returns the head (of all sequences) and its tile of queries of step i of a head of K."""
    shared_by = shape.heads // shape.kv_heads
    return number * shared_by + i % shared_by, i // shared_by


def steps_of(shape, causal, tiles):
    """Returns the steps of the blocks of a head of K."""
    hidden = shape.keys - shape.queries
    tiles_of_queries, shared_by = -(-shape.queries // tiles.step), shape.heads // shape.kv_heads
    return [
        (tiles_of_queries - (max(first - hidden, 0) // tiles.step if causal else 0)) * shared_by
        for first in range(0, shape.keys, tiles.kept)
    ]


def duration(steps, group, rounds, multiprocessors):
    """Returns how long blocks take of ``rounds`` times ``group`` heads, in steps."""
    through = [0] * multiprocessors
    for work in [work for work in steps for _ in range(group)] * rounds:
        heapq.heapreplace(through, through[0] + work + OVERHEAD)
    return max(through)


def heads_at_a_time(shape, causal, tiles, multiprocessors):
    """Returns how many heads of K (of all sequences) run side by side, long blocks first.

    Few at a time, so that the L2 cache holds their queries; as many as it takes that the last
    blocks are short ones.
    """
    if not causal:
        return 1
    heads, steps = shape.batch * shape.kv_heads, steps_of(shape, causal, tiles)
    work = [n + OVERHEAD for n in steps]
    least = max(*work, heads * sum(work) / multiprocessors)  # that any order takes
    times, best = {}, heads
    for group in range(min(HEADS, heads), heads + 1):
        if heads % group:
            continue
        times[group] = duration(steps, group, heads // group, multiprocessors)
        best = next(g for g, t in times.items() if t <= LONGER * min(times.values()))
        if times[best] <= LONGER * least:  # whatever the others take
            break
    return best


def prepare_sums(shape, part, dtype="bfloat16", threads=128):
    """As ``prepare`` of attention_backward; sets the sums of dQ to zero as well."""
    of_out, of_rows = extents(shape)[3:]
    of_lse = shape.batch, shape.heads, shape.queries
    of_sums, step = extents_of_sums(shape, part), part.step

    @T.prim_func
    def prepare_sums(
        Out: T.Tensor(of_out, dtype), dOut: T.Tensor(of_out, dtype),
        Lse: T.Tensor(of_lse, "float32"), Rows: T.Tensor(of_rows, "float32"),
        Sums: T.Tensor(of_sums, "float32"),
    ):  # fmt: skip
        blocks = T.ceildiv(shape.queries, step), shape.heads, shape.batch
        with T.Kernel(*blocks, threads=threads) as (bx, by, bz):
            T.clear(Sums[bz * shape.heads + by, bx, :, :, :])
            prepare_rows(Out, dOut, Lse, Rows, bz, by, bx * step, step)

    return prepare_sums


def gradients(shape, causal, tiles, part, dtype="bfloat16", group=1):
    """As ``dkv`` of attention_backward; also a parameter are the sums of dQ, unscaled.

    ``group`` heads of K run side by side.
    """
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    of_q, of_k, of_v, of_out, of_rows = extents(shape)
    of_sums, (kept, step, threads, num_stages) = extents_of_sums(shape, part), tiles
    # In registers there is room for few dimensions, in tensor memory for all.
    scale, shared_by, late = 1 / math.sqrt(dim), heads // kv_heads, dim <= 64 or part.transposed

    @T.prim_func
    def gradients(
        Q: T.Tensor(of_q, dtype), K: T.Tensor(of_k, dtype), V: T.Tensor(of_v, dtype),
        dOut: T.Tensor(of_out, dtype), Rows: T.Tensor(of_rows, "float32"),
        Sums: T.Tensor(of_sums, "float32"), dK: T.Tensor(of_k, dtype), dV: T.Tensor(of_v, dtype),
    ):  # fmt: skip
        blocks = T.ceildiv(keys, kept) * group, kv_heads * batch // group
        with T.Kernel(*blocks, threads=threads) as (bx, by):
            K_shared, V_shared = (T.alloc_shared((kept, d), dtype) for d in (dim, dim_v))
            if dim % 64 and dim % 16 == 0 and not part.transposed:  # a warpgroup has half of them
                narrow = tilelang.layout.make_quarter_bank_swizzled_layout(K_shared)
                T.annotate_layout({K_shared: narrow})
            Q_shared, dOut_shared = (T.alloc_shared((step, d), dtype) for d in (dim, dim_v))
            lse, sums = (T.alloc_shared((step,), "float32") for _ in range(2))
            # Transposed: rows are keys, columns are queries.
            P, dS = (T.alloc_fragment((kept, step), "float32") for _ in range(2))
            dK_sum, dV_sum = (T.alloc_fragment((kept, d), "float32") for d in (dim, dim_v))
            dQ_part = T.alloc_fragment(part.registers, "float32")
            first, number = bx // group * kept, by * group + bx % group
            start = T.max(first - (keys - queries), 0) // step * shared_by if causal else 0
            end = T.ceildiv(queries, step) * shared_by
            T.copy(K[number // kv_heads, first : first + kept, number % kv_heads, :], K_shared)
            T.copy(V[number // kv_heads, first : first + kept, number % kv_heads, :], V_shared)
            for tile in (dK_sum, dV_sum, dQ_part):
                T.clear(tile)
            for i in T.Pipelined(start, end, num_stages=num_stages):
                head, tile = place(shape, number, i)
                row = tile * step
                T.copy(Q[head // heads, row : row + step, head % heads, :], Q_shared)
                T.copy(Rows[0, head // heads, head % heads, row : row + step], lse)
                T.gemm(K_shared, Q_shared, P, transpose_B=True, clear_accum=True)
                if late:
                    add(dQ_part, part, Sums, *place(shape, number, T.max(i - 1, start)))
                T.copy(dOut[head // heads, row : row + step, head % heads, :], dOut_shared)
                T.copy(Rows[1, head // heads, head % heads, row : row + step], sums)
                T.gemm(V_shared, dOut_shared, dS, transpose_B=True, clear_accum=True)
                diagonal = row + keys - queries - first if causal else None
                weights_and_gradients(P, dS, lse, sums, scale, diagonal)
                products = dQ_part, dK_sum, dV_sum
                multiply_all(P, dS, K_shared, Q_shared, dOut_shared, *products, part.transposed)
                if not late:
                    add(dQ_part, part, Sums, head, tile)
            if late:
                add(dQ_part, part, Sums, *place(shape, number, end - 1))
            multiply(dK_sum, scale)
            store(dK_sum, K_shared, dK, first, number)
            store(dV_sum, V_shared, dV, first, number)

    return gradients


def finish(shape, part, dtype="bfloat16", threads=256):
    """Returns a prim_func of the sums of dQ and dQ."""
    of_q, of_sums = extents(shape)[0], extents_of_sums(shape, part)
    step, scale = part.step, 1 / math.sqrt(shape.dim)

    @T.prim_func
    def finish(Sums: T.Tensor(of_sums, "float32"), dQ: T.Tensor(of_q, dtype)):
        blocks = T.ceildiv(shape.queries, step), shape.heads, shape.batch
        with T.Kernel(*blocks, threads=threads) as (bx, by, bz):
            tile = T.alloc_shared((step, shape.dim), dtype)
            for i, j, row, column in T.Parallel(step // 32, shape.dim // 8, 32, 8):
                q, d = i * 32 + row, j * 8 + column
                tile[q, d] = Sums[(bz * shape.heads + by, bx, *part.at(q, d))] * scale
            T.copy(tile, dQ[bz, bx * step : (bx + 1) * step, by, :])

    return finish


class Backward(attention_backward.Backward):
    """As that of attention_backward, of other kernels."""

    @staticmethod
    def default_tiles(dim, target="sm_90a"):
        """Returns Tiles that registers or tensor memory have room for, ``dim`` <= 128."""
        if has_tensor_memory(target):
            return Tiles(128, 64, 256, 3)
        return Tiles(128, 64 if dim > 64 else 128, 256, 2)

    def functions(self, causal, dtype):
        """Returns the prim_funcs."""
        shape, tiles = self.shape, self.tiles
        self.part = part_of(tiles, shape.dim, self.gpu.arch)
        group = heads_at_a_time(shape, causal, tiles, self.gpu.compute_max_core)
        return (
            prepare_sums(shape, self.part, dtype),
            gradients(shape, causal, tiles, self.part, dtype, group),
            finish(shape, self.part, dtype),
        )

    def workspace(self, device):
        """Returns tensors for what the kernels pass on, Rows first."""
        sums = torch.empty(extents_of_sums(self.shape, self.part), device=device)
        return [*super().workspace(device), sums]

    def launch(self, q, k, v, out, d_out, lse, workspace, gradients):
        """Writes dQ, dK and dV to ``gradients``."""
        prepare_kernel, gradients_kernel, finish_kernel = self.kernels
        prepare_kernel(out, d_out, lse, *workspace)
        gradients_kernel(q, k, v, d_out, *workspace, *gradients[1:])
        finish_kernel(workspace[1], gradients[0])


if __name__ == "__main__":
    attention_backward.main(Backward, __doc__)
