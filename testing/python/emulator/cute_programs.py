"""Kernels in CuTe DSL: ``python cute_programs.py NAME [FLAW]`` compiles one where no GPU is.

The environment says for what (``CUTE_DSL_ARCH``) and where the PTX goes (``CUTE_DSL_KEEP=ptx``,
``CUTE_DSL_DUMP_DIR``). With a flaw, the kernel leaves out the synchronization of that name.
"""

import sys

import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as sm100
import cutlass.utils.hopper_helpers as sm90
from cutlass import BFloat16, Constexpr, Float32, Int32, Int64, const_expr, pipeline
from cutlass.cute.nvgpu import cpasync, tcgen05, warpgroup
from cutlass.cute.runtime import make_ptr
from cutlass.memory import SmemAllocator
from cutlass.pipeline import Agent, CooperativeGroup, PipelineUserType, make_pipeline_state
from cutlass.tensor_utils import LayoutEnum

THREADS, STAGES, DEPTH = 128, 2, 64
MAJOR = cute.nvgpu.OperandMajorMode.K
ROW_MAJOR = LayoutEnum.ROW_MAJOR


@cute.kernel
def reverse_kernel(x: cute.Tensor, y: cute.Tensor, flaw: Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row = SmemAllocator().allocate_tensor(Float32, cute.make_layout(4 * THREADS), 16)
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), Float32, num_bits_per_copy=128)
    copy = cute.make_tiled_copy_tv(atom, cute.make_layout(THREADS), cute.make_layout(4))
    mine = copy.get_slice(thread)
    cute.copy(copy, mine.partition_S(x[block, None]), mine.partition_D(row))
    cute.arch.cp_async_commit_group()
    if const_expr(flaw != "copy"):
        cute.arch.cp_async_wait_group(0)
    if const_expr(flaw != "barrier"):
        cute.arch.barrier()
    for i in cutlass.range_constexpr(4):
        at = thread + i * THREADS
        y[block, at] = row[4 * THREADS - 1 - at]


@cute.jit
def reverse(x: cute.Pointer, y: cute.Pointer, flaw: Constexpr):
    layout = cute.make_layout((3, 4 * THREADS), stride=(4 * THREADS, 1))
    kernel = reverse_kernel(cute.make_tensor(x, layout), cute.make_tensor(y, layout), flaw)
    kernel.launch(grid=[3, 1, 1], block=[THREADS, 1, 1])


def stages(smem, layout):
    return smem.allocate_tensor(BFloat16, layout.outer, byte_alignment=1024, swizzle=layout.inner)


def partition(load, shared, tile, modes: int):
    """What a copy by TMA writes, by slot, and reads, by step."""
    one = cute.make_layout(1)
    shared, tile = cute.group_modes(shared, 0, modes), cute.group_modes(tile, 0, modes)
    return cpasync.tma_partition(load, 0, one, shared, tile)


@cute.kernel
def hopper_kernel(
    mma: cute.TiledMma, load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom,
    b: cute.Tensor, c: cute.Tensor, layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout, flaw: Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    barriers = smem.allocate_array(Int64, 2 * STAGES)
    shared_a, shared_b = stages(smem, layout_a), stages(smem, layout_b)
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=CooperativeGroup(Agent.Thread),
        consumer_group=CooperativeGroup(Agent.Thread, 4),
        tx_count=2 * 64 * DEPTH * 2,
        barrier_storage=barriers,
        cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
    )
    tile_a = cute.local_tile(a, (64, DEPTH), (x, None))
    tile_b = cute.local_tile(b, (64, DEPTH), (y, None))
    to_a, from_a = partition(load_a, shared_a, tile_a, 2)
    to_b, from_b = partition(load_b, shared_b, tile_b, 2)
    part = mma.get_slice(thread % 128)
    operand_a = mma.make_fragment_A(part.partition_A(shared_a))
    operand_b = mma.make_fragment_B(part.partition_B(shared_b))
    result = part.partition_C(cute.local_tile(c, (64, 64), (x, y)))
    sums = cute.make_rmem_tensor(result.shape, Float32)
    steps = cute.size(from_a, mode=[1])
    if warp == 4:
        state = make_pipeline_state(PipelineUserType.Producer, STAGES)
        for k in cutlass.range(steps):
            if const_expr(flaw != "empty"):
                ring.producer_acquire(state)
            else:
                ring.sync_object_full.arrive(state.index, ring.producer_mask)
            barrier = ring.producer_get_barrier(state)
            cute.copy(load_a, from_a[None, k], to_a[None, state.index], tma_bar_ptr=barrier)
            cute.copy(load_b, from_b[None, k], to_b[None, state.index], tma_bar_ptr=barrier)
            ring.producer_commit(state)
            state.advance()
    if warp < 4:
        state = make_pipeline_state(PipelineUserType.Consumer, STAGES)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        for _ in cutlass.range(steps):
            if const_expr(flaw != "full"):
                ring.consumer_wait(state)
            warpgroup.fence()
            for j in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                at = (None, None, j, state.index)
                cute.gemm(mma, sums, operand_a[at], operand_b[at], sums)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            if const_expr(flaw != "group"):
                warpgroup.wait_group(0)
            ring.consumer_release(state)
            state.advance()
        cute.autovec_copy(sums, result)


@cute.jit
def hopper(a: cute.Pointer, b: cute.Pointer, c: cute.Pointer, flaw: Constexpr):
    """128 x 128 x 256 in four CTAs, a producer warp and a warpgroup each."""
    operands = cute.make_layout((128, 256), stride=(256, 1))
    a, b = cute.make_tensor(a, operands), cute.make_tensor(b, operands)
    c = cute.make_tensor(c, cute.make_layout((128, 128), stride=(128, 1)))
    tile = (64, 64, DEPTH)
    layout_a = sm90.make_smem_layout_a(ROW_MAJOR, tile, BFloat16, STAGES)
    layout_b = sm90.make_smem_layout_b(ROW_MAJOR, tile, BFloat16, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    slot = (None, None, 0)
    load_a, a = cpasync.make_tiled_tma_atom(load, a, cute.slice_(layout_a, slot), (64, DEPTH))
    load_b, b = cpasync.make_tiled_tma_atom(load, b, cute.slice_(layout_b, slot), (64, DEPTH))
    mma = sm90.make_trivial_tiled_mma(
        BFloat16, BFloat16, MAJOR, MAJOR, Float32, (1, 1, 1), (64, 64)
    )
    kernel = hopper_kernel(mma, load_a, a, load_b, b, c, layout_a, layout_b, flaw)
    kernel.launch(grid=[2, 2, 1], block=[160, 1, 1])


def pipelines(smem):
    """The ring of loads, and the barriers of the result."""
    one_thread = CooperativeGroup(Agent.Thread)
    loads = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES,
        producer_group=one_thread,
        consumer_group=one_thread,
        tx_count=(128 + 64) * DEPTH * 2,
        barrier_storage=smem.allocate_array(Int64, 2 * STAGES),
    )
    results = pipeline.PipelineUmmaAsync.create(
        num_stages=1,
        producer_group=one_thread,
        consumer_group=CooperativeGroup(Agent.Thread, 128),
        barrier_storage=smem.allocate_array(Int64, 2),
    )
    return loads, results


def store(sums, tile, thread):
    """Moves an accumulator of tensor memory to the tile of the result."""
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), Float32)
    block = ((None, None), 0, 0)
    load = tcgen05.make_tmem_copy(atom, sums[block]).get_slice(thread)
    target = load.partition_D(tile[block])
    registers = cute.make_rmem_tensor(target.shape, Float32)
    cute.copy(atom, load.partition_S(sums[block]), registers)
    cute.arch.fence_view_async_tmem_load()
    cute.autovec_copy(registers, target)


@cute.kernel
def blackwell_kernel(
    mma: cute.TiledMma, load_a: cute.CopyAtom, a: cute.Tensor, load_b: cute.CopyAtom,
    b: cute.Tensor, c: cute.Tensor, layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout, flaw: Constexpr,
):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    loads, results = pipelines(smem)
    address = smem.allocate_array(Int32, 1)
    shared_a, shared_b = stages(smem, layout_a), stages(smem, layout_b)
    if warp == 0:
        cute.arch.alloc_tmem(64, address)
    cute.arch.barrier()
    tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, address)
    part = mma.get_slice(0)
    tile_a = part.partition_A(cute.local_tile(a, (128, DEPTH), (x, None)))
    tile_b = part.partition_B(cute.local_tile(b, (64, DEPTH), (y, None)))
    tile_c = part.partition_C(cute.local_tile(c, (128, 64), (x, y)))
    to_a, from_a = partition(load_a, shared_a, tile_a, 3)
    to_b, from_b = partition(load_b, shared_b, tile_b, 3)
    operand_a, operand_b = mma.make_fragment_A(shared_a), mma.make_fragment_B(shared_b)
    sums = cute.make_tensor(tmem, mma.make_fragment_C(mma.partition_shape_C((128, 64))).layout)
    if warp == 0:
        filled = make_pipeline_state(PipelineUserType.Producer, STAGES)
        used = make_pipeline_state(PipelineUserType.Consumer, STAGES)
        result = make_pipeline_state(PipelineUserType.Producer, 1)
        results.producer_acquire(result)
        for k in cutlass.range(cute.size(from_a, mode=[1])):
            loads.producer_acquire(filled)
            barrier = loads.producer_get_barrier(filled)
            cute.copy(load_a, from_a[None, k], to_a[None, filled.index], tma_bar_ptr=barrier)
            cute.copy(load_b, from_b[None, k], to_b[None, filled.index], tma_bar_ptr=barrier)
            loads.producer_commit(filled)
            filled.advance()
            if const_expr(flaw != "full"):
                loads.consumer_wait(used)
            for j in cutlass.range_constexpr(cute.size(operand_a, mode=[2])):
                at = (None, None, j, used.index)
                mma.set(tcgen05.Field.ACCUMULATE, k > 0 if j == 0 else True)
                cute.gemm(mma, sums, operand_a[at], operand_b[at], sums)
            loads.consumer_release(used)
            used.advance()
        results.producer_commit(result)
    if const_expr(flaw != "result"):
        results.consumer_wait(make_pipeline_state(PipelineUserType.Consumer, 1))
    store(sums, tile_c, thread)
    if const_expr(flaw != "release"):
        cute.arch.barrier()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(tmem, 64)


@cute.jit
def blackwell(a: cute.Pointer, b: cute.Pointer, c: cute.Pointer, flaw: Constexpr):
    """256 x 128 x 256 in four CTAs of four warps."""
    a = cute.make_tensor(a, cute.make_layout((256, 256), stride=(256, 1)))
    b = cute.make_tensor(b, cute.make_layout((128, 256), stride=(256, 1)))
    c = cute.make_tensor(c, cute.make_layout((256, 128), stride=(128, 1)))
    tile = (128, 64, DEPTH)
    mma = sm100.make_trivial_tiled_mma(
        BFloat16, BFloat16, MAJOR, MAJOR, Float32, tcgen05.CtaGroup.ONE, (128, 64)
    )
    layout_a = sm100.make_smem_layout_a(mma, tile, BFloat16, STAGES)
    layout_b = sm100.make_smem_layout_b(mma, tile, BFloat16, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    slot = (None, None, None, 0)
    load_a, a = cute.nvgpu.make_tiled_tma_atom_A(load, a, cute.slice_(layout_a, slot), tile, mma)
    load_b, b = cute.nvgpu.make_tiled_tma_atom_B(load, b, cute.slice_(layout_b, slot), tile, mma)
    kernel = blackwell_kernel(mma, load_a, a, load_b, b, c, layout_a, layout_b, flaw)
    kernel.launch(grid=[2, 2, 1], block=[THREADS, 1, 1])


def pointer(dtype):
    return make_ptr(dtype, 0, cute.AddressSpace.gmem, assumed_align=16)


def main(name: str, flaw: str = "") -> None:
    if name == "reverse":
        cute.compile(reverse, pointer(Float32), pointer(Float32), flaw)
        return
    function = {"hopper": hopper, "blackwell": blackwell}[name]
    cute.compile(function, pointer(BFloat16), pointer(BFloat16), pointer(Float32), flaw)


if __name__ == "__main__":
    main(*sys.argv[1:])
