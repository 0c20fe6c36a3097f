"""Kernels in Triton, and what its compiler makes of them for a GPU that need not be there."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, INTEGER: tl.constexpr,
):  # fmt: skip
    """C (M, N) of A (M, K) and B (N, K); edges of the tiles by masks, K a multiple of BK."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * K + rk[None, :]
    b = b_ptr + rn[None, :] * K + rk[:, None]
    kind: tl.constexpr = tl.int32 if INTEGER else tl.float32
    acc = tl.zeros((BM, BN), kind)
    for _ in range(0, K, BK):
        x = tl.load(a, mask=rm[:, None] < M, other=0.0)
        y = tl.load(b, mask=rn[None, :] < N, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=kind)
        a += BK
        b += BK
    c = c_ptr + rm[:, None] * N + rn[None, :]
    tl.store(c, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def persistent(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BLOCKS: tl.constexpr,
    SPECIALIZED: tl.constexpr,
):  # fmt: skip
    """C (M, N) of A (M, K) and B (N, K) by TMA: each block computes every BLOCKS-th tile."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    columns = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * columns
    for tile in tl.range(
        tl.program_id(0), tiles, BLOCKS, flatten=False, warp_specialize=SPECIALIZED
    ):
        m, n = tile // columns * BM, tile % columns * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
        c.store([m, n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, o_ptr, S, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """[heads, S, D]; ``scale`` includes log2(e)."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn, rd = tl.arange(0, BN), tl.arange(0, D)
    base = tl.program_id(1) * S * D
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = (tl.program_id(0) + 1) * BM if CAUSAL else S
    for j in range(0, end, BN):
        k = tl.load(k_ptr + base + (j + rn[None, :]) * D + rd[:, None])
        s = tl.dot(q, k) * scale
        if CAUSAL:
            s = tl.where(rm[:, None] >= j + rn[None, :], s, -float("inf"))
        largest = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - largest[:, None])
        factor = tl.exp2(m - largest)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(v_ptr + base + (j + rn[:, None]) * D + rd[None, :])
        acc = tl.dot(p.to(v_ptr.dtype.element_ty), v, acc * factor[:, None])
        m = largest
    o = o_ptr + base + rm[:, None] * D + rd[None, :]
    tl.store(o, (acc / total[:, None]).to(o_ptr.dtype.element_ty))


class Compiled(NamedTuple):
    ptx: str
    shared: int  # bytes
    scratch: int  # bytes of global memory for each block


@functools.cache
def compiled(
    function: Any, arch: int, types: tuple[str, ...], constants: tuple[tuple[str, Any], ...],
    warps: int = 4, stages: int = 3,
) -> Compiled:  # fmt: skip
    """For compute capability ``arch``: 80 or 90. Pointers and extents are multiples of 16."""
    names = function.arg_names
    signature = dict(zip(names, [*types, *["constexpr"] * len(constants)], strict=True))
    aligned = [i for i, t in enumerate(types) if t == "i32" or t.startswith("*")]
    source = ASTSource(
        function,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    kernel = triton.compile(
        source,
        target=GPUTarget("cuda", arch, 32),
        options={"num_warps": warps, "num_stages": stages},
    )
    return Compiled(kernel.asm["ptx"], kernel.metadata.shared, kernel.metadata.global_scratch_size)
