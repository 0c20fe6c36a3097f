"""Allocation: ``T.alloc_shared``, ``T.alloc_fragment``, ``T.alloc_var``, ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, make_buffer, plain, shape_text
from ..ir.dtype import GREATEST, DType, dtype_of
from ..ir.expr import Operand, as_expr, check_integer
from ..ir.stmt import emit
from .builder import Builder, current, in_block, in_kernel
from .codec import NarrowType, narrow_type
from .narrow_view import codes_of, extents_in_bytes, padded_of, tile_of
from .sized_tile import allocate_at_call, is_sized_at_call
from .tensor import check_extent
from .variable import allocate as allocate_variable
from .vector_tile import VectorTile, allocate_vector, vector_type
from .view import PADDED, View

_alloc = _ffi.get("ir.Alloc")

_SCOPES = {
    "shared": "shared.dyn",
    "shared.dyn": "shared.dyn",
    "local.fragment": "local.fragment",
    "local": "local",
    "shared.tmem": "shared.tmem",
}

# Types that shared memory holds as they lie in tensors: instructions read them there.
_CODES_IN_SHARED = ("float8_e8m0fnu",)
# Of a shared tile: float4_e2m1fn as tensor cores read it beside 8-bit types.
_BY_TENSOR_CORE = "float4_e2m1_unpacked"
_PACKED_TYPES = ("int4", "uint4", "float4_e2m1fn")
_PADDED_TYPES = ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


def _constant_shape(what: str, shape: Any) -> list[int]:
    dims = [plain(dim) for dim in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    for dim in dims:
        if isinstance(dim, (Operand, bool)) or not hasattr(dim, "__index__"):
            raise errors.ShapeError(
                f"extent `{dim}` of {what}({shape_text(dims)}) is not a constant integer",
                span=span.here(),
                notes=["tiles have constant shapes; use a fixed tile size and loop over the tiles"],
            )
        if int(dim) < 1:
            raise errors.ShapeError(
                f"extent {dim} of {what}({shape_text(dims)}) is not positive", span=span.here()
            )
    if not dims:
        raise errors.ShapeError(f"{what} needs at least one dimension", span=span.here())
    return [int(dim) for dim in dims]


def _allocate(what: str, shape: Any, dtype: DType, scope: str, attrs: dict[str, Any]) -> Buffer:
    builder = in_kernel(what) if scope == "local" else in_block(what)
    buffer = make_buffer(builder.take_hint("buf"), dtype, shape, scope, attrs=attrs)
    emit(_alloc(buffer, span.current()))
    return buffer


def _tile(what: str, shape: Any, dtype: Any, scope: str) -> Any:
    if scope not in _SCOPES:
        raise errors.ScopeError(
            f"unknown memory scope {scope!r}", span=span.here(), notes=[f"known: {list(_SCOPES)}"]
        )
    dims, narrow, vector = _constant_shape(what, shape), narrow_type(dtype), vector_type(dtype)
    if vector is not None:
        source = _allocate(what, [*dims, vector.lanes], vector.base, _SCOPES[scope], {})
        return VectorTile(source, vector)
    # A matrix whose rows the accelerator can fill; others hold the codes of such a tensor.
    fits = len(dims) > 1 and dims[-1] % 16 == 0
    if str(narrow) == _BY_TENSOR_CORE and _SCOPES[scope] == "shared.dyn" and fits:
        return _padded(what, dims, NarrowType("float4_e2m1fn"))
    if narrow in _CODES_IN_SHARED and _SCOPES[scope] == "shared.dyn":
        return _packed(what, dims, narrow, _SCOPES[scope])
    if narrow is not None:
        buffer = _allocate(what, dims, narrow.codec.value, _SCOPES[scope], {})
        tile = tile_of(buffer, narrow)
        if narrow in _PACKED_TYPES and _SCOPES[scope] == "shared.dyn" and dims[-1] % 2 == 0:
            tile.may_be_packed(_packer(buffer))
        return tile
    return _allocate(what, dims, dtype_of(dtype), _SCOPES[scope], {})


def _packer(tile: Buffer) -> Callable[[], Buffer]:
    """Returns what replaces a buffer of 4-bit elements by one of bytes that hold two each."""
    block = in_kernel("T.alloc_shared").blocks[-1]
    place, where = len(block.stmts) - 1, span.current()

    def make() -> Buffer:
        *outer, last = (int(plain(extent)) for extent in tile.shape)
        buffer = make_buffer(tile.name, dtype_of("uint8"), [*outer, last // 2], "shared.dyn")
        if not block.ended:
            block.stmts[place] = _alloc(buffer, where)
        return buffer

    return make


def _packed(what: str, dims: list[int], narrow: NarrowType, scope: str) -> Any:
    extents = extents_in_bytes(f"{what}({shape_text(dims)}) of {narrow!r}", dims, narrow)
    return codes_of(_allocate(what, extents, dtype_of("uint8"), scope, {}), narrow)


def _padded(what: str, dims: list[int], narrow: NarrowType) -> Any:
    if dims[-1] % PADDED:
        raise errors.ShapeError(
            f"{what}({shape_text(dims)}) of {narrow!r}: the last extent must be a multiple of "
            f"{PADDED}, because a padded tile stores {PADDED} elements in each {PADDED} bytes",
            span=span.here(),
        )
    attrs = {"padded_type": str(narrow)}
    return padded_of(_allocate(what, dims, dtype_of("uint8"), "shared.dyn", attrs), narrow)


def alloc_scratch(shape: Any, dtype: Any) -> Buffer:
    """Shared memory of an operator's own: its barriers are the compiler's in any case."""
    dims = _constant_shape("scratch memory", shape)
    return _allocate("scratch memory", dims, dtype_of(dtype), "shared.dyn", {"scratch": True})


def alloc_contributions(shape: Any, dtype: Any, attrs: dict[str, Any]) -> Buffer:
    """Shared memory that iterations contribute to."""
    dims = _constant_shape("T.alloc_reducer", shape)
    return _allocate("T.alloc_reducer", dims, dtype_of(dtype), "shared.dyn", attrs)


def alloc_shared(
    shape: Any,
    dtype: Any,
    scope: str = "shared.dyn",
    packed: bool = False,
    padded: bool = False,
) -> Buffer:
    """A tile in the shared memory of the thread block.

    Args:
        shape: extents. One tile of a kernel may have extents known at the call, expressions of
            dimensions and integer parameters; T.copy and threads use it, T.gemm does not.
        dtype: of the elements.
        scope: shared memory; other scopes give what their own functions give.
        packed: elements of 4 bits (int4, uint4, float4_e2m1fn) lie two in a byte, as in tensors and
            as block-scaled tensor cores read them, not each in an element of a larger type. T.copy
            brings the bytes; threads read elements, and write them by T.copy from a fragment.
        padded: the same of elements of 6 and 4 bits (float6_e2m3fn, float6_e3m2fn, float4_e2m1fn),
            of which 16 fill the first 12, or 8, of 16 bytes, as block-scaled tensor cores read
            types of different sizes in one gemm.

    Raises:
        ShapeError: an extent is not a positive constant; a last one that does not fill the bytes
            of a packed or padded tile.
        DTypeError: packed with a type that is not of 4 bits, padded with one that is no float of 4
            or 6.
    """
    narrow = narrow_type(dtype)
    if not (packed or padded):
        plain_type = narrow is None and vector_type(dtype) is None
        if _SCOPES.get(scope) == "shared.dyn" and plain_type and is_sized_at_call(shape):
            kind = dtype_of(dtype)
            tile: Any = allocate_at_call(  # stands for a buffer, but knows its extents at the call
                shape,
                kind,
                lambda dims, attrs: _allocate("T.alloc_shared", dims, kind, "shared.dyn", attrs),
            )
            return tile  # type: ignore[no-any-return]
        return _tile("T.alloc_shared", shape, dtype, scope)
    how, types = ("padded", _PADDED_TYPES) if padded else ("packed", _PACKED_TYPES)
    if narrow not in types or _SCOPES.get(scope) != "shared.dyn" or (packed and padded):
        also = how == "packed" and narrow in _PADDED_TYPES
        raise errors.DTypeError(
            f"T.alloc_shared(..., {dtype}, {how}=True): only types of "
            f"{'4 or 6' if padded else '4'} bits can be {how} in shared memory",
            span=span.here(),
            notes=[
                f"{narrow!r} takes padded=True" if also
                else f"these types are {' and '.join(f'T.{each}' for each in types)}"
            ],
        )  # fmt: skip
    dims = _constant_shape("T.alloc_shared", shape)
    if padded:
        return _padded("T.alloc_shared", dims, narrow)
    return _packed("T.alloc_shared", dims, narrow, "shared.dyn")


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Buffer:
    """A tile in registers, distributed over the threads of the block; its layout is inferred."""
    return _tile("T.alloc_fragment", shape, dtype, scope)


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Buffer:
    """An array private to each thread."""
    return _tile("T.alloc_local", shape, dtype, scope)


def alloc_tmem(shape: Any, dtype: Any, packed: bool = False) -> Buffer:
    """A buffer in Blackwell tensor memory; the last two dimensions are the matrix.

    Args:
        packed: float4_e2m1fn, eight elements in a column, as block-scaled tensor cores read A: what
            T.copy brings from a packed tile in shared memory.

    Raises:
        ShapeError: rank below two, or a last extent that does not fill bytes.
        DTypeError: packed with another type.
    """
    dims = _constant_shape("T.alloc_tmem", shape)
    if len(dims) < 2:
        raise errors.ShapeError(
            f"T.alloc_tmem({shape_text(dims)}): the tile must have at least two dimensions",
            span=span.here(),
        )
    if not packed:
        return _allocate("T.alloc_tmem", dims, dtype_of(dtype), "shared.tmem", {})
    narrow = narrow_type(dtype)
    if narrow is None or str(narrow) != "float4_e2m1fn":
        raise errors.DTypeError(
            f"T.alloc_tmem(..., {dtype}, packed=True): only float4_e2m1fn can be packed",
            span=span.here(),
        )
    return _packed("T.alloc_tmem", dims, narrow, "shared.tmem")


def alloc_global(shape: Any, dtype: Any, scope: str = "global", zeroed: bool = False) -> Buffer:
    """Scratch memory of the device, for the time of the call.

    Args:
        shape: extents, which may be symbolic.
        dtype: of the elements.
        scope: "global".
        zeroed: it is zero when the call begins. The program leaves it zero: calls of one stream
            share it.

    Raises:
        ScopeError: inside of ``T.Kernel``, or another scope.
    """
    if scope != "global":
        raise errors.ScopeError(
            f"T.alloc_global: scope must be 'global', got {scope!r}", span=span.here()
        )
    builder = current("T.alloc_global")
    if builder.kernel is not None:
        raise errors.ScopeError(
            "T.alloc_global inside T.Kernel",
            span=span.here(),
            notes=["allocate before `with T.Kernel(...)`, for all blocks together"],
        )
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    attrs = {"zeroed": True} if zeroed else {}
    return _global_of(builder, "T.alloc_global", dims, dtype, attrs)


def _global_of(
    builder: Builder, what: str, dims: Sequence[Any], dtype: Any, attrs: dict[str, Any]
) -> Buffer:
    """Memory of the device for elements of a type; of a narrow one, their bytes and a view."""
    narrow = narrow_type(dtype)
    if narrow is None:
        return _allocate_global(builder, dims, dtype_of(dtype), attrs)
    extents = extents_in_bytes(f"{what}({shape_text(dims)}) of {narrow!r}", dims, narrow)
    source = _allocate_global(builder, extents, dtype_of("uint8"), attrs)
    view: Any = View(source, dims, narrow, narrow.codec)  # which is used as a buffer is
    return view


def _allocate_global(
    builder: Builder, dims: Sequence[Any], dtype: DType, attrs: dict[str, Any] | None = None
) -> Buffer:
    buffer = make_buffer(builder.take_hint("workspace"), dtype, dims, "global", attrs=attrs or {})
    stmt = _alloc(buffer, span.current())
    emit(stmt)
    builder.workspaces.append((buffer, stmt))
    return buffer


def alloc_workspace(
    shape: Any,
    dtype: Any,
    zeroed: bool = False,
    name: str | None = None,
    tile_numbers: bool = False,
) -> Buffer:
    """Memory of the device for all blocks of the open kernel, for the time of the launch.

    Args:
        zeroed: it is zero at the start, and the kernel leaves it zero.
        name: that of what the statement assigns by default.
        tile_numbers: a scheduler of tiles counts them there.
    """
    builder = in_kernel("workspace")
    given = {"zeroed": zeroed, "tile_numbers": tile_numbers}
    attrs = {key: True for key, is_given in given.items() if is_given}
    builder.kernel.counted |= zeroed
    buffer = make_buffer(
        name or builder.take_hint("workspace"), dtype_of(dtype), shape, "global", attrs=attrs
    )
    builder.blocks[builder.blocks.index(builder.kernel.block) - 1].stmts.append(
        _alloc(buffer, span.current())
    )
    return buffer


def empty(*shape: Any, dtype: Any = None) -> Buffer:
    """A tensor that the function allocates: ``C = T.empty((M, N), dtype)``, then ``return C``.

    Without being returned it is scratch memory, as that of :func:`alloc_global`.

    Args:
        shape: the extents, as one tuple or list or one by one; constants, or expressions of
            dimensions and scalars known at run time.
        dtype: the element type, also the last argument by position; float32 by default. Of a
            type that shares bytes (float4_e2m1fn) the caller gets the bytes, as uint8.

    Raises:
        ScopeError: inside of ``T.Kernel``.
    """
    builder = current("T.empty")
    if builder.kernel is not None:
        raise errors.ScopeError(
            "T.empty inside T.Kernel",
            span=span.here(),
            notes=["allocate before `with T.Kernel(...)`: all blocks share the tensor"],
        )
    if shape and isinstance(shape[0], (tuple, list)):
        dims, rest = list(shape[0]), list(shape[1:])
    else:
        dims, rest = list(shape), []
        if dims and not isinstance(dims[-1], (int, Operand)):
            rest = [dims.pop()]
    if len(rest) > 1 or (rest and dtype is not None) or not dims:
        raise errors.ShapeError(
            f"T.empty takes a shape and a dtype, but got {len(shape)} arguments",
            span=span.here(),
            notes=["C = T.empty((M, N), dtype)"],
        )
    kind = rest[0] if rest else dtype
    for dim in dims:
        check_extent(dim)
    return _global_of(builder, "T.empty", dims, "float32" if kind is None else kind, {})


def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Any:
    """A mutable scalar or vector, private to each thread: plain assignment updates it.

    Args:
        dtype: its type; a type of vectors, such as ``T.float16x2``, makes it a vector.
        args: the initial value may be given by position: ``T.alloc_var("int32", 0)``.
        scope: only "local.var".
        init: the initial value; without one it is undefined until assigned.

    Raises:
        DTypeError: the type has no value as large as the initial one.
    """
    for arg in args:
        if isinstance(arg, str) and arg.startswith("local"):
            scope = arg
        elif init is None:
            init = arg
        else:
            raise errors.SemanticsError("T.alloc_var got two initial values", span=span.here())
    if scope != "local.var":
        raise errors.ScopeError(
            f"T.alloc_var: scope must be 'local.var', got {scope!r}", span=span.here()
        )
    builder, vector = in_kernel("T.alloc_var"), vector_type(dtype)
    if vector is not None:
        return allocate_vector(builder.take_hint("v"), vector, init)
    _check_initial(dtype_of(dtype), init)
    return allocate_variable(builder.take_hint("v"), dtype_of(dtype), init)


def _check_initial(dtype: DType, init: Any) -> None:
    """Refuses a finite number that would become an infinity, or lose bits of an integer."""
    if isinstance(init, int) and dtype.is_integer:
        check_integer(init, dtype)
        return
    if not isinstance(init, float) or not dtype.is_float or not math.isfinite(init):
        return
    greatest = GREATEST[dtype]
    if abs(init) > greatest:
        raise errors.DTypeError(
            f"the initial value {init} of T.alloc_var exceeds maximum of {dtype}, {greatest}",
            span=span.here(),
            notes=["T.infinity(dtype) is the infinity"],
        )


def alloc_barrier(arrive_count: int | Sequence[int]) -> Buffer:
    """One mbarrier, or one for each count of a list, initialized before the kernel's body.

    Args:
        arrive_count: how many arrivals complete a phase.
    """
    return _barriers("T.alloc_barrier", arrive_count, of_cluster=False)


def _barriers(name: str, arrive_count: Any, of_cluster: bool) -> Buffer:
    counts = list(arrive_count) if isinstance(arrive_count, (list, tuple)) else [arrive_count]
    for count in map(plain, counts):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < 1 << 20:
            raise errors.SemanticsError(
                f"arrival count `{count}` of {name} is not a constant from 1 to 2^20 - 1",
                span=span.here(),
            )
    attrs: dict[str, Any] = {"arrive_counts": [as_expr(int(plain(count))) for count in counts]}
    if of_cluster:
        attrs["of_cluster"] = True
    dtype = dtype_of("uint64")
    return _allocate(name, [len(counts)], dtype, "shared.barrier", attrs)


def alloc_cluster_barrier(arrive_count: int | Sequence[int]) -> Buffer:
    """As :func:`alloc_barrier`: every mbarrier can be reached by all blocks of the cluster, by
    ``T.mbarrier_arrive(barrier, cta_id)`` and by copies to other blocks.

    Where pairs of blocks compute gemms (``use_2cta``), a ``T.tma_copy`` with such a barrier
    completes on that of the even block of the pair, whichever block's memory it fills.

    Args:
        arrive_count: how many arrivals complete a phase, including arrivals of other blocks.
    """
    return _barriers("T.alloc_cluster_barrier", arrive_count, of_cluster=True)
