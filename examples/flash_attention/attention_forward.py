"""Attention of many heads: Out = softmax(Q @ K^T / sqrt(dim)) @ V, and its log-sum-exp.

One program for all targets. The softmax is the online form: a running maximum and a
running sum for each row of Q. Blocks of keys that all rows of a block see come first; the mask of
those at the diagonal (causal) and at the end of the keys stands in a branch that the others skip.

A row has ``parts`` sums of weights, which are added up after the last block: where threads share a
row (wgmma: four of them, two columns side by side each) none waits for the others.

Rows are rescaled where their maximum grew: most warps skip that for most blocks of a long sequence.
``lazy`` rescales rows only when the maximum of one grew so much that weights would be 2**8 times
too large: they are up to 2**8 instead of 1. Nothing overflows, and the sums normalize the result as
before; but the largest weight of a row is no longer exactly 1, it is rounded as the others are. Of
1024 keys of normal random bfloat16 the relative error of the result is 2.3e-3 instead of 2.2e-3;
where scores are six times as large, 2.0e-3 instead of 1.7e-3.

``polynomial`` of eight pairs of exponentials are polynomials on the FMA pipe (``T.exp2_fma`` of
degree 3: a relative error of up to 1.02e-4, where rounding weights to bfloat16 has 3.9e-3), for
tensor cores that would wait for the unit of special functions. Of those 1024 keys the relative
error of the result is 2.3e-3 still, and 1.7e-3 where scores are six times as large.

``group`` heads run side by side, of causal attention their blocks with many keys first.

    python attention_forward.py [--queries 256] [--keys 256] [--heads 2] [--kv_heads 1] [--dim 128]
                        [--causal] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import tilelang
import tilelang.language as T
from tilelang.carver.arch import CUDA
from tilelang.tools.example import Case, Example, Option

#: of compiling: exp2 and the division are the fast ones of the hardware
PASS_CONFIGS = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}


FEW = 96  # keys, which are one tile

#: of torch, by the name of who wrote them
BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "FlashAttention 2": SDPBackend.FLASH_ATTENTION,
}

#: of tables: arguments of Shape
SHAPES = (
    (8, 512, 512, 16, 16, 64, 64),
    (4, 4096, 4096, 16, 16, 64, 64),
    (4, 4096, 77, 16, 16, 64, 64),
    (4, 2047, 2047, 16, 16, 96, 96),
    (4, 4096, 4096, 16, 16, 128, 128),
    (2, 4096, 4096, 32, 8, 128, 128),
    (2, 4096, 4096, 16, 16, 192, 128),
)


def has_tensor_memory(target) -> bool:
    """Whether sums of gemms lie in tensor memory."""
    return CUDA(target).target.has_tcgen05


def default_tiles(target, dim, dim_v=None, lengths=None) -> dict[str, Any]:
    """Returns arguments of ``attention``: tiles that registers and shared memory have room for.

    ``dim_v`` is that of V, by default the one of Q and K. ``lengths`` are those of queries and
    keys: with 64 dimensions, four warpgroups share their keys, or several small blocks a
    multiprocessor where all keys are a tile.

    On Blackwell a warpgroup has 128 rows; while the tensor core works for one of them, the other
    has its softmax. 256 dimensions leave room for one of them alone, in two warpgroups. The weights
    have columns of their own beside the scores, so that the next scores are computed meanwhile. Of
    80 keys less of the pipe's time is lost than of 64. Up to 128 dimensions, where exponentials
    take longest, a quarter of them are polynomials.
    """
    if has_tensor_memory(target):
        halves = 2 if dim <= 192 else 1  # of 128 rows
        columns = 512 // halves - (dim_v or dim)  # of tensor memory, for the scores of one
        return {
            "block_M": 128 * halves,
            "block_N": min(128 if dim <= 64 else 80, columns),
            "threads": 256,
            "num_stages": 3 if dim <= 128 else 2,
            "parts": 1,
            "polynomial": 2 if dim <= 128 else 0,
        }
    if target == "sm_80":
        return {"block_M": 128, "block_N": 64, "threads": 256, "num_stages": 2, "parts": 4}
    if lengths is not None and max(dim, dim_v or dim) <= 64:
        few = lengths[1] <= FEW
        tiles = (64, -(-lengths[1] // 16) * 16, 128) if few else (256, 64, 512)
        return {
            **dict(zip(("block_M", "block_N", "threads"), tiles, strict=True)),
            "num_stages": 2,
            "blocks": CUDA(target).compute_max_core * (3 if few else 1),
        }
    wide = dim + (dim_v or dim) > 320  # two stages of 128 keys and values beside Q: 245 KiB
    return {
        "block_M": 128,
        "block_N": 64 if dim > 192 else 96 if wide else 128,
        "threads": 256,
        "num_stages": 2,
    }


class Shape(NamedTuple):
    """Q is (batch, queries, heads, dim), K (batch, keys, kv_heads, dim), V (batch, keys, kv_heads,
    dim_v), Out (batch, queries, heads, dim_v), Lse (batch, heads, queries).

    ``kv_heads`` divides ``heads``; consecutive heads share one. The lengths may be T.dynamic, and
    need not be multiples of the blocks.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    dim: int
    dim_v: int


@T.macro
def hide(scores, first_key, last_key, diagonal):
    """Row i of the block sees the keys up to ``last_key``, and up to ``diagonal`` + i if given."""
    for i, j in T.Parallel(*scores.shape):
        last = last_key if diagonal is None else T.min(diagonal + i, last_key)
        scores[i, j] = T.if_then_else(first_key + j <= last, scores[i, j], -T.infinity("float32"))


def power(x, column, polynomial):
    """2 ** x; in ``polynomial`` of eight pairs of columns as a polynomial."""
    if polynomial == 0:
        return T.exp2(x)
    return T.if_then_else(column // 2 % 8 < polynomial, T.exp2_fma(x, degree=3), T.exp2(x))


@T.macro
def online_softmax(
    scores, weights, result, highest, sums, scale, slack, polynomial=0, of_values=None
):
    """Takes a block of scores in: ``weights`` are those of its keys, ``result`` is rescaled.

    ``of_values`` are factors of values, one for each key, that weights are multiplied by.

    ``highest`` may stay behind by ``slack``: with 0 it is the maximum, and rows in which it stays
    are left as they are; with None as well, but all rows are multiplied.
    """
    rows, keys = scores.shape
    previous, factor = (T.alloc_fragment((rows,), "float32") for _ in range(2))
    T.copy(highest, previous)
    T.reduce_max(scores, highest, dim=1, clear=False, slack=slack)
    for i in T.Parallel(rows):
        factor[i] = 1
        if slack is None or highest[i] != previous[i]:
            # Not previous * scale - highest * scale: where a multiplication and a subtraction are
            # one instruction, that is not 0 for equal numbers, and large for large ones.
            factor[i] = T.exp2((previous[i] - highest[i]) * scale)
    for i, j in T.Parallel(rows, keys):
        scores[i, j] = power(scores[i, j] * scale - highest[i] * scale, j, polynomial)
    for i, j in T.Parallel(*sums.shape):
        sums[i, j] *= factor[i]
    T.reduce_sum(scores, sums, dim=1, clear=False)
    if of_values is not None:
        for i, j in T.Parallel(rows, keys):
            scores[i, j] *= of_values[j]
    T.copy(scores, weights)
    for i, j in T.Parallel(*result.shape):
        if slack is None or highest[i] != previous[i]:
            result[i, j] *= factor[i]


def may_be_blind(queries, keys, causal):
    """Whether a query may see no key; where a length is known at the call only, none may."""
    return causal and isinstance(queries, int) and isinstance(keys, int) and queries > keys


@T.macro
def attend(
    Q_shared, K, V, result, highest, sums, at, keys, diagonal, scale, slack, block_N, stages,
    polynomial=0, blind=False,
):  # fmt: skip
    """Takes in the blocks of keys that rows of Q see, of a sequence and head (``at``).

    With ``blind`` rows may see none, for which the maximum must be finite.
    """
    block_M, dim = Q_shared.shape
    K_shared = T.alloc_shared((block_N, dim), K.dtype)
    V_shared = T.alloc_shared((block_N, result.shape[1]), V.dtype)
    scores = T.alloc_fragment((block_M, block_N), "float32")
    weights = T.alloc_fragment((block_M, block_N), V.dtype)
    whole = (keys if diagonal is None else T.min(diagonal + 1, keys)) // block_N  # seen by all rows
    seen = keys if diagonal is None else T.min(diagonal + block_M, keys)
    T.clear(result)
    T.clear(sums)
    T.fill(highest, -1e30 if blind else -T.infinity("float32"))
    for k in T.Pipelined(T.ceildiv(seen, block_N), num_stages=stages):
        T.copy(K[at[0], k * block_N : (k + 1) * block_N, at[1], :], K_shared)
        T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
        if k >= whole:
            hide(scores, k * block_N, keys - 1, diagonal)
        online_softmax(scores, weights, result, highest, sums, scale, slack, polynomial)
        T.copy(V[at[0], k * block_N : (k + 1) * block_N, at[1], :], V_shared)
        T.gemm(weights, V_shared, result)


@T.macro
def normalize(result, highest, sums, total, scale, blind=False):
    """Divides ``result`` by the sum of its weights; ``total`` becomes the log-sum-exp.

    With ``blind`` rows may have no weights: their result is zero.
    """
    T.reduce_sum(sums, total, dim=1)
    for i, j in T.Parallel(*result.shape):
        result[i, j] /= T.max(total[i], 1e-30) if blind else total[i]
    for i in T.Parallel(result.shape[0]):
        total[i] = (highest[i] * scale + T.log2(total[i])) * math.log(2)


@T.macro
def attend_rows(
    Q, K, V, Out, Lse, Q_shared, Out_shared, state, place, diagonal, scale, slack, block_N, stages,
    polynomial=0,
):  # fmt: skip
    """Computes a tile of Out; ``place`` is its sequence, head and first query."""
    result, highest, sums, total = state
    block_M, dim_v = result.shape
    b, head, first = place
    at = b, head // (Q.shape[2] // K.shape[2])
    blind = may_be_blind(Q.shape[1], K.shape[1], diagonal is not None)
    T.copy(Q[b, first : first + block_M, head, :], Q_shared)
    attend(
        Q_shared, K, V, result, highest, sums,
        at, K.shape[1], diagonal, scale, slack, block_N, stages, polynomial, blind,
    )  # fmt: skip
    normalize(result, highest, sums, total, scale, blind)
    T.copy(result, Out_shared[:, :dim_v])
    T.copy(Out_shared[:, :dim_v], Out[b, first : first + block_M, head, :])
    T.copy(total, Lse[b, head, first : first + block_M])


@T.macro
def state_of(block_M, dim_v, parts):
    """Returns the result of a tile, the maxima of its rows, and sums of their weights."""
    result = T.alloc_fragment((block_M, dim_v), "float32")
    highest, total = (T.alloc_fragment((block_M,), "float32") for _ in range(2))
    sums = T.alloc_fragment((block_M, parts), "float32")
    return result, highest, sums, total


def attention(
    shape, causal=False, dtype="bfloat16", block_M=128, block_N=128, threads=256, num_stages=2,
    lazy=False, group=1, parts=8, polynomial=0, blocks=0,
):  # fmt: skip
    """Returns a prim_func of Q, K, V, Out, all of ``dtype``, and Lse (float32), shaped by a Shape.

    Lse is the natural logarithm of the sum of exp(score) over the keys. With ``causal`` the last
    query sees all keys, the one before all but the last, and so on; Out is zero where a query sees
    none, and Lse -inf. Where a length is T.dynamic, there are at least as many keys as queries.
    ``lazy``, ``group``, ``parts`` and ``polynomial``: see the top of this file. Where all tiles
    take as long (not ``causal``), ``blocks`` is how many blocks share them; 0: a block for each.
    """
    batch, queries, keys, heads, kv_heads, dim, dim_v = shape
    scale = math.log2(math.e) / math.sqrt(dim)  # powers of two in place of e
    slack = 8 / scale if lazy else 0
    rows = T.ceildiv(queries, block_M)
    options = scale, slack, block_N, num_stages, polynomial

    @T.prim_func
    def attention(
        Q: T.Tensor((batch, queries, heads, dim), dtype),
        K: T.Tensor((batch, keys, kv_heads, dim), dtype),
        V: T.Tensor((batch, keys, kv_heads, dim_v), dtype),
        Out: T.Tensor((batch, queries, heads, dim_v), dtype),
        Lse: T.Tensor((batch, heads, queries), "float32"),
    ):
        tensors = Q, K, V, Out, Lse
        if blocks and not causal:
            with T.Kernel(blocks, threads=threads) as block:
                Q_shared = T.alloc_shared((block_M, dim), dtype)
                Out_shared = T.alloc_shared((block_M, dim_v), dtype)
                state = state_of(block_M, dim_v, parts)
                last = rows * heads * batch - 1
                for i in T.Pipelined(T.ceildiv(last + 1 - block, blocks), num_stages=2):
                    # Of a number in bounds the compiler knows that the tile is within Out.
                    tile = T.min(block + i * blocks, last)
                    place = tile // rows // heads, tile // rows % heads, tile % rows * block_M
                    attend_rows(*tensors, Q_shared, Out_shared, state, place, None, *options)
        else:
            grid = rows * group, heads // group, batch
            with T.Kernel(*grid, threads=threads) as (bx, group_index, bz):
                Q_shared = T.alloc_shared((block_M, dim), dtype)
                state = state_of(block_M, dim_v, parts)
                row, by = bx // group, group_index * group + bx % group
                first = (rows - 1 - row if causal else row) * block_M
                diagonal = first + keys - queries if causal else None  # last key of the first row
                place = bz, by, first
                # The tile of Q is no longer needed when that of Out is there.
                attend_rows(*tensors, Q_shared, Q_shared, state, place, diagonal, *options)

    return attention


def reference(q, k, v, causal):
    """Returns (Out, Lse) in float64; shapes as of ``attention``."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.double().repeat_interleave(groups, dim=2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k) / math.sqrt(q.shape[3])
    if causal:
        visible = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device)
        scores.masked_fill_(~visible.tril(k.shape[1] - q.shape[1]), float("-inf"))
    lse = scores.logsumexp(3)
    weights = scores.softmax(3)
    if q.shape[1] > k.shape[1]:  # rows without a key
        weights = weights.masked_fill(lse[..., None] == float("-inf"), 0)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v), lse


def options(names, small, large):
    """Returns those of these options by name; ``small`` and ``large`` are lengths of sequences."""
    found = {
        "batch": Option("sequences", 1, 4),
        "queries": Option("queries of a sequence", small, large),
        "keys": Option("keys of a sequence", small, large),
        "heads": Option("heads of Q", 2, 16),
        "kv_heads": Option("heads of K and V, a divisor of heads; 0 for as many", 1, 0, least=0),
        "dim": Option("elements of a head of Q and K", 128, most=256),
        "causal": Option("a query sees the keys up to its own", False),
        "dtype": Option("element type", "bfloat16", choices=("bfloat16", "float16")),
    }
    return {name: found[name] for name in names.split()}


def heads_of(example) -> tuple[int, int]:
    """Returns the heads of Q, and those of K and V."""
    heads = example.args.heads
    kv_heads = example.args.kv_heads or heads
    divides = heads % kv_heads == 0
    example.require(divides, f"--kv_heads must divide --heads: {kv_heads} does not divide {heads}")
    return heads, kv_heads


def by_torch(q, k, v, causal, backend=None, mask=None):
    """Returns Out as a backend of torch computes it; tensors as of ``attention``."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    gqa = q.shape[1] != k.shape[1]
    with sdpa_kernel(backend) if backend else contextlib.nullcontext():
        compute = torch.nn.functional.scaled_dot_product_attention
        return compute(q, k, v, mask, is_causal=causal, enable_gqa=gqa).transpose(1, 2)


def peers(q, k, v, causal=False):
    """Returns what computes Out, by the name of who wrote it."""
    return {
        name: functools.partial(by_torch, q, k, v, causal, backend)
        for name, backend in BACKENDS.items()
    }


def main(attention=attention, default_tiles=default_tiles, text=__doc__, share_out=None):
    """Runs the kernel, checks it, and on a GPU compares its speed with torch.

    Args:
        attention, default_tiles, text: of the example.
        share_out: of attention_persistent, for a kernel that takes its tables.
    """
    example = Example(
        text,
        **options("batch queries keys heads kv_heads dim causal dtype", 256, 4096),
        dim_v=Option("elements of a head of V; 0 for as many as of K", 0, least=0),
    )
    args = example.args
    example.require(args.dim_v <= args.dim, f"--dim_v is {args.dim_v}: give at most --dim")

    def case(*sizes):
        shape = Shape(*sizes)
        lengths = shape.queries, shape.keys
        tiles = default_tiles(args.target, shape.dim, shape.dim_v, lengths)
        function = attention(shape, args.causal, args.dtype, **tiles)
        kernel = example.compile(function, pass_configs=PASS_CONFIGS)
        q = example.normal(shape.batch, shape.queries, shape.heads, shape.dim, dtype=args.dtype)
        k, v = (
            example.normal(shape.batch, shape.keys, shape.kv_heads, dim, dtype=args.dtype)
            for dim in (shape.dim, shape.dim_v)
        )
        out = example.output(*q.shape[:3], shape.dim_v, dtype=args.dtype)
        lse = example.output(shape.batch, shape.heads, shape.queries)
        tables = []
        if share_out is not None:
            blocks = tiles["block_M"], tiles["block_N"]
            tables = share_out(shape, args.causal, *blocks, device=q.device)
        products = shape.batch * shape.queries * shape.keys * shape.heads
        flops = 2 * products * (shape.dim + shape.dim_v) // (2 if args.causal else 1)
        run = functools.partial(kernel, q, k, v, *tables, out, lse)
        return Case(run, peers(q, k, v, args.causal), flops=flops), (q, k, v), (out, lse)

    lengths, heads = (args.queries, args.keys), heads_of(example)
    line, inputs, results = case(args.batch, *lengths, *heads, args.dim, args.dim_v or args.dim)
    line.run()
    q, k, v = inputs
    exact = reference(q, k, v, args.causal)
    for name, got, want, tolerance in zip(
        ("Out", "Lse"), results, exact, (2**-7, 1e-4), strict=True
    ):
        example.check(name, got, want, tolerance)
    example.speed(*line)
    example.table(SHAPES, lambda *sizes: case(*sizes)[0])


if __name__ == "__main__":
    main()
