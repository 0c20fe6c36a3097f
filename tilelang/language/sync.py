"""Synchronization: barriers of the block, mbarriers, fences, register budgets."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import plain
from ..ir.dtype import BOOL, INT32, UINT32, VOID, DType
from ..ir.expr import Expr, call, cast, const
from ..ir.stmt import emit
from .builder import active, at_barrier, in_block, in_kernel
from .gemm import barrier_element, constant_flag
from .kernel import MAX_THREADS
from .threads import predicate_of

_evaluate = _ffi.get("ir.Evaluate")
_arrive = _ffi.get("ir.Arrive")
_issuer_commit = _ffi.get("ir.IssuerCommit")
_wait_parity = _ffi.get("ir.WaitParity")
_fence = _ffi.get("ir.Fence")
_barrier = _ffi.get("ir.Barrier")
_named_barrier = _ffi.get("ir.NamedBarrier")
_warp_barrier = _ffi.get("ir.WarpBarrier")
_grid_dependency = _ffi.get("ir.GridDependency")
#: what each of them is, as the IR numbers it (src/ir/async.h)
_THREAD, _EXPECT, _THREAD_EXPECT, _COPIES = 0, 1, 2, 4
_ASYNC_PROXY, _TCGEN05_BEFORE, _TCGEN05_AFTER = range(3)
_BLOCK, _CLUSTER, _GRID = 0, 6, 7
_WHOLE, _ARRIVE, _ARRIVE_RELAXED, _WAIT = range(4)


def emit_call(name: str, *args: Any, attrs: dict[str, Any] | None = None) -> None:
    """Emits a call made for its effect."""
    in_block(f"T.{name}")
    emit(_evaluate(call(VOID, name, args, attrs), span.current()))


def _emit_arrival(
    what: str, kind: int, mbarrier: Any, *, tx: Any = None, block: Any = None
) -> None:
    """An arrival at an mbarrier, of ``tx`` bytes, or at that of another block."""
    element = barrier_element(what, mbarrier)
    in_block(what)
    operands = [None if given is None else cast(given, UINT32) for given in (tx, block)]
    emit(_arrive(kind, element, *operands, span.current()))


def arrive_by_copies(mbarrier: Any) -> None:
    """Makes the thread's ``cp.async`` arrive when its earlier copies are complete."""
    _emit_arrival("T.cp_async_barrier_noinc", _COPIES, mbarrier)


def _emit_fence(what: str, kind: int) -> None:
    in_block(what)
    emit(_fence(kind, span.current()))


def _emit_barrier(what: str, kind: int, part: int = _WHOLE) -> None:
    if part == _WHOLE:
        at_barrier(what)
    else:
        in_block(what)
    emit(_barrier(kind, part, span.current()))


def emit_cluster_barrier(what: str, *, arrives: bool, waits: bool, relaxed: bool = False) -> None:
    """The barrier of the cluster, or half of it."""
    half = _WAIT if waits else _ARRIVE_RELAXED if relaxed else _ARRIVE
    _emit_barrier(what, _CLUSTER, _WHOLE if arrives and waits else half)


def _emit_grid_dependency(what: str, *, waits: bool) -> None:
    in_block(what)
    emit(_grid_dependency(waits, span.current()))


def _named(what: str, barrier_id: Any, arrive_count: Any) -> tuple[Expr, Expr]:
    """The number of a named barrier and its threads, checked where they are constants."""
    total = in_kernel(what).kernel.thread_count
    count = plain(total if arrive_count is None else arrive_count)
    number = plain(barrier_id)
    if isinstance(number, int) and not 0 <= number < 2**31:
        raise errors.ResourceError(
            f"{what}: barrier_id must be from 0 to 15, got {number}", span=span.here()
        )
    if isinstance(count, int) and (count % 32 or not 0 < count <= MAX_THREADS):
        raise errors.SemanticsError(
            f"{what}: arrive_count must be a multiple of 32 up to {MAX_THREADS}, got {count}",
            span=span.here(),
        )
    return cast(barrier_id, INT32), cast(count, INT32)


def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """Waits for all threads of the block, or for ``arrive_count`` on named barrier ``barrier_id``.

    Args:
        barrier_id: 0 to 15; all threads when omitted. The compiler takes the numbers of its own
            named barriers from those that the kernel does not use: constants leave it most. A
            constant above 15 is a name, to which the compiler gives a number of its own.
        arrive_count: threads that take part, a multiple of 32; all of the block when omitted.
    """
    if barrier_id is None:
        _emit_barrier("T.sync_threads", _BLOCK)
        return
    operands = _named("T.sync_threads", barrier_id, arrive_count)
    in_block("T.sync_threads")
    emit(_named_barrier(*operands, _WHOLE, span.current()))


def named_barrier_arrive(barrier_id: Any, thread_count: Any) -> None:
    """Counts the warp in on a named barrier without waiting: others wait by ``T.sync_threads``.

    Args:
        barrier_id: 0 to 15.
        thread_count: threads that arrive or wait, a multiple of 32.
    """
    operands = _named("T.named_barrier_arrive", barrier_id, thread_count)
    in_block("T.named_barrier_arrive")
    emit(_named_barrier(*operands, _ARRIVE, span.current()))


def pdl_sync() -> None:
    """Waits for the end of the grid before this one in its stream, and for what it wrote.

    A kernel that calls it is launched to start earlier (programmatic stream serialization, sm_90
    and later): once each block of that grid has called :func:`pdl_trigger` or ended. What it does
    before must not touch what that grid writes, nor write what it reads: the emulator reports that.
    With :func:`sync_grid` the kernel starts after the end of that grid.
    """
    _emit_grid_dependency("T.pdl_sync", waits=True)


def pdl_trigger() -> None:
    """Lets a grid that waits by :func:`pdl_sync` start, once every block has come here or ended."""
    _emit_grid_dependency("T.pdl_trigger", waits=False)


def sync_grid() -> None:
    """Waits for all threads of all blocks of the grid.

    What they did to global memory before is seen by all of them after. The kernel is launched so
    that all its blocks run at the same time; every thread of every block gets here equally often.

    Raises (when called):
        ArgumentError: the GPU has no room for all blocks at once.
    """
    _emit_barrier("T.sync_grid", _GRID)


syncthreads = sync_threads


def _vote(name: str, dtype: DType, predicate: Any) -> Expr:
    holds = predicate_of(f"T.{name}", predicate)
    value = call(INT32, name, [cast(holds, INT32)])
    if active() is None:  # an expression by itself, outside of any function
        return value
    builder = in_block(f"T.{name}")
    return builder.bind(builder.take_hint("vote"), value if dtype == INT32 else value != 0)


def syncthreads_or(predicate: Any) -> Expr:
    """Waits for all threads of the block; whether ``predicate`` holds in any of them."""
    return _vote("syncthreads_or", BOOL, predicate)


def syncthreads_and(predicate: Any) -> Expr:
    """Waits for all threads of the block; whether ``predicate`` holds in all of them."""
    return _vote("syncthreads_and", BOOL, predicate)


def syncthreads_count(predicate: Any) -> Expr:
    """Waits for all threads of the block; in how many of them ``predicate`` holds (int32)."""
    return _vote("syncthreads_count", INT32, predicate)


def sync_warp(mask: Any = None) -> None:
    """Waits for the lanes of the warp in ``mask`` (all by default)."""
    in_block("T.sync_warp")
    emit(_warp_barrier(None if mask is None else cast(mask, UINT32), span.current()))


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Waits until the phase of that parity of the mbarrier has completed.

    A new barrier is in phase 0: waiting for parity 1 returns at once.
    """
    barrier = barrier_element("T.mbarrier_wait_parity", mbarrier)
    in_block("T.mbarrier_wait_parity")
    emit(_wait_parity(barrier, cast(parity, UINT32), span.current()))


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Arrives on the mbarrier, or on that of block ``cta_id`` of the cluster."""
    _emit_arrival("T.mbarrier_arrive", _THREAD, mbarrier, block=cta_id)


def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Adds ``tx`` bytes to what the current phase of the mbarrier waits for."""
    _emit_arrival("T.mbarrier_expect_tx", _EXPECT, mbarrier, tx=tx)


def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Adds ``tx`` bytes to what the phase waits for, and arrives."""
    _emit_arrival("T.mbarrier_arrive_expect_tx", _THREAD_EXPECT, mbarrier, tx=tx)


barrier_wait = mbarrier_wait_parity
barrier_arrive = mbarrier_arrive


def fence_proxy_async() -> None:
    """Orders this thread's accesses of shared memory before later ones of the async proxy."""
    _emit_fence("T.fence_proxy_async", _ASYNC_PROXY)


def tcgen05_mma_arrive(mbar: Any, arrive_2cta: bool = False) -> None:
    """Arrives on the mbarrier when all tcgen05 operations issued by this thread are done.

    One thread issues it: that of the MMAs before it, which are issued by the same threads or by
    a group of them. SemanticsError (when compiled) where others issue the MMAs.

    Args:
        mbar: an mbarrier of :func:`alloc_barrier` or :func:`alloc_cluster_barrier`.
        arrive_2cta: where pairs of blocks compute (``use_2cta``), arrives on that mbarrier of both
            blocks; else of the even one alone, which issues for both.
    """
    what = "T.tcgen05_mma_arrive"
    both = constant_flag(f"{what}: arrive_2cta", arrive_2cta)
    element = barrier_element(what, mbar)
    in_block(what)
    emit(_issuer_commit(element, both, span.current()))


def tcgen05_before_thread_sync() -> None:
    """Orders earlier tcgen05 operations before a following synchronization of threads."""
    _emit_fence("T.tcgen05_before_thread_sync", _TCGEN05_BEFORE)


def tcgen05_after_thread_sync() -> None:
    """Orders later tcgen05 operations after a preceding synchronization of threads."""
    _emit_fence("T.tcgen05_after_thread_sync", _TCGEN05_AFTER)


def set_max_nreg(reg_count: int, is_inc: Any) -> None:
    """Gives registers to (``is_inc`` 1) or takes them from the threads of a warpgroup."""
    count = _registers("T.set_max_nreg", reg_count)
    emit_call("set_max_nreg", const(count, INT32), const(int(bool(is_inc)), INT32))


def _registers(what: str, reg_count: Any) -> int:
    count = plain(reg_count)
    if not isinstance(count, int) or count % 8 or not 24 <= count <= 256:
        raise errors.ResourceError(
            f"{what}: reg_count must be a multiple of 8 from 24 to 256, got {reg_count}",
            span=span.here(),
        )
    return count


def inc_max_nreg(reg_count: int) -> None:
    """Gives each thread of the warpgroup up to ``reg_count`` registers."""
    set_max_nreg(reg_count, 1)


def dec_max_nreg(reg_count: int) -> None:
    """Releases registers of the warpgroup down to ``reg_count`` a thread."""
    set_max_nreg(reg_count, 0)


def no_set_max_nreg() -> None:
    """Warps that the compiler adds keep as many registers as warps of the program.

    Without it a loop that loads by warps of its own (see T.Pipelined) takes registers from them for
    the others, where there are several warpgroups of these.
    """
    in_kernel("T.no_set_max_nreg").kernel.attrs["set_max_nreg"] = [0, 0]


disable_warp_group_reg_alloc = no_set_max_nreg


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """The registers of each thread of the warps that load (see T.Pipelined).

    Raises:
        ResourceError: not a multiple of 8 from 24 to 256.
    """
    _share(0, "T.annotate_producer_reg_dealloc", reg_count)


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """The registers of each other thread, where warps of their own load (see T.Pipelined).

    Raises:
        ResourceError: not a multiple of 8 from 24 to 256.
    """
    _share(1, "T.annotate_consumer_reg_alloc", reg_count)


def _share(role: int, what: str, reg_count: Any) -> None:
    attrs = in_kernel(what).kernel.attrs
    shares = attrs.setdefault("set_max_nreg", [-1, -1])
    shares[role] = _registers(what, reg_count)
