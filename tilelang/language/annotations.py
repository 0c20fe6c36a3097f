"""Annotations: layouts, rasterisation, occupancy, facts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, plain
from ..ir.expr import Operand, as_expr, cast, condition
from ..ir.stmt import emit
from ..transform import pass_config
from .builder import current, in_kernel
from .ignored import remark_ignored
from .view import View

_assume = _ffi.get("ir.Assume")


def _of_buffer(named: Any, layout: Any) -> tuple[Buffer, Any]:
    """Returns the buffer that a key of the map of layouts names, and its layout.

    The tile of a narrow type has the layout of the buffer of its values. A view without a swizzle
    asks for none of the buffer below it.
    """
    from ..layout import FormulaLayout, Fragment, Layout, TmemLayout

    if isinstance(named, Buffer):
        return named, layout
    if isinstance(named, View):
        if named.is_unpacked:
            return named.source, layout
        plain_layout = Layout(named.shape)
        is_layout = isinstance(layout, (Fragment, Layout, FormulaLayout, TmemLayout))
        given = layout if is_layout else Layout(named.shape, layout)
        fits = isinstance(given, Layout) and given.input_shape == plain_layout.input_shape
        if fits and given.same_map(plain_layout):
            return named.source, Layout(named.source.shape)
    raise errors.LayoutError(
        f"T.annotate_layout maps buffers to layouts; `{named}` is no buffer", span=span.here()
    )


def annotate_layout(layout_map: dict[Any, Any]) -> None:
    """Fixes the layouts of tiles, or the order of a tensor's elements.

    Args:
        layout_map: from buffers to a Layout, a Fragment, or a function of the indices. An array of
            each thread (``T.alloc_local``) has no layout, and a remark says so. The layout of a
            tensor in global memory says in which place of its memory each element lies; it
            holds for the whole kernel, and threads access the elements one by one. The layout of a
            tile in tensor memory returns a lane and a column, counted in elements; it may also be
            a ``TmemLayout``.

    Raises:
        LayoutError: a layout of another shape or kind than its buffer, or two for one buffer; a
            layout that puts two elements in one place, or one too far away; a buffer that takes
            none.
    """
    from ..layout import FormulaLayout, Fragment, Layout, TmemLayout

    kernel = in_kernel("T.annotate_layout").kernel
    for named, given in layout_map.items():
        buffer, layout = _of_buffer(named, given)
        if not isinstance(layout, (Fragment, Layout, FormulaLayout, TmemLayout)):
            layout = Layout(buffer.shape, layout)
        if tuple(layout.input_shape) != buffer.shape:
            raise errors.LayoutError(
                f"T.annotate_layout of {buffer.describe()}: the layout has shape "
                f"{tuple(layout.input_shape)}; both shapes must be equal",
                span=span.here(),
            )
        if buffer.scope == "local":
            remark_ignored("T.annotate_layout", layout_map=buffer.name)
            continue
        is_tensor = buffer.scope == "global"
        known = kernel.attrs.setdefault("tensor_layouts" if is_tensor else "layout_map", {})
        if buffer in known:
            raise errors.LayoutError(f"{buffer.name} is given a layout twice", span=span.here())
        if isinstance(layout, FormulaLayout) and not is_tensor:
            raise errors.LayoutError(
                f"T.annotate_layout of {buffer.describe()}: a layout of {layout.size} elements is "
                "too large for a tile",
                span=span.here(),
            )
        _check_kind(buffer, layout)
        if buffer.scope == "shared.tmem":
            known[buffer] = _cells(buffer, layout)
            continue
        is_plain = isinstance(layout, Layout) and layout.same_map(Layout(buffer.shape))
        if is_tensor and is_plain and not buffer.strides:
            continue
        known[buffer] = _order(buffer, layout) if is_tensor else _checked_places(buffer, layout)


def _order(buffer: Buffer, layout: Any) -> Any:
    """Returns where the elements of a tensor lie, as a formula of the indices."""
    from ..layout.formula import place_formula

    if buffer.strides:
        text = "it has strides; give a contiguous tensor a layout, or write the strides alone"
    elif layout.size > _LARGEST_TENSOR:
        text = f"it has {layout.size} elements; a layout numbers up to {_LARGEST_TENSOR}"
    elif layout.cosize > layout.size:
        text = (
            f"its layout reaches place {layout.cosize - 1}; its memory has {layout.size}: "
            "extents that are divided must be multiples of the divisor"
        )
    elif not layout.is_injective:
        text = "the layout puts two elements in one place; each element needs its own"
    else:
        return place_formula(layout)
    raise errors.LayoutError(f"T.annotate_layout of {buffer.describe()}: {text}", span=span.here())


def _check_kind(buffer: Buffer, layout: Any) -> None:
    from ..layout import Fragment, TmemLayout

    kinds = {Fragment: "local.fragment", TmemLayout: "shared.tmem"}
    place = next((scope for kind, scope in kinds.items() if isinstance(layout, kind)), None)
    if buffer.scope not in ("shared", "shared.dyn", "shared.tmem", "local.fragment", "global"):
        text = "only tensors, tiles in shared or tensor memory and fragments have layouts"
    elif place == buffer.scope or (place is None and buffer.scope != "local.fragment"):
        return
    else:
        wanted = "Fragment" if buffer.scope == "local.fragment" else "Layout"
        text = f"it takes a T.{wanted}, not a {type(layout).__name__}"
    raise errors.LayoutError(f"T.annotate_layout of {buffer.describe()}: {text}", span=span.here())


#: Elements of a shared tile, or registers of a thread, that a layout may span; far more than any
#: architecture has, far less than an index can tell.
_LARGEST_SPAN = 2**24
#: Of tensor memory, in every architecture that has it.
_LANES, _COLUMNS = 128, 512
#: Elements of a tensor with a layout: places are computed in 32 bits.
_LARGEST_TENSOR = 2**31 - 1


def _cells(buffer: Buffer, layout: Any) -> Any:
    """The lane and the bit of each element of a tile in tensor memory."""
    from ..layout import TmemLayout

    cells, bits = layout, buffer.dtype.bits
    if not isinstance(layout, TmemLayout):
        if len(layout.output_shape) != 2:
            raise errors.LayoutError(
                f"T.annotate_layout of {buffer.describe()}: a layout of tensor memory returns "
                "[lane, column], the column counted in elements",
                span=span.here(),
            )
        cells = TmemLayout.from_cells(layout, bits)
    if cells.element_bits != bits:
        text = f"its elements have {bits} bits, those of the layout {cells.element_bits}"
    elif cells.lane.cosize > _LANES or cells.columns > _COLUMNS:
        text = (
            f"its layout reaches lane {cells.lane.cosize - 1} and 32-bit column "
            f"{cells.columns - 1}; tensor memory has {_LANES} lanes and {_COLUMNS} columns"
        )
    elif len(set(zip(cells.lane.values(), cells.bit.values(), strict=True))) < cells.lane.size:
        text = "the layout puts two elements in one place; each element needs its own"
    else:
        return cells
    raise errors.LayoutError(f"T.annotate_layout of {buffer.describe()}: {text}", span=span.here())


def _checked_places(buffer: Buffer, layout: Any) -> Any:
    """Each element has a place of its own (of fragments, the constructor makes sure of it)."""
    places = layout.reg if buffer.scope == "local.fragment" else layout
    if places.cosize > _LARGEST_SPAN:
        raise errors.LayoutError(
            f"the layout of {buffer.describe()} reaches place {places.cosize - 1}; places are "
            f"below {_LARGEST_SPAN}",
            span=span.here(),
        )
    if places is not layout or layout.is_injective:
        return layout
    element_at: dict[int, list[int]] = {}
    for element, place in zip(_coordinates(buffer.shape), layout.values(), strict=True):
        first = element_at.setdefault(place, element)
        if first is not element:
            raise errors.LayoutError(
                f"the layout of {buffer.describe()} puts two elements in one place: both {first} "
                f"and {element} map to {place}",
                span=span.here(),
            )
    return layout


def _coordinates(shape: Any) -> Iterator[list[int]]:
    """The coordinates of a shape, the last dimension fastest."""
    return map(list, itertools.product(*map(range, shape)))


def use_swizzle(panel_size: int, order: str = "row", enable: bool = True) -> None:
    """Numbers the blocks of the grid by panels, for reuse in the L2 cache.

    Args:
        panel_size: rows (columns) of blocks in a panel.
        order: "row" or "column".
        enable: False leaves them in the order of the grid, also where the compiler would number
            them by panels.
    """
    kernel = in_kernel("T.use_swizzle").kernel
    size = plain(panel_size)
    if order not in ("row", "column", "col") or not isinstance(size, int) or size < 1:
        raise errors.SemanticsError(
            f"T.use_swizzle(panel_size={panel_size}, order={order!r})",
            span=span.here(),
            notes=['panel_size is a positive constant, order "row" or "column"'],
        )
    kernel.attrs["swizzle_panel"] = size if enable else 0
    if enable:
        kernel.attrs["swizzle_order"] = "row" if order == "row" else "column"


def annotate_min_blocks_per_sm(n: int) -> None:
    """Limits registers so that ``n`` blocks fit on a multiprocessor."""
    kernel = in_kernel("T.annotate_min_blocks_per_sm").kernel
    count = plain(n)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 32:
        raise errors.ResourceError(
            f"T.annotate_min_blocks_per_sm({n}): the number must be from 1 to 32", span=span.here()
        )
    kernel.attrs["min_blocks_per_sm"] = count


def annotate_l2_hit_ratio(l2_hit_ratio_map: dict[Any, float]) -> None:
    """A hint about the L2 cache; accepted and not used."""
    in_kernel("T.annotate_l2_hit_ratio")
    remark_ignored("T.annotate_l2_hit_ratio", l2_hit_ratio_map=dict(l2_hit_ratio_map))


def assume(cond: Any = None) -> None:
    """States a fact that the compiler may use from here on.

    A call is refused where a fact about its arguments does not hold, unless the statement is under
    a condition or in a loop. Facts about blocks, threads, loops and memory are not checked.

    Raises:
        SemanticsError: it is known to be false.
    """
    builder = current("T.assume")
    if not isinstance(cond, Operand):
        if not cond:
            raise errors.SemanticsError("T.assume of a false condition", span=span.here())
        return
    fact = _assume(condition(cond), span.current())
    if builder.kernel is None:
        builder.facts.append(fact)  # for every kernel of the function from here on
    else:
        emit(fact)


def import_source(source: str | None = None) -> None:
    """Places C++ source before the kernel, for ``T.call_extern``."""
    if source:
        attrs = in_kernel("T.import_source").kernel.attrs
        attrs["prelude"] = "\n".join(filter(None, [attrs.get("prelude"), source]))


def annotate_pass_configs(configs: dict[Any, Any]) -> None:
    """Sets options of the compiler for this function; options of ``tilelang.compile`` come first.

    Raises:
        ConfigError: an unknown option.
    """
    builder = current("T.annotate_pass_configs")
    remarks = builder.attrs.setdefault("ignored_arguments", [])
    remarks += [[span.current(), text] for text in pass_config.ignored(configs)]
    builder.attrs.setdefault("pass_configs", {}).update(pass_config.normalize(configs))


def annotate_compile_flags(flags: Any) -> None:
    """Further options of NVRTC for this function.

    Args:
        flags: text, or a list.
    """
    given = flags.split() if isinstance(flags, str) else list(flags)
    current("T.annotate_compile_flags").attrs.setdefault("compile_flags", []).extend(given)


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Says of tensors that they may share memory, or do not; the compiler finds out itself.

    A kernel's tensors are compared when it is called, and what shares memory is reported.
    """
    current("T.annotate_restrict_buffers")
    remark_ignored("T.annotate_restrict_buffers", buffers=buffers)


def annotate_safe_value(safe_value_map: dict[Any, Any]) -> None:
    """Sets the value that is read outside of a tensor, instead of 0.

    It holds in the innermost block, ``T.sblock`` or ``T.Kernel``, from its first statement to its
    last; a block inside may say something else. ``T.tma_copy`` and other copies that only the
    hardware carries out are refused there: they fill with zeros.

    Args:
        safe_value_map: from tensors to values.

    Raises:
        ScopeError: a buffer that is no tensor of the device.
    """
    blocks = in_kernel("T.annotate_safe_value").blocks
    values = next(b for b in reversed(blocks) if b.kind in ("T.sblock", "kernel")).safe_values
    for buffer, value in safe_value_map.items():
        if not isinstance(buffer, Buffer) or buffer.scope != "global":
            raise errors.ScopeError(
                f"T.annotate_safe_value takes tensors in global memory, but `{buffer}` is not one",
                span=span.here(),
                notes=["tiles in other memories are read only inside their bounds"],
            )
        values[buffer] = cast(as_expr(value, buffer.dtype), buffer.dtype)


def annotate_epilogue(c: Buffer, columns: int | None = None, slots: int | None = None) -> None:
    """Sets how threads work on the result of a GEMM: in slices of columns, or as a whole.

    It counts before the pass option ``tl.epilogue_subtile``. The results are the same to the bit;
    where slices are not possible, a remark says why.

    Args:
        c: a tile (M, N) that gemms accumulate in.
        columns: of a slice at most, a multiple of 8; 0 for the whole tile.
        slots: of each tile in shared memory that results go through, so many slices of it exist.

    Raises:
        ScopeError: no tile of two dimensions in registers or tensor memory.
        ShapeError: another number of columns, or less than one slot.
    """
    kernel = in_kernel("T.annotate_epilogue").kernel
    if not isinstance(c, Buffer) or c.scope not in ("local.fragment", "shared.tmem"):
        raise errors.ScopeError(
            f"T.annotate_epilogue takes a fragment or tensor memory, but `{c}` is neither",
            span=span.here(),
        )
    if len(c.shape) != 2:
        raise errors.ScopeError(
            f"T.annotate_epilogue takes a tile of two dimensions, got {c.describe()}",
            span=span.here(),
        )
    width, count = plain(columns), plain(slots)
    if width is not None and (not isinstance(width, int) or width < 0 or width % 8):
        raise errors.ShapeError(
            f"T.annotate_epilogue: columns must be a multiple of 8, got {columns}", span=span.here()
        )
    if count is not None and (not isinstance(count, int) or count < 1):
        raise errors.ShapeError(
            f"T.annotate_epilogue: slots must be a positive integer, got {slots}", span=span.here()
        )
    choices = kernel.attrs.setdefault("epilogue_choices", {})
    choices[c] = [-1 if width is None else width, -1 if count is None else count]
