"""Scale factors of block-scaled gemms: ``scale_A=`` and ``scale_B=`` of ``T.gemm``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import errors
from ..ir import span
from ..ir.buffer import Region, load, memory_name, plain, shape_text, whole
from ..ir.dtype import dtype_of
from ..ir.expr import Expr, as_expr, cast
from .allocate import alloc_scratch
from .codec import reinterpreted
from .region import as_part, as_region
from .scalar import min as minimum
from .view import Element, Part, View
from .view_copy import elementwise

#: ``GemmOperandKind`` and ``GemmFormat`` of ``src/ir/gemm.h``.
SCALE_A = 3
OWN, UE8M0, E2M1X2 = 0, 1, 2

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_ATOM_ROWS, _ATOM_BLOCKS = 128, 4
# The bytes of an atom as dimensions of a tile.
_TAILS = ((512,), (2, 256), (32, 16), (32, 4, 4))
_BYTE, _WORD = dtype_of("uint8"), dtype_of("uint32")
_E4M3 = dtype_of("float8_e4m3fn")
_FLOAT4 = "float4_e2m1fn"
_AS_WORDS = "as uint32, four blocks in a word, the lowest first: "
# K of an instruction on float4: less is no multiple of it.
_FLOAT4_STEP = 64
_Operand = tuple[Region, bool, int]
#: Region, ``False`` and format of both tiles of factors, of matrices, transposes and formats.
Scales = Callable[[Sequence[Region], Sequence[bool], Sequence[int]], list[_Operand]]


class _Factors(NamedTuple):
    """A tile of factors of one type.

    Attributes:
        region: in shared memory.
        format: of its elements.
        block: elements along K that share a factor.
    """

    region: Region
    format: int
    block: int


def given_scales(
    scale_a: Any, scale_b: Any, notes: dict[str, Any], by_leader: bool = False
) -> Scales | None:
    """Returns what makes operands of both tiles of factors; None where neither is given.

    Args:
        by_leader: the even block of a pair alone gets to the gemm, so that factors have to lie in
            atoms.

    Raises:
        SemanticsError: one is missing, or an argument that goes with none.
    """
    if scale_a is None and scale_b is None:
        return None
    missing = "scale_A" if scale_a is None else "scale_B" if scale_b is None else None
    if missing:
        raise errors.SemanticsError(
            f"T.gemm: {missing} is missing; both matrices have scale factors, or none has",
            span=span.here(),
            notes=["factors of 1 are the byte 127 of float8_e8m0fnu"],
        )
    for name in ("promote_every", "wg_wait"):
        if name in notes:
            raise errors.UnsupportedError(
                f"T.gemm does not support {name} together with scale factors", span=span.here()
            )
    return partial(scale_regions, (scale_a, scale_b), by_leader=by_leader)


def packed_matrix(what: str, operand: Any, k_last: bool, scaled: bool) -> tuple[Region, int] | None:
    """Returns the bytes of a packed or padded tile, and their format; None of any other operand.

    Args:
        what: the operand in messages.
        operand: A or B.
        k_last: K is its last dimension.
        scaled: the gemm has scale factors.

    Raises:
        DTypeError: a type of 4 bits that no tensor core reads, or a packed one without factors.
        SemanticsError: elements that share a byte do not follow each other along K.
    """
    if not isinstance(operand, (View, Part)):
        return None
    part = as_part(operand)
    view = part.view
    if view.sharing == 1 or view.codec is None:
        return None
    dtype, how = str(view.dtype), "padded" if view.is_padded else "packed"
    if not view.is_padded and (dtype != _FLOAT4 or not scaled):
        raise errors.DTypeError(
            f"{what} is {view.describe()}, two elements in a byte; tensor cores read {_FLOAT4} so, "
            "with scale_A= and scale_B=",
            span=span.here(),
            notes=[
                "a tile that is allocated without packed=True has each element by itself, one "
                f"with padded=True elements that T.gemm multiplies without factors ({_FLOAT4})"
            ],
        )
    if not k_last:
        raise errors.SemanticsError(
            f"{what} is {how} {dtype}: K must be its last dimension, but it is the first",
            span=span.here(),
            notes=["A is (M, K), and B (N, K) with transpose_B=True"],
        )
    region = view.codes(part)
    if region is None:
        raise errors.ShapeError(
            f"{what}: `{part}` starts or ends between two elements that share a byte",
            span=span.here(),
        )
    return region, OWN if view.is_padded else E2M1X2


def scale_regions(
    scales: Sequence[Any],
    matrices: Sequence[Region],
    transposed: Sequence[bool],
    formats: Sequence[int],
    by_leader: bool,
) -> list[_Operand]:
    """Returns region, ``False`` and format of both tiles of factors.

    Args:
        scales: scale_A and scale_B of the call.
        matrices: A, B and C.
        transposed: of A and B.
        formats: of the elements of A, B and C.
        by_leader: as of :func:`given_scales`.

    Raises:
        DTypeError: types that are not multiplied with factors, or factors of no such type.
        ShapeError: a tile that is not in atoms, or not of the size of its matrix.
        ScopeError: factors outside of shared memory.
    """
    a, _, c = matrices
    check_types(matrices, formats)
    is_float4 = formats[0] == E2M1X2
    names = "scale_A", "scale_B"
    found = [_factors(name, each, is_float4) for name, each in zip(names, scales, strict=True)]
    if found[0].block != found[1].block:
        raise errors.DTypeError(
            "T.gemm: scale_A has factors of blocks of "
            f"{found[0].block}, scale_B of {found[1].block}; both must have one type",
            span=span.here(),
        )
    m, n = (int(extent) for extent in c.shape[-2:])
    k = int(a.shape[-2] if transposed[0] else a.shape[-1]) * (2 if is_float4 else 1)
    step = _FLOAT4_STEP if is_float4 else found[0].block
    for name, extent, unit in (("M", m, _ATOM_ROWS), ("K", k, step)):
        check_multiple("T.gemm with scale factors", name, extent, unit)
    return [
        _tile(name, factors, rows, k // factors.block, by_leader)
        for name, factors, rows in zip(names, found, (m, n), strict=True)
    ]


def is_padded(matrix: Region) -> bool:
    return "padded_type" in matrix.buffer.attrs


def check_types(
    matrices: Sequence[Region], formats: Sequence[int], what: str = "T.gemm with scale factors"
) -> None:
    """Refuses types that block-scaled tensor cores, or those of padded tiles, do not multiply."""
    padded = [matrix.buffer.attrs.get("padded_type") for matrix in matrices]
    kinds = [
        str(name or (_FLOAT4 if form == E2M1X2 else matrix.buffer.dtype))
        for matrix, form, name in zip(matrices, formats, padded, strict=True)
    ]
    packed = [form == E2M1X2 for form in formats[:2]]
    of_bytes = all(
        not pair and (name or kind in _FLOAT8)
        for pair, kind, name in zip(packed, kinds, padded, strict=False)
    )
    if (all(packed) or of_bytes) and kinds[2] == "float32":
        return
    raise errors.DTypeError(
        f"{what} of A {kinds[0]} and B {kinds[1]} into C {kinds[2]}",
        span=span.here(),
        notes=[
            "A and B are float8_e4m3fn or float8_e5m2, or with scale factors both float4_e2m1fn in "
            "tiles of T.alloc_shared(..., packed=True); C is float32",
            "beside float8 or each other float6_e2m3fn, float6_e3m2fn and float4_e2m1fn are in "
            "tiles of T.alloc_shared(..., padded=True)",
        ],
    )


def check_multiple(what: str, name: str, extent: int, step: int) -> None:
    if extent % step:
        raise errors.ShapeError(
            f"{what}: {name} = {extent} is no multiple of {step}",
            span=span.here(),
            notes=["T.copy fills what a larger tile has beyond its tensor with zeros"],
        )


def _tile(name: str, factors: _Factors, rows: int, blocks: int, by_leader: bool) -> _Operand:
    region, form, block = factors
    if region.buffer.scope != "shared.dyn":
        raise errors.ScopeError(
            f"{name} of T.gemm is in {region.buffer.describe()}; factors lie in shared memory",
            span=span.here(),
            notes=["T.copy them to a tile of T.alloc_shared"],
        )
    side, count = ("M", "rows of A") if name == "scale_A" else ("N", "columns of B")
    atoms = -(-rows // _ATOM_ROWS), -(-blocks // _ATOM_BLOCKS)
    is_words = region.buffer.dtype == _WORD
    as_words = is_words and _is_matrix(region, (atoms[1], rows))
    as_rows = not is_words and _is_matrix(region, (rows, blocks))
    if by_leader and (as_words or as_rows):
        raise errors.ShapeError(
            f"{name} of T.gemm with mbar= and use_2cta=True is in "
            f"{'words' if as_words else 'rows'}, which each block would have to put into atoms, "
            "but the even one alone issues the gemm",
            span=span.here(),
            notes=[
                region.buffer.describe(),
                f"as atoms they are {shape_text((*atoms, 32, 16))}; without mbar= both blocks make "
                "the call, and rows and words will do",
            ],
        )
    if as_words:
        return _from_words(region, atoms), False, form
    if as_rows:
        return _from_rows(region, atoms), False, form
    if not is_words and _atoms_of(region) == atoms:
        for dim, extent, step in (
            (side, rows, _ATOM_ROWS),
            ("K", blocks * block, _ATOM_BLOCKS * block),
        ):
            check_multiple(f"{name} of T.gemm is in atoms", dim, extent, step)
        return region, False, form
    raise errors.ShapeError(
        f"{name} of T.gemm has shape {shape_text(region.shape)}, but there are {rows} {count} and "
        f"{blocks} blocks of {block} elements along K: the shape must be "
        f"{shape_text((rows, blocks))}, or {shape_text((*atoms, 32, 16))} in atoms",
        span=span.here(),
        notes=[
            region.buffer.describe(),
            f"an atom, as in cuBLAS, is 512 bytes: the factors of 128 elements along {side} and 4 "
            "blocks along K. The last dimensions are its bytes: (512,), (32, 16) or (2, 256)",
            *([_AS_WORDS + shape_text((atoms[1], rows))] if form == UE8M0 else []),
        ],
    )


def _is_matrix(region: Region, shape: tuple[int, int]) -> bool:
    *before, rows, columns = [1, *map(plain, region.shape)]
    return (rows, columns) == shape and all(extent == 1 for extent in before)


def _in_atoms(atoms: tuple[int, int], dtype: Any, factor: Callable[[Any, Any], Expr]) -> Region:
    """A tile of atoms, of the elements ``factor(row, block)``."""
    tile = whole(alloc_scratch((*atoms, 32, 16), dtype))

    def byte(variables: Sequence[Any]) -> Expr:
        inner = iter(variables)
        row, group, lane, column = (0 if extent == 1 else next(inner) for extent in tile.shape)
        return factor(row * _ATOM_ROWS + column // 4 * 32 + lane, group * 4 + column % 4)

    elementwise("T.gemm", tile, byte)
    return tile


def _at(region: Region, row: Any, column: Any) -> Expr:
    """An element of a matrix; what lies beyond its rows or columns is their last."""
    low_row, low_column = region.mins[-2:]
    indices = [
        *region.mins[:-2],
        low_row + _limited(row, int(region.shape[-2])),
        low_column + _limited(column, int(region.shape[-1])),
    ]
    return as_expr(load(region.buffer, indices))


def _limited(index: Any, extent: int) -> Any:
    return minimum(index, extent - 1)


def _from_rows(region: Region, atoms: tuple[int, int]) -> Region:
    return _in_atoms(atoms, region.buffer.dtype, lambda row, block: _at(region, row, block))


def _from_words(region: Region, atoms: tuple[int, int]) -> Region:
    def factor(row: Any, block: Any) -> Expr:
        word = _at(region, block // 4, row)
        return cast(word >> cast(as_expr(block % 4) * 8, _WORD), _BYTE)

    return _in_atoms(atoms, _BYTE, factor)


class Words(NamedTuple):
    """Factors of A and B in words of rows.

    Attributes:
        what: the operator in messages.
        regions: (rows, words) in shared memory.
        granularities: elements along K that share a factor, 16 of float8_e4m3fn, else powers of
            two.
        start: where A and B begin along K.
        by_rows: words of a row follow each other; else those of rows l, l + 32, l + 64 and l + 96.
    """

    what: str
    regions: tuple[Region, Region]
    granularities: tuple[int, int]
    start: Any
    by_rows: bool


def from_words(
    words: Words, matrices: Sequence[Region], transposed: Sequence[bool], formats: Sequence[int]
) -> list[_Operand]:
    """Returns the scale regions of factors in words, as :func:`scale_regions` does.

    Raises:
        DTypeError, ShapeError: factors that do not go with the matrices.
    """
    a, _, c = matrices
    check_types(matrices, formats)
    packed = formats[0] == E2M1X2
    powers = words.granularities[0] != 16
    if not packed and not powers:
        raise errors.DTypeError(
            f"{words.what}: 16 elements of float8 share a factor; 32 do, or a multiple",
            span=span.here(),
        )
    m, n = (int(extent) for extent in c.shape[-2:])
    k = int(a.shape[-2] if transposed[0] else a.shape[-1]) * (2 if packed else 1)
    block = 32 if powers else 16
    for name, extent, unit in (("M", m, _ATOM_ROWS), ("K", k, _FLOAT4_STEP if packed else block)):
        check_multiple(words.what, name, extent, unit)
    return [
        (_unpacked(words, side, rows, k, block), False, UE8M0 if powers else OWN)
        for side, rows in enumerate((m, n))
    ]


def _unpacked(words: Words, side: int, rows: int, k: int, block: int) -> Region:
    """The factors of one matrix, one for each ``block`` elements, in atoms."""
    region, granularity = words.regions[side], words.granularities[side]
    name = f"{('SFA', 'SFB')[side]} of {words.what}"
    if granularity % block:
        raise errors.ShapeError(
            f"{name}: a factor is for {granularity} elements, no multiple of {block}",
            span=span.here(),
        )
    needed = -(-k // (4 * granularity))
    fits = len(region.shape) >= 2 and _is_matrix(region, (rows, needed))
    if not fits or not (words.by_rows or rows == _ATOM_ROWS):
        raise errors.ShapeError(
            f"{name} has shape {shape_text(region.shape)}; {rows} rows of K = {k} with a factor "
            f"for {granularity} elements are {shape_text((rows, needed))} words"
            + ("" if words.by_rows else f", of {_ATOM_ROWS} rows in this layout"),
            span=span.here(),
            notes=[region.buffer.describe()],
        )
    dtype = _E4M3 if block == 16 else _BYTE

    def factor(row: Any, each: Any) -> Expr:
        index = words.start // granularity % 4 + as_expr(each * block) // granularity
        at = _limited(row, rows), _limited(index // 4, needed)
        if not words.by_rows:
            number = (at[1] * 32 + at[0] % 32) * 4 + at[0] // 32
            at = number // needed, number % needed
        byte = cast(_at(region, *at) >> cast(as_expr(index % 4) * 8, _WORD), _BYTE)
        return byte if dtype == _BYTE else reinterpreted(byte, dtype)

    return _in_atoms((-(-rows // _ATOM_ROWS), -(-(k // block) // _ATOM_BLOCKS)), dtype, factor)


def _factors(name: str, scale: Any, is_float4: bool) -> _Factors:
    """The region that holds the factors, and what they are."""
    if isinstance(scale, (View, Part, Element)):
        part = as_part(scale)
        codes = part.view.codes(part)
        if codes is not None and str(part.view.dtype) == "float8_e8m0fnu":
            return _Factors(codes, UE8M0, 32)
        found = f"{part.view.dtype} in {memory_name(part.view.scope)}"
    else:
        region = as_region(f"{name} of T.gemm", scale)
        if region.buffer.dtype == _WORD:
            return _Factors(region, UE8M0, 32)
        if is_float4 and region.buffer.dtype == _E4M3:
            return _Factors(region, OWN, 16)
        found = str(region.buffer.dtype)
    kinds = "float8_e8m0fnu" + (", or float8_e4m3fn for blocks of 16," if is_float4 else "")
    raise errors.DTypeError(
        f"{name} of T.gemm is {found}; factors are {kinds} in shared memory",
        span=span.here(),
        notes=["T.alloc_shared(shape, T.float8_e8m0fnu)"],
    )


def _atoms_of(region: Region) -> tuple[int, int] | None:
    """Returns the number of atoms along the rows and along K; None if there are no atoms."""
    shape = [plain(extent) for extent in region.shape]
    full = [plain(extent) for extent in region.buffer.shape]
    dims = next((len(tail) for tail in _TAILS if tuple(shape[-len(tail) :]) == tail), 0)
    if not dims or shape[-dims:] != full[-dims:]:
        return None
    *before, rows, groups = [1, 1, *shape[:-dims]]
    return (rows, groups) if all(extent == 1 for extent in before) else None
