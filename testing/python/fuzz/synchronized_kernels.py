"""Small kernels that use every kind of synchronisation, for mutations of their PTX."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from changed_ptx import emulate
from cluster import kernels as clusters
from cluster import pair_kernels as pairs
from fuzz import pipelined_kernels
from ptx_kernels import HEADER

import tilelang
import tilelang.language as T
from emulator import test_smoke_kernel as smoke
from epilogue import kernels as epilogues
from tilelang.emulator import Device
from verify import worked_kernels


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel: its PTX, how to run a changed text, and the program if there is one."""

    ptx: str
    run: Callable[[str], Any]
    function: Any = None
    target: str = ""


def _compiled(
    function,
    target: str,
    *arguments: torch.Tensor | int,
    pass_configs: dict[str, Any] | None = None,
) -> Case:
    kernel = tilelang.compile(function, target=target, pass_configs=pass_configs)

    def run(ptx: str) -> None:
        emulate(kernel, ptx)
        kernel(*arguments)

    return Case(kernel.get_ptx(), run, function, target)


def _normal(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator).to(torch.bfloat16)


def gemm_from_tensor_memory() -> Case:
    """A by TMA and registers to tensor memory, B by threads to shared memory: sums along K."""
    tensors = (_normal(128, 128), _normal(32, 128), torch.empty(128, 32))
    return _compiled(worked_kernels.gemm_of_tensor_memory(), "sm_100a", *tensors)


def chained_gemms() -> Case:
    """The first product is rounded in registers and the A operand of the second."""
    m, k, s, n = 128, 32, 32, 32

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((k, s), "bfloat16"),
        D: T.Tensor((s, n), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((k, s), "bfloat16")
            d = T.alloc_shared((s, n), "bfloat16")
            first = T.alloc_fragment((m, k), "bfloat16")
            a_tmem = T.alloc_tmem((m, k), "bfloat16")
            sums = T.alloc_tmem((m, s), "float32")
            local = T.alloc_fragment((m, s), "float32")
            rounded = T.alloc_fragment((m, s), "bfloat16")
            p = T.alloc_tmem((m, s), "bfloat16")
            c = T.alloc_tmem((m, n), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(k, s):
                b[i, j] = B[i, j] * 0.5
            T.copy(a, first)
            T.copy(first, a_tmem)
            T.gemm(a_tmem, b, sums, clear_accum=True)
            for i, j in T.Parallel(s, n):
                d[i, j] = D[i, j] * 0.5
            T.copy(sums, local)
            T.copy(local, rounded)
            T.copy(rounded, p)
            T.gemm(p, d, c, clear_accum=True)
            T.copy(c, C)

    arguments = (_normal(m, k), _normal(k, s), _normal(s, n), torch.empty(m, n))
    return _compiled(main, "sm_100a", *arguments)


def attention() -> Case:
    """Accumulators as fragments, which the compiler keeps in tensor memory; a running maximum."""
    m, block, keys, dim = 128, 32, 96, 32

    @T.prim_func
    def main(
        Q: T.Tensor((m, dim), "bfloat16"),
        K: T.Tensor((keys, dim), "bfloat16"),
        V: T.Tensor((keys, dim), "bfloat16"),
        Out: T.Tensor((m, dim), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((m, dim), "bfloat16")
            k = T.alloc_shared((block, dim), "bfloat16")
            v = T.alloc_shared((block, dim), "bfloat16")
            scores = T.alloc_fragment((m, block), "float32")
            weights = T.alloc_fragment((m, block), "bfloat16")
            result = T.alloc_fragment((m, dim), "float32")
            highest = T.alloc_fragment((m,), "float32")
            for i, j in T.Parallel(m, dim):
                q[i, j] = Q[i, j] * 0.125
            T.fill(result, 0)
            T.fill(highest, -100.0)
            for step in T.serial(keys // block):
                T.copy(K[step * block, 0], k)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True)
                T.reduce_max(scores, highest, dim=1, clear=False)
                for i, j in T.Parallel(m, block):
                    weights[i, j] = T.exp2(scores[i, j] - highest[i])
                for i, j in T.Parallel(block, dim):
                    v[i, j] = V[step * block + i, j] * 0.5
                T.gemm(weights, v, result)
            T.copy(result, Out)

    arguments = (_normal(m, dim), _normal(keys, dim), _normal(keys, dim), torch.empty(m, dim))
    return _compiled(main, "sm_100a", *arguments)


def tiles_by_tma(target: str) -> Case:
    """Tiles come and go by TMA; threads reverse their rows in between."""
    rows, steps, columns = 16, 4, 64

    @T.prim_func
    def main(
        A: T.Tensor((rows * steps, columns), "float32"),
        B: T.Tensor((rows * steps, columns), "float32"),
    ):
        with T.Kernel(1, threads=64):
            source = T.alloc_shared((rows, columns), "float32")
            result = T.alloc_shared((rows, columns), "float32")
            for step in T.serial(steps):
                T.copy(A[step * rows, 0], source)
                for i, j in T.Parallel(rows, columns):
                    result[i, j] = source[i, columns - 1 - j] + 1.0
                T.copy(result, B[step * rows, 0])

    a = torch.randn(rows * steps, columns)
    return _compiled(main, target, a, torch.empty_like(a))


def reductions() -> Case:
    """Reductions over all threads, through shared memory, in a loop."""
    rows, columns = 8, 512

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, 2), "float32")):
        with T.Kernel(1, threads=128):
            row = T.alloc_fragment((1, columns), "float32")
            total = T.alloc_fragment((1,), "float32")
            highest = T.alloc_fragment((1,), "float32")
            for i in T.serial(rows):
                T.copy(A[i, 0], row)
                T.reduce_sum(row, total, dim=1)
                T.reduce_max(row, highest, dim=1)
                B[i, 0] = total[0]
                B[i, 1] = highest[0]

    return _compiled(main, "sm_80", torch.randn(rows, columns), torch.empty(rows, 2))


def ring_of_roles() -> Case:
    """A warpgroup fills a ring of two stages, by itself and by TMA; the other issues products and
    frees the stages."""
    m, n, k, most = 128, 32, 16, 7

    @T.prim_func
    def main(
        A: T.Tensor((most, m, k), "bfloat16"),
        B: T.Tensor((most, n, k), "bfloat16"),
        C: T.Tensor((m, n), "float32"),
        steps: T.int32,
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((2, m, k), "bfloat16")
            b = T.alloc_shared((2, n, k), "bfloat16")
            c = T.alloc_tmem((m, n), "float32")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([1, 1])
            done = T.alloc_barrier(1)
            if T.get_thread_binding() < 128:
                for step in T.serial(steps):
                    T.mbarrier_wait_parity(empty[step % 2], (step // 2 + 1) % 2)
                    T.copy(B[step, 0, 0], b[step % 2, :, :])
                    for i, j in T.Parallel(m, k):
                        a[step % 2, i, j] = -A[step, i, j]
                    T.mbarrier_arrive(full[step % 2])
            else:
                for step in T.serial(steps):
                    T.mbarrier_wait_parity(full[step % 2], step // 2 % 2)
                    T.tcgen05_gemm(
                        a[step % 2, :, :],
                        b[step % 2, :, :],
                        c,
                        transpose_B=True,
                        clear_accum=step == 0,
                        mbar=None,
                    )
                    T.tcgen05_mma_arrive(empty[step % 2])
                T.tcgen05_mma_arrive(done)
                T.mbarrier_wait_parity(done, 0)
                T.copy(c, C)

    arguments = (_normal(most, m, k), _normal(most, n, k), torch.empty(m, n), most)
    return _compiled(main, "sm_100a", *arguments)


def transposed_by_warps() -> Case:
    """Threads exchange values through shared memory, twice in each iteration."""
    size, steps = 32, 3

    @T.prim_func
    def main(
        A: T.Tensor((steps, size, size), "float32"), B: T.Tensor((steps, size, size), "float32")
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((size, size), "float32")
            other = T.alloc_shared((size, size), "float32")
            for step in T.serial(steps):
                for i, j in T.Parallel(size, size):
                    tile[i, j] = A[step, i, j]
                for i, j in T.Parallel(size, size):
                    other[i, j] = tile[j, i] * 2.0
                for i, j in T.Parallel(size, size):
                    B[step, i, j] = other[size - 1 - i, size - 1 - j]

    a = torch.randn(steps, size, size)
    return _compiled(main, "sm_80", a, torch.empty_like(a))


def _by_hand(text: str, threads: int, arguments: Callable[[Device], list]) -> Case:
    def run(ptx: str) -> None:
        device = Device("sm_100a")
        device.load_ptx(ptx)["k"].launch(1, threads, arguments(device), progress=False)

    return Case(text, run)


def pipelined_gemm(target: str) -> Case:
    """Loads ahead, gemms by wgmma or free-running tcgen05, stores that the next tile waits for."""
    return _compiled(pipelined_kernels.staged_gemm(), target, *pipelined_kernels.gemm_arguments())


def two_load_warps() -> Case:
    """Two warps fill halves of a slot, and the tensor core waits for both."""
    function = pipelined_kernels.staged_gemm(loads=2)
    return _compiled(function, "sm_100a", *pipelined_kernels.gemm_arguments())


#: arguments of ``pipelined_kernels.chain``: two gemms by wgmma in flight at a time; turns of the
#: threads and the tensor core, of each warpgroup by itself; with an operand over a result
CHAINS = {
    "overlapped_chain": ("sm_90a", {"rows": 64, "keys": 32, "depth": 32, "threads": 128}),
    "turns": ("sm_100a", {"keys": 128, "width": 128, "by_threads": True}),
}


def chain(name: str) -> Case:
    """Two gemms a block, with work of the threads between them."""
    target, sizes = CHAINS[name]
    tensors = {name: sizes[name] for name in ("rows", "keys", "width", "depth") if name in sizes}
    function = pipelined_kernels.chain(**sizes)
    # Twice as many iterations as there are slots of each tile: they wait for slots given back.
    return _compiled(function, target, *pipelined_kernels.chain_arguments(**tensors, count=6))


def smoke_kernel() -> Case:
    """TMA, the tensor core and its accumulator, written by hand."""

    def arguments(device: Device) -> list:
        a, b, out = smoke.operands()
        return [*(device.tensor_map(x, box=(128, 64), swizzle="128B") for x in (a, b)), out]

    return _by_hand(smoke.KERNEL, 128, arguments)


# Warp 0 loads tiles of 512 bytes into a ring of two, warps 1 and 2 add to their halves in place,
# warp 3 stores them and frees the stages. The lanes of a warp exchange words by shared memory.
_RING = (
    HEADER
    + """.visible .entry k(.param .u64 IN, .param .u64 OUT) {
 .shared .align 128 .b8 ring[1024]; .shared .align 8 .b64 bars[6]; .shared .align 8 .b8 flags[256];
 .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .pred %p<9>;
 mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31; mov.u32 %r3, ring;
 mov.u32 %r4, bars; ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r2, 0;
 @!%p0 bra INITIALIZED;
 mbarrier.init.shared.b64 [%r4], 1; mbarrier.init.shared.b64 [%r4+8], 1;
 mbarrier.init.shared.b64 [%r4+16], 64; mbarrier.init.shared.b64 [%r4+24], 64;
 mbarrier.init.shared.b64 [%r4+32], 1; mbarrier.init.shared.b64 [%r4+40], 1;
 fence.mbarrier_init.release.cluster;
INITIALIZED:
 bar.sync 0;
 mov.u32 %r5, 0;
LOOP:
 and.b32 %r6, %r5, 1; shr.u32 %r7, %r5, 1; and.b32 %r7, %r7, 1;
 shl.b32 %r8, %r6, 3; add.u32 %r8, %r8, %r4; shl.b32 %r9, %r6, 9; add.u32 %r9, %r9, %r3;
 setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r1, 3;
 @%p2 bra LOAD; @%p3 bra STORE;
FULL:
 mbarrier.try_wait.parity.shared.b64 %p4, [%r8], %r7;
 @!%p4 bra FULL;
 add.u32 %r10, %r0, -32; shl.b32 %r10, %r10, 3; add.u32 %r10, %r10, %r9;
 ld.shared.v2.u32 {%r11, %r12}, [%r10]; add.u32 %r11, %r11, %r5; add.u32 %r12, %r12, %r5;
 mov.u32 %r13, flags; add.u32 %r14, %r0, -32; shl.b32 %r14, %r14, 2; add.u32 %r13, %r13, %r14;
 st.shared.u32 [%r13], %r11;
 bar.warp.sync 0xffffffff;
 xor.b32 %r14, %r0, 1; add.u32 %r14, %r14, -32; shl.b32 %r14, %r14, 2;
 mov.u32 %r15, flags; add.u32 %r14, %r14, %r15; ld.shared.u32 %r11, [%r14];
 bar.warp.sync 0xffffffff;
 st.shared.v2.u32 [%r10], {%r12, %r11};
 fence.proxy.async.shared::cta;
 mbarrier.arrive.shared.b64 _, [%r8+16];
 bra NEXT;
LOAD:
 @!%p1 bra NEXT;
 xor.b32 %r7, %r7, 1;
EMPTY:
 mbarrier.try_wait.parity.shared.b64 %p4, [%r8+32], %r7;
 @!%p4 bra EMPTY;
 mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 512;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9], [%d0], 512, [%r8];
 add.u64 %d0, %d0, 512;
 bra NEXT;
STORE:
 @!%p1 bra NEXT;
DONE:
 mbarrier.try_wait.parity.shared.b64 %p4, [%r8+16], %r7;
 @!%p4 bra DONE;
 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r9], 512;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group.read 0;
 mbarrier.arrive.shared.b64 _, [%r8+32];
 add.u64 %d1, %d1, 512;
NEXT:
 add.u32 %r5, %r5, 1; setp.lt.u32 %p5, %r5, 6; @%p5 bra LOOP;
 ret;
}
"""
)


def ring_by_hand() -> Case:
    """Three roles around a ring of two stages: bulk loads, threads, bulk stores."""
    source = np.arange(6 * 128, dtype=np.uint32)
    return _by_hand(_RING, 128, lambda device: [source, np.zeros_like(source)])


def _half(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).half()


def tiles_of_clusters() -> Case:
    """A tile for both blocks of a cluster, which wait for each other and for it."""
    program = clusters.broadcast_kernel(2, 0b11, 3, m=16, k=32, threads=64)
    return _compiled(program, "sm_90a", _half(4, 48, 32), _half(4, 3, 16, 32), 3)


def copy_to_another_block() -> Case:
    """Bytes that threads wrote go to the other block of a cluster, which waits for them."""
    x = _half(2, 16, 32)
    program = clusters.bulk_exchange(2, 1, (16, 32), "float16", clusters=1)
    return _compiled(program, "sm_90a", x, torch.empty_like(x))


def ring_of_clusters() -> Case:
    """A pipeline by hand whose tiles of A go to both blocks of a cluster."""
    program = clusters.ring_gemm(64, 128, 256, stages=2)
    tensors = (_half(64, 256), _half(128, 256), torch.empty(64, 128))
    return _compiled(program, "sm_90a", *tensors, 4)


def slots_of_clusters() -> Case:
    """Tiles for both blocks of a cluster, whose tensor cores give the slots back to both."""
    program = clusters.gemm(128, 128, 256, tile=(128, 64, 64), stages=2)
    tensors = (_half(128, 256), _half(128, 256), torch.empty(128, 128))
    return _compiled(program, "sm_100a", *tensors)


def slots_of_pairs() -> Case:
    """A pair of blocks computes ten tiles: loads, gemms and the work of threads have roles."""
    program = pairs.persistent(1280, 64, 192, tile=(128, 32, 64), pairs=1, stages=2)
    tensors = (_half(1280, 192), _half(64, 192), torch.empty(1280, 64))
    return _compiled(program, "sm_100a", *tensors)


def gemm_of_pair() -> Case:
    """Threads of both blocks write operands in shared memory, and wait for the gemm."""
    case = pairs.PairGemm(256, 64, 128, tile=(128, 64, 64), a="w", c="t", dtype="float16")
    tensors = (_half(256, 128), _half(64, 128), torch.empty(256, 64), _half(1, 1))
    return _compiled(case.build(), "sm_100a", *tensors)


def sliced_epilogue() -> Case:
    """Four loads from tensor memory, each with barriers before and after its slot is stored."""
    problem = epilogues.Problem(parts="", staged=True, threads=128)
    return _compiled(
        epilogues.gemm(problem), "sm_100a", *epilogues.arguments(problem),
        pass_configs={"tl.epilogue_subtile": 64},
    )  # fmt: skip


#: By name.
CASES: dict[str, Callable[[], Case]] = {
    function.__name__: functools.cache(function)
    for function in (
        gemm_from_tensor_memory, chained_gemms, attention, reductions, ring_of_roles,
        transposed_by_warps, smoke_kernel, ring_by_hand,
        tiles_of_clusters, copy_to_another_block, ring_of_clusters,
        slots_of_clusters, slots_of_pairs, gemm_of_pair, sliced_epilogue,
        two_load_warps,
    )
} | {
    f"pipelined_gemm_{target}": functools.cache(functools.partial(pipelined_gemm, target))
    for target in ("sm_90a", "sm_100a")
} | {
    name: functools.cache(functools.partial(chain, name)) for name in CHAINS
} | {
    f"tiles_by_tma_{target}": functools.cache(functools.partial(tiles_by_tma, target))
    for target in ("sm_90a", "sm_100a")
}  # fmt: skip
