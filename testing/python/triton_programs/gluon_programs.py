"""Programs in Gluon: layouts, asynchronous copies, barriers and tensor memory by hand."""

from __future__ import annotations

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton_programs.programs import Program, check, collect, poisoned, randn

PROGRAMS: list[Program] = []

# Triton 3.9 renamed Gluon's asynchronous copies.
load_async = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared
load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
send_tile = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def copy_kernel(x, out, rows, columns, BR: gl.constexpr, BC: gl.constexpr):
    """Through shared memory, from a layout along rows to one along columns."""
    by_row: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    by_column: gl.constexpr = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])
    r = gl.program_id(0) * BR + gl.arange(0, BR, gl.SliceLayout(1, by_row))[:, None]
    c = gl.program_id(1) * BC + gl.arange(0, BC, gl.SliceLayout(0, by_row))[None, :]
    value = gl.load(x + r * columns + c, mask=(r < rows) & (c < columns), other=0.0)
    tile = gl.allocate_shared_memory(x.dtype.element_ty, [BR, BC], shared, value)
    r = gl.program_id(0) * BR + gl.arange(0, BR, gl.SliceLayout(1, by_column))[:, None]
    c = gl.program_id(1) * BC + gl.arange(0, BC, gl.SliceLayout(0, by_column))[None, :]
    gl.store(out + c * rows + r, tile.load(by_column), mask=(r < rows) & (c < columns))


@collect(PROGRAMS)
def gluon_transpose(arch):
    x, out = randn(50, 45), poisoned(45, 50)
    copy_kernel[(2, 2)](x, out, 50, 45, BR=32, BC=32)
    assert torch.equal(out, x.T)


@gluon.jit
def pipeline_kernel(x, out, n, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    """Rows of a ring are filled by cp.async while earlier ones are added up."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    at = gl.arange(0, BLOCK, layout)
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK], shared)
    for i in gl.static_range(STAGES - 1):
        load_async(ring.index(i), x + i * BLOCK + at)
        async_copy.commit_group()
    total = gl.zeros([BLOCK], gl.float32, layout)
    for i in range(n):
        ahead = i + STAGES - 1
        async_copy.wait_group(STAGES - 2)
        total += ring.index(i % STAGES).load(layout)
        load_async(
            ring.index(ahead % STAGES), x + ahead * BLOCK + at,
            mask=gl.full([BLOCK], ahead, gl.int32, layout) < n,
        )  # fmt: skip
        async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + at, total)


@collect(PROGRAMS)
def gluon_ring_of_copies(arch):
    x, out = randn(9, 128), poisoned(128)
    pipeline_kernel[(1,)](x, out, 9, BLOCK=128, STAGES=3)
    check(out, x.double().sum(0), atol=1e-5)


def descriptor(x, block):
    layout = gl.NVMMASharedLayout.get_default_for(
        block, {torch.float16: gl.float16, torch.float32: gl.float32}[x.dtype]
    )
    return TensorDescriptor.from_tensor(x, block, layout)


@gluon.jit
def tma_kernel(x, y, out):
    """Two tiles come by TMA, their sum leaves by it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    tiles = gl.allocate_shared_memory(x.dtype, [2, x.block_shape[0], x.block_shape[1]], x.layout)
    ready = mbarrier.allocate_mbarrier()
    mbarrier.init(ready, count=1)
    r, c = gl.program_id(0) * x.block_shape[0], gl.program_id(1) * x.block_shape[1]
    mbarrier.expect(ready, 2 * x.nbytes_per_cta)
    load_tile(x, [r, c], ready, tiles.index(0))
    load_tile(y, [r, c], ready, tiles.index(1))
    mbarrier.wait(ready, 0)
    total = tiles.index(0).load(layout) + tiles.index(1).load(layout)
    mbarrier.invalidate(ready)
    tiles.index(0).store(total)
    fence_async_shared()
    send_tile(out, [r, c], tiles.index(0))
    tma.store_wait(0)


@collect(PROGRAMS, ("sm_90a", "sm_100a"))
def gluon_tma_copies(arch):
    x, y, out = randn(48, 72), randn(48, 72, seed=1), poisoned(48, 72)
    maps = [descriptor(each, [32, 32]) for each in (x, y, out)]
    tma_kernel[(2, 3)](*maps)
    assert torch.equal(out, x + y)


@gluon.jit
def wgmma_kernel(a, b, c, K: gl.constexpr):
    """A (M, K) times B (N, K) transposed, two stages of TMA ahead of wgmma."""
    rows: gl.constexpr = a.block_shape[0]
    depth: gl.constexpr = a.block_shape[1]
    columns: gl.constexpr = b.block_shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16]
    )
    a_ring = gl.allocate_shared_memory(a.dtype, [2, a.block_shape[0], a.block_shape[1]], a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [2, b.block_shape[0], b.block_shape[1]], b.layout)
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(ready.index(i), count=1)
    m, n = gl.program_id(0) * rows, gl.program_id(1) * columns
    total = gl.zeros([rows, columns], gl.float32, layout)
    mbarrier.expect(ready.index(0), a.nbytes_per_cta + b.nbytes_per_cta)
    load_tile(a, [m, 0], ready.index(0), a_ring.index(0))
    load_tile(b, [n, 0], ready.index(0), b_ring.index(0))
    for k in range(0, K, depth):
        slot = k // depth % 2
        following = 1 - slot
        more = k + depth < K
        mbarrier.expect(ready.index(following), a.nbytes_per_cta + b.nbytes_per_cta, pred=more)
        load_tile(a, [m, k + depth], ready.index(following), a_ring.index(following), pred=more)
        load_tile(b, [n, k + depth], ready.index(following), b_ring.index(following), pred=more)
        mbarrier.wait(ready.index(slot), k // depth // 2 & 1)
        turned = b_ring.index(slot).permute((1, 0))
        total = warpgroup_mma(a_ring.index(slot), turned, total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    out.store(total.to(c.dtype))
    fence_async_shared()
    send_tile(c, [m, n], out)
    tma.store_wait(0)


@collect(PROGRAMS, ("sm_90a",))
def gluon_wgmma(arch):
    m, n, k = 128, 64, 192
    a, b = randn(m, k, dtype=torch.float16), randn(n, k, dtype=torch.float16, seed=1)
    c = poisoned(m, n, dtype=torch.float16)
    maps = descriptor(a, [64, 64]), descriptor(b, [64, 64]), descriptor(c, [64, 64])
    wgmma_kernel[(2, 1)](*maps, K=k)
    check(c, a.double() @ b.double().T, atol=1e-2)


@gluon.jit
def load_tiles(a, b, a_ring, b_ring, full, empty, m, n, K):
    depth: gl.constexpr = a.block_shape[1]
    for k in range(0, K, depth):
        slot, use = k // depth % 2, k // depth // 2
        mbarrier.wait(empty.index(slot), (use & 1) ^ 1)
        mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)
        load_tile(a, [m, k], full.index(slot), a_ring.index(slot))
        load_tile(b, [n, k], full.index(slot), b_ring.index(slot))


@gluon.jit
def multiply_tiles(a_ring, b_ring, total, full, empty, done, K):
    depth: gl.constexpr = a_ring.shape[2]
    for k in range(0, K, depth):
        slot, use = k // depth % 2, k // depth // 2
        mbarrier.wait(full.index(slot), use & 1)
        tcgen05_mma(a_ring.index(slot), b_ring.index(slot).permute((1, 0)), total, use_acc=k != 0)
        tcgen05_commit(empty.index(slot))
    tcgen05_commit(done)


@gluon.jit
def store_tile(c, total, done, m, n):
    mbarrier.wait(done, 0)
    out = gl.allocate_shared_memory(c.dtype, c.block_shape, c.layout)
    by_row: gl.constexpr = gl.BlockedLayout([1, c.block_shape[1]], [32, 1], [4, 1], [0, 1])
    out.store(total.load(by_row).to(c.dtype))
    fence_async_shared()
    send_tile(c, [m, n], out)
    tma.store_wait(0)


@gluon.jit
def roles_kernel(a, b, c, K):
    """One warp loads, one multiplies into tensor memory, four store."""
    rows: gl.constexpr = a.block_shape[0]
    columns: gl.constexpr = b.block_shape[0]
    a_ring = gl.allocate_shared_memory(a.dtype, [2, a.block_shape[0], a.block_shape[1]], a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [2, b.block_shape[0], b.block_shape[1]], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(done, count=1)
    layout: gl.constexpr = TensorMemoryLayout([rows, columns], col_stride=1)
    total = allocate_tensor_memory(gl.float32, [rows, columns], layout)
    m, n = gl.program_id(0) * rows, gl.program_id(1) * columns
    gl.warp_specialize(
        [
            (store_tile, (c, total, done, m, n)),
            (load_tiles, (a, b, a_ring, b_ring, full, empty, m, n, K)),
            (multiply_tiles, (a_ring, b_ring, total, full, empty, done, K)),
        ],
        [1, 1],
        [24, 24],
    )


@collect(PROGRAMS, ("sm_100a",))
def gluon_roles_and_tensor_memory(arch):
    m, n, k = 256, 64, 256
    a, b = randn(m, k, dtype=torch.float16), randn(n, k, dtype=torch.float16, seed=1)
    c = poisoned(m, n, dtype=torch.float16)
    maps = descriptor(a, [128, 64]), descriptor(b, [64, 64]), descriptor(c, [128, 64])
    roles_kernel[(triton.cdiv(m, 128), 1)](*maps, k)
    check(c, a.double() @ b.double().T, atol=1e-2)
