"""Block-scaled gemms by hand: ``T.tcgen05_gemm_blockscaled`` and what brings it its factors.

Factors here are words of ``uint32``: one of a row of A (or a column of B), with the powers of two
of four neighbouring stretches along K, the lowest byte first. ``T.gemm(scale_A=, scale_B=)`` takes
them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Region, load, make_region, plain, shape_text
from ..ir.dtype import INT32, dtype_of
from ..ir.expr import as_expr, cast
from .allocate import alloc_local
from .builder import in_block
from .copy_options import CopyCall, emit_copy
from .function import macro
from .gemm import MISSING, constant_flag, emit_gemm, pair_note, policy_note
from .ignored import remark_ignored
from .loops import unroll
from .region import as_region
from .scale_factors import E2M1X2, UE8M0, Words, check_multiple, check_types, from_words
from .sync import sync_warp
from .threads import get_lane_idx
from .ws_schedule import named

_WORD = dtype_of("uint32")
#: Words that one instruction brings, and the columns that they take.
_ATOM_WORDS, _ATOM_COLUMNS, _LANES = 128, 4, 128
_LEAST_BLOCK = 32
_LAYOUTS = ("rowmajor", "blockscaled_chunk_kmajor")
_SCALE_TYPES = {"ue8m0": 32, "ue4m3": 16}


def _words(what: str, operand: Any) -> Region:
    """Words in shared memory, a multiple of 128 that follow each other.

    Raises:
        ScopeError, DTypeError, ShapeError: they are something else.
    """
    region = as_region(what, operand)
    if region.buffer.scope != "shared.dyn":
        raise errors.ScopeError(
            f"{what} must be in shared memory, got {region.buffer.describe()}",
            span=span.here(),
            notes=["T.copy them to a tile of T.alloc_shared"],
        )
    if region.buffer.dtype != _WORD:
        raise errors.DTypeError(
            f"{what} must be words of uint32, each with four factors of float8_e8m0fnu, the lowest "
            f"byte first; got {region.buffer.describe()}",
            span=span.here(),
            notes=["T.gemm(..., scale_A=, scale_B=) takes tiles of float8_e8m0fnu"],
        )
    return region


def _atoms(what: str, operand: Any) -> tuple[Region, int]:
    """Words that follow each other, and how many instructions bring them."""
    region = _words(what, operand)
    extents = [int(plain(extent)) for extent in region.shape]
    lead = next((n for n, extent in enumerate(extents) if extent != 1), len(extents) - 1)
    count = 1
    for extent in extents:
        count *= extent
    follow = extents[lead + 1 :] == [plain(dim) for dim in region.buffer.shape[lead + 1 :]]
    if count % _ATOM_WORDS or not follow:
        raise errors.ShapeError(
            f"{what} must be a multiple of {_ATOM_WORDS} consecutive words, but `{region}` has "
            f"shape {shape_text(region.shape)}",
            span=span.here(),
            notes=[region.buffer.describe()],
        )
    return region, count // _ATOM_WORDS


def _columns(what: str, operand: Any) -> Region:
    """Words in tensor memory, of all 128 lanes."""
    region = as_region(what, operand)
    if region.buffer.scope != "shared.tmem" or region.buffer.dtype != _WORD:
        raise errors.ScopeError(
            f"{what} must be a tile of uint32 in tensor memory, got {region.buffer.describe()}",
            span=span.here(),
            notes=["T.alloc_tmem((128, 4), T.uint32): four columns for 128 rows of a matrix"],
        )
    if plain(region.shape[-2]) != _LANES:
        raise errors.ShapeError(
            f"{what} must have {_LANES} rows, one for each lane, got {region.shape[-2]}",
            span=span.here(),
            notes=["T.alloc_tmem((128, 4), T.uint32): four columns for 128 rows of a matrix"],
        )
    return region


@named
def tcgen05_cp_warpx4(
    smem_src: Any, tmem_dst: Any, tmem_col_offset: int = 0, *, use_2cta: bool = False
) -> None:
    """Brings words of factors from shared to tensor memory, without waiting.

    Words 4 l to 4 l + 3 of each 128 go to lane l of every quarter of tensor memory, in four
    columns. Of factors in the order of rows: :func:`tcgen05_sf_warp_transpose` them first. What the
    same threads issue later reads them there; the words may be overwritten when that is complete.

    Args:
        smem_src: ``uint32`` in shared memory: 128 words that follow each other, or a multiple.
        tmem_dst: ``uint32`` in tensor memory, (128, columns).
        tmem_col_offset: the first column there, a constant.
        use_2cta: the even block of a pair issues for both, and it alone gets here; each block's
            words go to its own tensor memory. For gemms with use_2cta.

    Raises:
        ScopeError, DTypeError: other operands.
        ShapeError: other numbers of words, or fewer columns than they take.
        TargetError (when compiled): the target has no tcgen05.
    """
    what = "T.tcgen05_cp_warpx4"
    in_block(what)
    pair = constant_flag(f"use_2cta of {what}", use_2cta)
    source, atoms = _atoms(f"smem_src of {what}", smem_src)
    target = _columns(f"tmem_dst of {what}", tmem_dst)
    first, count = plain(tmem_col_offset), atoms * _ATOM_COLUMNS
    if isinstance(first, bool) or not isinstance(first, int) or first < 0:
        raise errors.SemanticsError(
            f"{what}: tmem_col_offset is `{tmem_col_offset}`; it is a constant from 0 on",
            span=span.here(),
        )
    columns = int(plain(target.shape[-1]))
    if first + count > columns:
        raise errors.ShapeError(
            f"{what}: {atoms * _ATOM_WORDS} words take {count} columns from {first} on, but "
            f"`{target}` has {columns}",
            span=span.here(),
            notes=[target.buffer.describe()],
        )
    mins = [*target.mins[:-1], target.mins[-1] + first]
    part = make_region(target.buffer, mins, [*target.extents[:-1], count])
    emit_copy(source, part, CopyCall.SCALE_FACTORS, in_pairs=pair)


def tcgen05_sf_warp_transpose(smem_src: Any) -> None:
    """Puts words of factors, one a row, into the order that :func:`tcgen05_cp_warpx4` takes.

    In place, of each 128 words: word 32 q + l becomes word 4 l + q. By one warp; the tensor core
    sees it after a ``T.fence_proxy_async``.

    Args:
        smem_src: ``uint32`` in shared memory: 128 words that follow each other, or a multiple.

    Raises:
        ScopeError, DTypeError, ShapeError: other operands.
    """
    what = "T.tcgen05_sf_warp_transpose"
    in_block(what)
    region, atoms = _atoms(f"smem_src of {what}", smem_src)
    for atom in range(atoms):
        _transpose(region, atom * _ATOM_WORDS)


@macro
def _transpose(region: Any, first: Any) -> None:
    lane = get_lane_idx()
    word = alloc_local((4,), "uint32")
    for q in unroll(4):
        word[q] = load(region.buffer, _word_at(region, first + 32 * q + lane))
    sync_warp()
    for q in unroll(4):
        region.buffer[_word_at(region, first + 4 * lane + q)] = word[q]
    sync_warp()


def _word_at(region: Region, number: Any) -> tuple[Any, ...]:
    """The indices of a word of a region that follow each other."""
    indices: list[Any] = []
    for low, extent in zip(reversed(region.mins), reversed(region.shape), strict=True):
        size = int(plain(extent))
        indices.append(low if size == 1 else low + number % size)
        number = number if size == 1 else number // size
    return tuple(reversed(indices))


def _start(what: str, k_start: Any) -> Any:
    value = plain(k_start)
    if isinstance(value, bool) or (isinstance(value, int) and (value < 0 or value % _LEAST_BLOCK)):
        raise errors.SemanticsError(
            f"{what}: k_start must be a multiple of {_LEAST_BLOCK}, got `{k_start}`; it says where "
            "A and B begin along K",
            span=span.here(),
        )
    return cast(as_expr(k_start), INT32)


def _granularity(what: str, name: str, value: Any, allowed: Any, text: str) -> int:
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not allowed(number):
        raise errors.SemanticsError(
            f"{what}: {name} must be {text}, got `{value}`; it says how many elements along K "
            "share a factor",
            span=span.here(),
        )
    return number


def _is_multiple(number: int) -> bool:
    return number > 0 and number % _LEAST_BLOCK == 0


def _tmem_scales(
    what: str,
    scales: tuple[Any, Any],
    granularities: tuple[int, int],
    matrices: Sequence[Region],
    transposed: Sequence[bool],
    formats: Sequence[int],
) -> list[tuple[Region, bool, int]]:
    """Region, False and format of both tiles of words in tensor memory."""
    a, _, c = matrices
    check_types(matrices, formats)
    packed = formats[0] == E2M1X2
    m, n = (int(extent) for extent in c.shape[-2:])
    k = int(a.shape[-2] if transposed[0] else a.shape[-1]) * (2 if packed else 1)
    check_multiple(what, "M", m, _LANES)
    found = []
    operands = zip(("SFA", "SFB"), scales, (m, n), granularities, strict=True)
    for name, scale, rows, granularity in operands:
        region = _columns(f"{name} of {what}", scale)
        needed, columns = -(-rows // _LANES) * _ATOM_COLUMNS, int(plain(region.shape[-1]))
        if columns < needed:
            raise errors.ShapeError(
                f"{name} of {what} has {columns} columns; {rows} rows take {needed}",
                span=span.here(),
                notes=[region.buffer.describe()],
            )
        if packed and granularity != _LEAST_BLOCK:
            raise errors.UnsupportedError(
                f"{what}: {granularity} elements of float4_e2m1fn share a factor of {name}; the "
                f"tensor core has a factor for each {_LEAST_BLOCK}",
                span=span.here(),
            )
        if 4 * granularity % k:
            raise errors.ShapeError(
                f"{what}: K = {k} does not divide the {4 * granularity} elements that a word of "
                f"{name} is for",
                span=span.here(),
                notes=["a gemm reads one word of a row: divide K among several"],
            )
        found.append((region, False, UE8M0))
    return found


@named
def tcgen05_gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA_tmem: Any,
    SFB_tmem: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    clear_accum: Any = False,
    wg_wait: int = 0,
    mbar: Any = None,
    *,
    k_start: Any = MISSING,
    sf_a_granularity_k: Any = MISSING,
    sf_b_granularity_k: Any = MISSING,
    use_2cta: bool = False,
) -> None:
    """``C += (A * SFA) @ (B * SFB)`` on Blackwell, issued only, with factors in tensor memory.

    Args:
        A, B: float8_e4m3fn or float8_e5m2, each of its own, or packed float4_e2m1fn, as of
            :func:`gemm`; shared memory, A also tensor memory.
        C: (M, N), float32 in tensor memory; M a multiple of 128.
        SFA_tmem, SFB_tmem: words as :func:`tcgen05_cp_warpx4` brings them: ``uint32``, (128, 4)
            for 128 rows of A, or columns of B, in order.
        transpose_A, transpose_B, clear_accum: as of :func:`gemm`.
        wg_wait: of other instructions; it means nothing here.
        mbar: an mbarrier that the completion arrives on; None: no arrival until a
            :func:`tcgen05_mma_arrive` after it.
        k_start: where A and B begin along K: factor ``(k_start + k) / granularity`` (mod 4) is
            that of element k. K of the tiles divides four times the granularity.
        sf_a_granularity_k, sf_b_granularity_k: elements along K that share a factor, a multiple
            of 32; 32 for float4.
        use_2cta: as of :func:`tcgen05_gemm`: both blocks of a pair compute, the even one issues.
            Each has SFA of its own rows of A, and SFB of all N columns.

    Raises:
        DTypeError, ScopeError, ShapeError, SemanticsError: operands that do not fit each other.
        TargetError (when compiled): the target has no tcgen05.
    """
    what = "T.tcgen05_gemm_blockscaled"
    in_block(what)
    pair = pair_note(what, use_2cta)
    _check_given(what, k_start, sf_a_granularity_k, sf_b_granularity_k)
    text = f"a multiple of {_LEAST_BLOCK}"
    names = {"sf_a_granularity_k": sf_a_granularity_k, "sf_b_granularity_k": sf_b_granularity_k}
    notes = {name: _granularity(what, name, each, _is_multiple, text)
             for name, each in names.items()}  # fmt: skip
    remark_ignored(what, wg_wait=wg_wait)
    granularities = (notes["sf_a_granularity_k"], notes["sf_b_granularity_k"])
    scales = partial(_tmem_scales, what, (SFA_tmem, SFB_tmem), granularities)
    emit_gemm(
        (A, B, C), (transpose_A, transpose_B), clear_accum, mbar,
        {**notes, **pair, "is_tcgen05": True}, scales, _start(what, k_start),
    )  # fmt: skip


def _check_given(what: str, *values: Any) -> None:
    names = ("k_start", "sf_a_granularity_k", "sf_b_granularity_k")
    missing = [name for name, value in zip(names, values, strict=True) if value is MISSING]
    if missing:
        raise errors.SemanticsError(
            f"{what} needs {', '.join(f'{name}=' for name in missing)}",
            span=span.here(),
            notes=["k_start=0, sf_a_granularity_k=32, sf_b_granularity_k=32: a factor for each 32"],
        )


@named
def mma_gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA: Any,
    SFB: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: Any = None,
    clear_accum: Any = False,
    *,
    k_start: Any = MISSING,
    sf_a_granularity_k: Any = MISSING,
    sf_b_granularity_k: Any = MISSING,
    sf_layout: str = "rowmajor",
    scale_dtype: str | None = None,
) -> None:
    """``C += (A * SFA) @ (B * SFB)`` with factors in words: a :func:`gemm` with scale factors.

    Args:
        A, B, C, transpose_A, transpose_B, policy, clear_accum: as of :func:`gemm`.
        SFA, SFB: ``uint32`` in shared memory, (rows, words), with four factors of a row a word,
            the lowest byte first.
        k_start: where A and B begin along K; factor ``(k_start + k) / granularity`` of the first
            word (mod 4) is that of element k.
        sf_a_granularity_k, sf_b_granularity_k: elements along K that share a factor: 16 or 32 of
            float4_e2m1fn, a multiple of 32 of float8.
        sf_layout: "rowmajor"; or "blockscaled_chunk_kmajor", of 128 rows: the words of rows
            l, l + 32, l + 64 and l + 96 follow each other, and 32 of these for each word of a row.
        scale_dtype: "ue8m0", powers of two, or "ue4m3", float8_e4m3fn for blocks of 16. By default
            what goes with the granularity.

    Raises:
        DTypeError, ScopeError, ShapeError, SemanticsError: operands that do not fit each other.
    """
    what = "T.mma_gemm_blockscaled"
    in_block(what)
    _check_given(what, k_start, sf_a_granularity_k, sf_b_granularity_k)
    if sf_layout not in _LAYOUTS:
        raise errors.SemanticsError(
            f"{what}: sf_layout is {sf_layout!r}; it is one of {', '.join(map(repr, _LAYOUTS))}",
            span=span.here(),
        )
    granularities = _pair(what, sf_a_granularity_k, sf_b_granularity_k, scale_dtype)
    words = Words(
        what,
        (_words(f"SFA of {what}", SFA), _words(f"SFB of {what}", SFB)),
        granularities,
        _start(what, k_start),
        sf_layout == "rowmajor",
    )
    notes = policy_note(policy)
    emit_gemm((A, B, C), (transpose_A, transpose_B), clear_accum, None, notes,
              partial(from_words, words))  # fmt: skip


def _pair(what: str, a: Any, b: Any, scale_dtype: str | None) -> tuple[int, int]:
    """Both granularities, which go with the type of the factors."""
    if scale_dtype is not None and scale_dtype not in _SCALE_TYPES:
        raise errors.SemanticsError(
            f"{what}: scale_dtype is {scale_dtype!r}; it is one of "
            + ", ".join(map(repr, _SCALE_TYPES)),
            span=span.here(),
        )
    text = f"16, or a multiple of {_LEAST_BLOCK}"
    first, second = (
        _granularity(what, name, each, lambda n: n == 16 or _is_multiple(n), text)
        for name, each in (("sf_a_granularity_k", a), ("sf_b_granularity_k", b))
    )
    kinds = {"ue4m3" if each == 16 else "ue8m0" for each in (first, second)}
    if len(kinds) == 2 or (scale_dtype is not None and scale_dtype not in kinds):
        raise errors.UnsupportedError(
            f"{what}: factors for {first} elements of A and {second} of B"
            + (f" of type {scale_dtype}" if scale_dtype else "")
            + "; there are ue4m3 for 16 and ue8m0 for 32 or a multiple, the same for both",
            span=span.here(),
        )
    return first, second


__all__ = [
    "mma_gemm_blockscaled",
    "tcgen05_cp_warpx4",
    "tcgen05_gemm_blockscaled",
    "tcgen05_sf_warp_transpose",
]
