"""Clusters: blocks that run at the same time and reach each other's shared memory."""

from __future__ import annotations

from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Region, plain, shape_text
from ..ir.dtype import INT32
from ..ir.expr import Expr, call, cast, const
from .builder import in_block
from .copy import copy_regions
from .copy_options import CopyCall, emit_copy
from .gemm import barrier_element
from .ignored import remark_ignored
from .region import as_part
from .sync import emit_cluster_barrier
from .view import Part
from .view_copy import VIEWS, sides
from .ws_schedule import named

_PACKED = (
    "T.alloc_shared(..., packed=True), of types of 4 bits, holds bytes as the tensor does; "
    "elements of other tiles have larger types"
)


def block_rank_in_cluster() -> Expr:
    """The rank of the block in its cluster (int32): x first, 0 in a kernel without clusters."""
    in_block("T.block_rank_in_cluster")
    return call(INT32, "block_rank_in_cluster", [])


def cluster_sync() -> None:
    """Waits for all threads of all blocks of the cluster.

    What they did to shared and global memory before is seen by all of them after.

    Raises (when compiled):
        SemanticsError: the kernel has no clusters, or not all threads get here.
    """
    emit_cluster_barrier("T.cluster_sync", arrives=True, waits=True)


def cluster_arrive() -> None:
    """Arrives at the barrier of the cluster, with what the thread did before; does not wait.

    Every thread of the cluster arrives, and then waits by :func:`cluster_wait`.
    """
    emit_cluster_barrier("T.cluster_arrive", arrives=True, waits=False)


def cluster_arrive_relaxed() -> None:
    """As :func:`cluster_arrive`, without making known what the thread did before."""
    emit_cluster_barrier("T.cluster_arrive_relaxed", arrives=True, waits=False, relaxed=True)


def cluster_wait() -> None:
    """Waits until all threads of the cluster have arrived at its barrier."""
    emit_cluster_barrier("T.cluster_wait", arrives=False, waits=True)


def mask_of(what: str, cluster_mask: Any) -> int:
    """The blocks that ``cluster_mask`` names, bit i for rank i.

    Raises:
        SemanticsError: no constant of 1 to 16 bits.
    """
    mask = plain(cluster_mask)
    if isinstance(mask, bool) or not isinstance(mask, int) or not 0 < mask < 1 << 16:
        raise errors.SemanticsError(
            f"{what}: cluster_mask is `{cluster_mask}`; it is a constant with a bit for each block "
            "of the cluster that gets the tile, such as 0b11",
            span=span.here(),
        )
    return mask


@named
def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    cluster_mask: Any = None,
    leader_scope_threads: int | None = None,
    eviction_policy: Any = None,
) -> None:
    """Issues a load of a tile by the tensor memory accelerator, and does not wait for it.

    From shared memory to a tensor, without a barrier, it is a store: a ``T.copy``, which the
    compiler waits for before ``src`` is written again.

    The bytes of the tile are added to what the current phase of ``barrier`` waits for. The program
    arrives on it and waits; it also sees to it that nobody uses ``dst`` before, or still.

    Where the tile depends on the warp, ``A[t // 32, :]``, one thread of each warp asks for that of
    its warp; elsewhere one thread asks for all.

    Args:
        src: a tile of a tensor. dst: one in shared memory of the same shape and type.
        barrier: an mbarrier of :func:`alloc_barrier`; of a load. Where pairs of blocks compute
            gemms, the bytes go to that of the even block if it is of
            :func:`alloc_cluster_barrier`.
        cluster_mask: blocks of the cluster that get the tile, bit i for rank i. Each of them makes
            the call, with the same ``dst`` and ``barrier``; the one of lowest rank loads its
            ``src`` into the ``dst`` of each, completing on the ``barrier`` of each. It does so when
            it gets here: the others must be done with ``dst`` before. A block that is not named
            loads for itself.
        eviction_policy: as of :func:`copy`.

    Raises:
        SemanticsError: no barrier, or the mask is no constant.
    """
    in_block("T.tma_copy")
    remark_ignored("T.tma_copy", leader_scope_threads=leader_scope_threads)
    source, target = _regions_of_tma(src, dst)
    if barrier is None and target.buffer.scope == "global" and cluster_mask is None:
        emit_copy(source, target, prefer_tma=True, eviction_policy=eviction_policy)
        return
    if barrier is None:
        raise errors.SemanticsError(
            "T.tma_copy needs barrier=, on which the bytes of the tile complete",
            span=span.here(),
            notes=["T.copy waits itself"],
        )
    emit_copy(
        source,
        target,
        CopyCall.TMA_COPY,
        eviction_policy=eviction_policy,
        cluster_mask=0 if cluster_mask is None else mask_of("T.tma_copy", cluster_mask),
        barrier=barrier_element("barrier of T.tma_copy", barrier),
    )


def _regions_of_tma(src: Any, dst: Any) -> tuple[Region, Region]:
    """The two tiles of a copy, in memory: of views of one narrow type those of their bits.

    Raises:
        UnsupportedError: a view of which no box of memory has just the elements.
    """
    if not (isinstance(src, VIEWS) or isinstance(dst, VIEWS)):
        return copy_regions("T.tma_copy", src, dst)
    views = [as_part(each).view for each in (src, dst) if isinstance(each, VIEWS)]
    if len(views) == 2 and views[0].dtype == views[1].dtype:
        for each in views:
            each.pack()
    source, target = sides("T.tma_copy", src, dst)
    if isinstance(source, Region) and isinstance(target, Region):
        return source, target
    part = target if isinstance(source, Region) else source
    assert isinstance(part, Part)
    raise errors.UnsupportedError(
        f"T.tma_copy cannot copy `{part}` of shape {shape_text(part.extents)}: this part of the "
        f"view is not a box of {part.view.source.describe()}",
        span=span.here(),
        notes=[
            "T.copy converts elements of views",
            *([_PACKED] if part.view.codec is not None else []),
        ],
    )


@named
def copy_cluster(
    src: Any,
    dst: Any,
    *,
    dst_block: Any = None,
    cluster_mask: Any = None,
    remote_barrier: Any = None,
    eviction_policy: Any = None,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
) -> None:
    """Copies a tile to other blocks of the cluster.

    With ``cluster_mask`` a tile of a tensor goes to ``dst`` in shared memory of each block that the
    mask names, bit i for rank i. Each of them makes the call; the one of lowest rank loads its
    ``src`` for all of them, when all are there, and each waits until its ``dst`` is complete. A
    block that is not named copies for itself.

    With ``dst_block`` a tile goes to ``dst`` in shared memory of that block:

    - stored by the threads: the other block sees it after a :func:`cluster_sync`;
    - with ``remote_barrier`` as asynchronous copies, of whole buffers of one layout or of rows,
      which arrive once, with all bytes, on that mbarrier in the other block. ``src`` must not
      change until the other block has seen it arrive. Threads store rows of no whole 16 bytes,
      other layouts and other types, and one of them arrives.

    Args:
        dst_block: a rank, the same in all threads.
        remote_barrier: an mbarrier of :func:`alloc_barrier`.
        eviction_policy, coalesced_width, loop_layout: as of :func:`copy`.

    Raises:
        ShapeError: the tiles differ in shape.
        SemanticsError: neither a mask nor a block is given, or both.
    """
    in_block("T.copy_cluster")
    source, target = copy_regions("T.copy_cluster", src, dst)
    _check_destination(cluster_mask, dst_block, remote_barrier)
    element = None
    if remote_barrier is not None:
        element = barrier_element("remote_barrier of T.copy_cluster", remote_barrier)
    emit_copy(
        source,
        target,
        eviction_policy=eviction_policy,
        cluster_mask=0 if cluster_mask is None else mask_of("T.copy_cluster", cluster_mask),
        coalesced_width=coalesced_width,
        loop_layout=loop_layout,
        barrier=element,
        block=None if dst_block is None else _rank(dst_block),
    )


def _check_destination(cluster_mask: Any, dst_block: Any, remote_barrier: Any) -> None:
    if (cluster_mask is None) == (dst_block is None):
        raise errors.SemanticsError(
            "T.copy_cluster takes either cluster_mask= (a tile of a tensor for several blocks) or "
            "dst_block= (a tile in shared memory to another block)",
            span=span.here(),
        )
    if cluster_mask is not None and remote_barrier is not None:
        raise errors.SemanticsError(
            "T.copy_cluster with cluster_mask waits for the tile itself",
            span=span.here(),
            notes=["T.tma_copy(..., barrier=, cluster_mask=) leaves that to the program"],
        )


def _rank(block: Any) -> Expr:
    number = plain(block)
    return const(number, INT32) if isinstance(number, int) else cast(block, INT32)
