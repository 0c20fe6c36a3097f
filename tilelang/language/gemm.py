"""``T.gemm``: matrix multiplication of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, Region, load, plain, shape_text
from ..ir.dtype import BOOL
from ..ir.expr import Expr, cast, condition
from ..ir.stmt import emit
from .builder import in_block
from .ignored import remark_ignored
from .loops import refuse_extra
from .region import as_region, as_tile, shape_of
from .scale_factors import (
    E2M1X2,
    OWN,
    SCALE_A,
    Scales,
    check_types,
    given_scales,
    is_padded,
    packed_matrix,
)
from .view_copy import staged
from .ws_schedule import named

_gemm = _ffi.get("ir.Gemm")
_operand = _ffi.get("ir.GemmOperand")
_wait_wgmma = _ffi.get("ir.WaitWgmmaOfProgram")

#: ``GemmOperandKind`` of ``src/ir/gemm.h``.
_METADATA = 6
#: Region of the metadata of A, a region, and whether it is transposed, as A may be.
Metadata = Callable[[Region, bool], tuple[Region, bool]]


class GemmWarpPolicy(IntEnum):
    """Ways in which the warps of a block share the rows and columns of the result."""

    Square = 0
    FullRow = 1
    FullCol = 2


def _matrix(what: str, operand: Any) -> Region:
    """A tile whose last two dimensions are a matrix; dimensions before them have extent 1."""
    if isinstance(operand, Load):
        raise errors.ShapeError(
            f"{what} must be a matrix, but `{operand}` is a single element",
            span=span.here(),
            notes=["pass a buffer or a slice: A[stage, :, :]"],
        )
    region, shape = as_region(what, operand), shape_of(what, operand)
    if len(shape) < 2 or any(dim != 1 for dim in shape[:-2]):
        raise errors.ShapeError(
            f"{what} must have two dimensions (leading dimensions of extent 1 are allowed), got "
            f"shape {shape_text(shape)}",
            span=span.here(),
            notes=[region.buffer.describe()],
        )
    if not all(isinstance(dim, int) for dim in shape):
        raise errors.ShapeError(
            f"{what} has shape {shape_text(shape)}; the shape of a matrix must be constant",
            span=span.here(),
            notes=[
                region.buffer.describe(),
                "T.copy a tile of constant shape to T.alloc_shared: elements outside the tensor "
                "become zero",
            ],
        )
    return as_tile(what, operand)


def _check_shapes(
    what: str, shapes: Sequence[Sequence[Any]], trans_a: bool, trans_b: bool, in_pairs: bool
) -> None:
    a, b, c = shapes
    m, k = reversed(a[-2:]) if trans_a else a[-2:]
    k_of_b, n = reversed(b[-2:]) if trans_b else b[-2:]
    rows, columns = c[-2:]
    wrong = []
    if k != k_of_b:
        wrong.append(f"A has K = {k}, but B has K = {k_of_b}")
    if m != rows:
        wrong.append(f"A has M = {m}, but C has {rows} rows")
    if n * (2 if in_pairs else 1) != columns:
        half = f", which is {2 * n} for both blocks of a pair" if in_pairs else ""
        wrong.append(f"B has N = {n}{half}, but C has {columns} columns")
    if wrong:
        raise errors.ShapeError(
            f"{what}: " + "; ".join(wrong),
            span=span.here(),
            notes=[
                f"A {shape_text(a)}{', transposed' if trans_a else ''}, "
                f"B {shape_text(b)}{', transposed' if trans_b else ''}, "
                f"C {shape_text(c)}; C (M, N) += A (M, K) @ B (K, N)"
            ],
        )


def barrier_element(what: str, barrier: Any) -> Load:
    """One mbarrier: an element of ``T.alloc_barrier``, or the whole of one with a single count.

    Raises:
        ScopeError: it is no barrier.
    """
    if isinstance(barrier, Buffer) and barrier.scope == "shared.barrier":
        if barrier.shape != (1,):
            raise errors.ShapeError(
                f"{what} must be one barrier, but {barrier.name} is an array of {barrier.shape[0]}",
                span=span.here(),
                notes=[f"index one of them: {barrier.name}[i]"],
            )
        return load(barrier, [0])
    if isinstance(barrier, Load) and barrier.buffer.scope == "shared.barrier":
        return barrier
    raise errors.ScopeError(
        f"{what} must be a barrier, got `{barrier}`",
        span=span.here(),
        notes=["barriers come from T.alloc_barrier(arrive_count)"],
    )


def constant_flag(what: str, value: Any) -> bool:
    """The value of an argument that is True or False when the program is traced."""
    number = plain(value)
    if not isinstance(number, int) or number not in (0, 1):
        raise errors.SemanticsError(
            f"{what} is `{value}`; it must be True or False", span=span.here()
        )
    return bool(number)


def _condition(what: str, value: Any) -> Expr:
    number = plain(value)
    if isinstance(number, int):
        return cast(bool(number), BOOL)
    if isinstance(number, Expr) and (number.dtype == BOOL or number.dtype.is_integer):
        return condition(number)
    raise errors.SemanticsError(
        f"{what} is `{value}`; it must be a bool or a condition", span=span.here()
    )


def policy_note(value: Any) -> dict[str, int]:
    """The note of a given policy; none of None, which leaves the choice to the compiler."""
    if value is None:
        return {}
    try:
        return {"policy": int(GemmWarpPolicy(value))}
    except ValueError:
        raise errors.SemanticsError(
            f"policy of T.gemm is `{value}`; it is one of "
            + ", ".join(f"T.GemmWarpPolicy.{policy.name}" for policy in GemmWarpPolicy),
            span=span.here(),
        ) from None


def check_wg_wait(what: str, value: Any) -> None:
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < -1:
        raise errors.SemanticsError(
            f"{what}: wg_wait must be a number of wgmma groups, or -1, got `{value}`",
            span=span.here(),
        )


def _promotion(value: Any) -> int:
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise errors.SemanticsError(
            f"T.gemm: promote_every must be a positive constant that divides K, got `{value}`",
            span=span.here(),
        )
    return number


def _check_padded(
    what: str,
    matrices: Sequence[Region],
    formats: Sequence[int],
    notes: dict[str, Any],
    is_sparse: bool,
) -> None:
    """Refuses a gemm of padded tiles without factors that no tensor core has."""
    check_types(matrices, formats, f"{what} with padded tiles")
    given = ""
    if not is_sparse and "is_wgmma" not in notes:
        others = [name for name in ("promote_every", "wg_wait") if name in notes]
        if not others:
            return
        given = f" with {others[0]}"
    raise errors.UnsupportedError(
        f"{what} does not support padded tiles{given}",
        span=span.here(),
        notes=["T.gemm(a, b, c) and T.tcgen05_gemm multiply them"],
    )


def emit_gemm(
    operands: tuple[Any, Any, Any],
    transposed: tuple[bool, bool],
    clear_accum: Any,
    mbar: Any,
    notes: dict[str, Any],
    scales: Scales | None = None,
    k_start: Any = None,
    what: str = "T.gemm",
    metadata: Metadata | None = None,
) -> None:
    """Emits a gemm.

    Args:
        scales: makes operands of the factors of its matrices, in the K from ``k_start`` on.
        metadata: makes an operand of the metadata of A, which then has half of K.
    """
    in_block(what)
    trans_a, trans_b = (constant_flag(f"transpose of {what}", flag) for flag in transposed)
    operands = (
        *(staged(f"{n} of {what}", x) for n, x in zip("AB", operands, strict=False)),
        operands[2],
    )
    # Rows of A and B as bytes, where two elements share one.
    packed = [
        packed_matrix(f"{name} of {what}", x, k_last, scales is not None)
        for name, x, k_last in zip("AB", operands, (not trans_a, trans_b), strict=False)
    ]
    a, b, c = (
        _matrix(f"{name} of {what}", x if found is None else found[0])
        for name, x, found in zip("ABC", operands, (*packed, None), strict=True)
    )
    formats = [OWN if found is None else found[1] for found in (*packed, None)]
    rows_a, rows_b = (
        [*each.shape[:-1], each.shape[-1] * (2 if form == E2M1X2 else 1)]
        for each, form in zip((a, b), formats, strict=False)
    )
    if metadata is not None:
        rows_a[-2 if trans_a else -1] *= 2
    _check_shapes(what, (rows_a, rows_b, c.shape), trans_a, trans_b, "use_2cta" in notes)
    clear = _condition(f"clear_accum of {what}", clear_accum)
    barrier = None if mbar is None else barrier_element(f"mbar of {what}", mbar)
    matrices = zip((a, b, c), (trans_a, trans_b, False), formats, strict=True)
    parts = [_operand(kind, *each) for kind, each in enumerate(matrices)]
    if scales is None and (is_padded(a) or is_padded(b)):
        _check_padded(what, (a, b, c), formats, notes, metadata is not None)
    if scales is not None:
        found = scales((a, b, c), (trans_a, trans_b), formats)
        parts += [_operand(SCALE_A + n, *each) for n, each in enumerate(found)]
    if metadata is not None:
        parts.append(_operand(_METADATA, *metadata(a, trans_a), OWN))
    emit(_gemm(parts, clear, barrier, notes, span.current(), k_start))


_IGNORED = {"k_pack": 1}
MISSING = object()


def _check_k_pack(unsupported: dict[str, Any]) -> None:
    k_pack = unsupported.get("k_pack", 1)
    if type(k_pack) is int and k_pack in (1, 2):
        remark_ignored("T.gemm", k_pack=k_pack)
        return
    raise errors.SemanticsError(
        f"T.gemm k_pack must be an int equal to 1 or 2, got {k_pack!r}", span=span.here()
    )


def pair_note(what: str, use_2cta: Any) -> dict[str, bool]:
    """The note of what both blocks of a pair do together; none of False."""
    return {"use_2cta": True} if constant_flag(f"use_2cta of {what}", use_2cta) else {}


def _forms(wg_wait: int, promote_every: Any, use_2cta: Any) -> dict[str, Any]:
    """The notes of arguments that are given."""
    notes: dict[str, Any] = dict(pair_note("T.gemm", use_2cta))
    if notes and wg_wait:
        raise errors.SemanticsError(
            "T.gemm with use_2cta=True waits for its result: leave out wg_wait=",
            span=span.here(),
            notes=["T.tcgen05_gemm(..., mbar=, use_2cta=True) does not wait"],
        )
    if wg_wait:
        notes["wg_wait"] = wg_wait
    if promote_every is not None:
        notes["promote_every"] = _promotion(promote_every)
    return notes


@named
def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: Any = None,
    clear_accum: Any = False,
    mbar: Any = None,
    wg_wait: int = 0,
    promote_every: int | None = None,
    use_2cta: bool = False,
    scale_A: Any = None,
    scale_B: Any = None,
    **unsupported: Any,
) -> None:
    """``C += A @ B`` on tiles, or ``C = A @ B`` with ``clear_accum``.

    Args:
        A: (M, K), or (K, M) with ``transpose_A``; shared memory, a fragment or tensor memory.
        B: (K, N), or (N, K) with ``transpose_B``; shared memory.
        C: (M, N); a fragment or tensor memory.
        policy: how warps share the result. None: by rows where the result becomes A of another
            gemm in registers, or A is such; else in parts as square as they can be.
        clear_accum: a bool or a condition: do not add to what C holds.
        mbar: an mbarrier that the completion arrives on; then waiting is up to the kernel.
        wg_wait: how many groups of wgmma (on sm_90a; each gemm is one) may stay in flight after
            the call, -1 for all of them; :func:`wait_wgmma` waits for them. Until then C and a
            fragment A must not be used, nor shared operands overwritten. Other instructions have
            no groups: any value means the same.
        promote_every: the instruction sums so many products of K (a divisor of it) at a time,
            in a fragment beside C; these sums are added to C, a fragment of float32, by the
            threads. For float8, whose sums in the tensor core of Hopper keep 13 bits.
        use_2cta: on Blackwell, the two blocks of a pair (neighbours of a cluster whose ranks
            differ in the last bit) compute together. Each has its own A (M, K), M a multiple of
            128, its own C (M, N), N a multiple of 16 (of 32 for int8 and for A in tensor memory)
            up to 256, and half of the columns of B, (K, N / 2): those of the even rank come
            first; scale_B is of all N. Both must make the call; with mbar the even one alone does
            (see :func:`tcgen05_gemm`). All gemms of a kernel are so, or none is.
        scale_A, scale_B: factors of a row of A (a column of B) and a block along K, in shared
            memory: float8_e8m0fnu of blocks of 32 for A and B of float8 (mxfp8), of float6 and
            float4 in padded tiles, or both float4 in packed ones (mxfp4), float8_e4m3fn of blocks
            of 16 for these (nvfp4); (M, K / block) or, of whole atoms of cuBLAS, (M / 128, K /
            (4 * block), 32, 16); powers of two also as uint32 (K / 128, M). C is float32.

    Raises:
        ShapeError: matrices or factors do not fit each other; promote_every does not divide K.
        DTypeError: types that factors do not go with; promote_every with C other than a fragment
            of float32.
        SemanticsError: clear_accum, policy, a transpose, wg_wait, promote_every or use_2cta is
            none; promote_every with wg_wait or mbar; use_2cta with wg_wait, where the kernel has no
            clusters of an even size, where the blocks of a pair part, or in some gemms alone.
        TargetError (when compiled): use_2cta on a target without tcgen05.
    """
    _check_k_pack(unsupported)
    refuse_extra("T.gemm", {**unsupported, "k_pack": 1}, _IGNORED)
    check_wg_wait("T.gemm", wg_wait)
    notes = {**policy_note(policy), **_forms(wg_wait, promote_every, use_2cta)}
    scales = given_scales(scale_A, scale_B, notes, "use_2cta" in notes and mbar is not None)
    emit_gemm((A, B, C), (transpose_A, transpose_B), clear_accum, mbar, notes, scales)


@named
def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: Any = None,
    clear_accum: Any = False,
    **unsupported: Any,
) -> None:
    """The asynchronous gemm on Hopper: issued and committed as a group, not waited for.

    On targets without wgmma, and for shapes, types and threads that wgmma does not have, it is
    :func:`gemm`, which waits for its result, with a remark.

    Arguments and errors as of :func:`gemm`. C and a fragment A must not be used, nor shared
    operands overwritten, before a :func:`wait_wgmma` that covers the group.

    Raises (when compiled):
        LayoutError: C or A is a part of a fragment, or no instruction has the operands' types.
    """
    refuse_extra("T.wgmma_gemm", unsupported, _IGNORED)
    notes = {**policy_note(policy), "wg_wait": -1, "is_wgmma": True}
    emit_gemm((A, B, C), (transpose_A, transpose_B), clear_accum, None, notes, what="T.wgmma_gemm")


def wait_wgmma(id: int = 0) -> None:
    """Each warpgroup waits until at most ``id`` of the groups of wgmma that it has issued are
    incomplete: every ``T.wgmma_gemm``, and ``T.gemm`` with ``wg_wait``, is a group.

    On targets without wgmma nothing is in flight, and a remark says so.

    Raises:
        SemanticsError: ``id`` is no constant from 0 to 7.
    """
    in_block("T.wait_wgmma")
    number = plain(id)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 7:
        raise errors.SemanticsError(
            f"T.wait_wgmma: the number of groups must be a constant from 0 to 7, got `{id}`",
            span=span.here(),
        )
    emit(_wait_wgmma(number, span.current()))


@named
def tcgen05_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: Any = None,
    clear_accum: Any = False,
    *,
    mbar: Any = MISSING,
    use_2cta: bool = False,
    wg_wait: int = 0,
    **unsupported: Any,
) -> None:
    """The asynchronous gemm on Blackwell: issued only, its completion arrives on ``mbar``.

    Arguments and errors as of :func:`gemm`. None for ``mbar``: no arrival until a
    ``T.tcgen05_mma_arrive`` after it. Without ``mbar`` C is a fragment, and the call waits for the
    result as :func:`gemm` does.

    With ``use_2cta`` the even block of a pair issues for both, and it alone must get here: put the
    call under ``T.block_rank_in_cluster() == 0`` (``% 2 == 0`` in larger clusters). It uses, and
    writes, the same slices of both blocks' tiles, which lie in shared memory (A also in tensor
    memory) and C in tensor memory; its completion arrives on ``mbar`` of both. SemanticsError where
    the odd block may get here, ScopeError of fragments.
    """
    if mbar is MISSING:
        if as_region("T.tcgen05_gemm", C).buffer.scope == "local.fragment":
            unsupported["use_2cta"] = use_2cta
            gemm(
                A, B, C, transpose_A, transpose_B, policy, clear_accum, None, wg_wait, **unsupported
            )
            return
        raise errors.SemanticsError(
            "T.tcgen05_gemm needs mbar=: it does not wait for a result in tensor memory",
            span=span.here(),
            notes=[
                "mbar=T.alloc_barrier(1) and T.mbarrier_wait_parity before the result is used; "
                "mbar=None with a T.tcgen05_mma_arrive later; or T.gemm, which waits itself"
            ],
        )
    check_wg_wait("T.tcgen05_gemm", wg_wait)
    refuse_extra("T.tcgen05_gemm", unsupported, _IGNORED)
    pair = pair_note("T.tcgen05_gemm", use_2cta)
    notes: dict[str, Any] = {**policy_note(policy), **pair, "is_tcgen05": True}
    remark_ignored("T.tcgen05_gemm", policy=notes.get("policy"), wg_wait=wg_wait)
    emit_gemm(
        (A, B, C), (transpose_A, transpose_B), clear_accum, mbar, notes, what="T.tcgen05_gemm"
    )


#: The name of T.gemm in older programs, which chose its implementation by it.
gemm_v1 = gemm
