"""``T.gemm_sp``: products with a matrix of which two of each four elements are zero."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Region, plain, shape_text
from .gemm import check_wg_wait, constant_flag, emit_gemm, policy_note
from .loops import refuse_extra
from .region import as_tile
from .ws_schedule import named

_BITS = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}
#: Bits that say which elements of a group are there.
_GROUP_BITS = 4
_SCOPES = ("shared.dyn", "local.fragment")


def group_of(bits: int) -> int:
    """Elements along K of a matrix of elements of ``bits`` that four bits of metadata are for."""
    return 2 if bits == 32 else 4


def _metadata(e: Any, transposed: bool, a: Region, trans_a: bool) -> tuple[Region, bool]:
    """The region of the metadata of A.

    Raises:
        DTypeError, ScopeError, ShapeError: it is none of such a matrix.
    """
    what = "E of T.gemm_sp"
    region = as_tile(what, e)
    dtype = str(region.buffer.dtype)
    if dtype not in _BITS:
        raise errors.DTypeError(
            f"{what} must have type {', '.join(_BITS)}, got {region.buffer.describe()}",
            span=span.here(),
            notes=["tilelang.utils.sparse.compress(dense) returns A and E"],
        )
    if region.buffer.scope not in _SCOPES:
        raise errors.ScopeError(
            f"{what} must be in shared memory or a fragment, got {region.buffer.describe()}",
            span=span.here(),
            notes=["T.copy them to a tile of T.alloc_shared"],
        )
    if transposed and region.buffer.scope != "shared.dyn":
        raise errors.ScopeError(
            f"{what} must be in shared memory if transpose_E=True, got {region.buffer.describe()}",
            span=span.here(),
        )
    rows, stored = (int(plain(extent)) for extent in a.shape[-2:])
    if trans_a:
        rows, stored = stored, rows
    each = _BITS[dtype] // _GROUP_BITS * group_of(a.buffer.dtype.bits)
    wanted = (2 * stored // each, rows) if transposed else (rows, 2 * stored // each)
    *lead, first, second = [1, 1, *map(plain, region.shape)]
    if (first, second) != wanted or any(extent != 1 for extent in lead) or 2 * stored % each:
        raise errors.ShapeError(
            f"{what} has shape {shape_text(region.shape)}, but the metadata of {rows} rows with "
            f"K = {2 * stored} have shape {shape_text(wanted)}: one {dtype} for {each} elements",
            span=span.here(),
            notes=[
                region.buffer.describe(),
                "tilelang.utils.sparse.get_e_factor returns this number of elements",
            ],
        )
    return region, transposed


@named
def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: Any = None,
    clear_accum: Any = False,
    wg_wait: int = 0,
    **unsupported: Any,
) -> None:
    """``C += A @ B`` where A has two of each four elements along K (2:4 sparsity).

    The tensor core multiplies the elements that are there alone, in half the time.

    Args:
        A_sparse: (M, K / 2): two elements of each four along K, in order (of float32: one of each
            two); or (K / 2, M) with ``transpose_A``; shared memory or a fragment.
        E: (M, K / e): where they lie, in shared memory or a fragment; or (K / e, M) with
            ``transpose_E``. Four bits for each group of four: the place of the first, then that of
            the second, which is greater (of float32, for each two: 4 for the first, 14 for the
            second). As many groups as an int8, int16 or int32 (or unsigned) has room for, the
            lowest bits first: ``tilelang.utils.sparse.compress`` makes them.
        B: (K, N), or (N, K) with ``transpose_B``; shared memory.
        C: (M, N), a fragment; types as of :func:`gemm`, without float64.
        policy, clear_accum, wg_wait: as of :func:`gemm`.

    Raises:
        ShapeError: matrices or metadata do not fit each other.
        DTypeError: types that the tensor cores do not multiply; metadata of no such type.
        ScopeError: metadata in other memory.
        LayoutError (when compiled): tiles that no instruction multiplies: K is a multiple of 32
            (of 64 for types of 8 bits, 16 for float32), M of 16 for each row of warps.
    """
    refuse_extra("T.gemm_sp", unsupported, {"k_pack": 1})
    check_wg_wait("T.gemm_sp", wg_wait)
    notes = policy_note(policy)
    if wg_wait:
        notes["wg_wait"] = wg_wait
    metadata = partial(_metadata, E, constant_flag("transpose_E of T.gemm_sp", transpose_E))
    emit_gemm(
        (A_sparse, B, C), (transpose_A, transpose_B), clear_accum, None, notes,
        what="T.gemm_sp", metadata=metadata,
    )  # fmt: skip


__all__ = ["gemm_sp"]
