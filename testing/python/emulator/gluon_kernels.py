"""A product by pairs of CTAs in Gluon, and what its compiler makes of it for a B200 not here."""

from __future__ import annotations

import functools

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
)
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.jit
def product(a, b, c, K: gl.constexpr):
    """A tile of C of A (M, K) and B (K, N) by each cluster, along M."""
    rows: gl.constexpr = a.block_shape[0]
    depth: gl.constexpr = a.block_shape[1]
    columns: gl.constexpr = b.block_shape[1]
    ctas: gl.constexpr = gl.num_ctas()
    a_tile = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    b_tile = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    full = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    count: gl.constexpr = tcgen05_mma_barrier_count([a_tile, b_tile], multicast=True, two_ctas=True)
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=count)
    layout: gl.constexpr = TensorMemoryLayout(
        block=(rows // ctas, columns), col_stride=1, cga_layout=c.layout.cga_layout, two_ctas=True
    )
    total = allocate_tensor_memory(gl.float32, [rows, columns], layout)
    first = gl.program_id(0) * rows
    phase = 0
    for k in range(0, K, depth):
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [first, k], full, a_tile, multicast=True)
        tma.async_load(b, [k, 0], full, b_tile, multicast=True)
        mbarrier.wait(full, phase, deps=[a_tile, b_tile])
        tcgen05_mma(a_tile, b_tile, total, use_acc=(k != 0), multicast=True, mbarriers=[done])
        mbarrier.wait(done, phase, deps=[a_tile, b_tile])
        phase ^= 1
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    out.store(total.load().to(c.dtype))
    tma.async_store(c, [first, 0], out)
    tma.store_wait(0)


#: How the tiles of A, B and C are cut into those of 2 and of 4 CTAs.
CUTS = {
    2: (((1, 0),), ((0, 1),), ((1, 0),)),
    4: (((1, 0), (2, 0)), ((0, 1), (0, 0)), ((1, 0), (2, 0))),
}


@functools.cache
def compiled(ctas: int, dtype: str, m: int, n: int, block: int, k: int):
    """Triton's kernel for a tile of m x n, ``block`` of K at a time; C is fp16."""
    kinds = {"fp16": gl.float16, "fp8e4nv": gl.float8e4nv}
    types = []
    for shape, kind, cut in zip(
        ((m, block), (block, n), (m, n)), (dtype, dtype, "fp16"), CUTS[ctas], strict=True
    ):
        layout = gl.NVMMASharedLayout.get_default_for(list(shape), kinds[kind], cga_layout=cut)
        types.append(f"tensordesc<{kind}[{shape[0]},{shape[1]}],{layout!r}>")
    signature = dict(zip("abc", types, strict=True)) | {"K": "constexpr"}
    return triton.compile(
        GluonASTSource(product, signature, {(3,): k}),
        target=GPUTarget("cuda", 100, 32),
        options={"num_ctas": ctas, "num_warps": 4},
    )
