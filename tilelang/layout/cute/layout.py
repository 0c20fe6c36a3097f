"""``shape:stride`` layouts read as CuTe reads them, the first axis fastest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from ...errors import LayoutError
from ...ir.expr import BinaryOp, binary
from ..layout import Layout as MemoryLayout
from . import int_tuple as ints
from .int_tuple import E, IntTupleLike, ScaledBasis, add, is_int, mul, product, text_of, to_python
from .recovery import recovered


class Layout:
    """A map from coordinates, or their numbers, to integers or to coordinates.

    The value at a coordinate is the sum of the products of its leaves with the strides. A number
    stands for the coordinate that it has when the first axis is the fastest one.

    Attributes:
        shape: extents, nested tuples.
        stride: of the same form.

    Raises:
        LayoutError: the two differ in form, or an extent is below 1.
    """

    __slots__ = ("shape", "stride")

    def __init__(self, shape: IntTupleLike, stride: IntTupleLike) -> None:
        self.shape, self.stride = to_python(shape), to_python(stride)
        if not ints.congruent(self.shape, self.stride):
            raise LayoutError(
                f"the shape {text_of(self.shape)} and the stride {text_of(self.stride)} of a "
                "layout differ in form"
            )
        if any(isinstance(e, ScaledBasis) or (is_int(e) and e < 1) for e in self.extents):
            raise LayoutError(f"the extents of a layout are at least 1: {text_of(self.shape)}")

    @property
    def extents(self) -> tuple[Any, ...]:
        """The leaves of the shape."""
        return ints.leaves(self.shape)

    @property
    def modes(self) -> list[Layout]:
        """The layouts of the axes; of a scalar shape, itself."""
        if not isinstance(self.shape, tuple):
            return [self]
        return [Layout(*mode) for mode in zip(self.shape, self.stride, strict=True)]

    def __getitem__(self, axis: int) -> Layout:
        return self.modes[axis]

    def __call__(self, coord: IntTupleLike) -> Any:
        return ints.evaluate(to_python(coord), self.shape, self.stride)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return ints.identical((self.shape, self.stride), (other.shape, other.stride))

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{text_of(self.shape)}:{text_of(self.stride)}"

    __repr__ = __str__

    def with_shape(self, shape: IntTupleLike) -> Layout:
        """Returns the same map of numbers, for coordinates of another shape."""
        return composition(self, make_layout(shape))

    @staticmethod
    def parse(text: str) -> Layout:
        """Reads what ``str`` gives: ``(4,(2,8)):(16,(1,2))``.

        Raises:
            LayoutError: the text is no layout.
        """
        shape, colon, stride = text.partition(":")
        if not colon:
            raise LayoutError(f"{text!r} is no layout: there is no colon")
        return Layout(ints.IntTuple.parse(shape), ints.IntTuple.parse(stride))

    @staticmethod
    def from_tilelang(layout: MemoryLayout) -> Layout | None:
        """Returns the layout of the linear index of a :class:`tilelang.layout.Layout`.

        None if that is no sum of multiples of digits of the coordinates, or does not begin at 0.
        """
        found = recovered(layout.input_shape, [(value,) for value in layout.values()])
        if found is None or found[0] != (0,):
            return None
        shape, stride = found[1], found[2]
        return Layout(shape, _mapped(stride, lambda steps: steps[0]))

    @staticmethod
    def from_tilelang_hierarchical(layout: MemoryLayout) -> Layout | None:
        """Returns the layout from coordinates to the several indices of a layout's function.

        None if one digit of a coordinate changes two indices, or there is no such layout.
        """
        outputs = layout.output_shape
        rows = [_row_major(value, outputs) for value in layout.values()]
        found = recovered(layout.input_shape, rows)
        if found is None or any(found[0]):
            return None
        shape, stride = found[1], found[2]
        if any(sum(map(bool, steps)) > 1 for steps in _vectors(stride)):
            return None
        return Layout(shape, _mapped(stride, _basis))

    def to_tilelang(self) -> MemoryLayout:
        """Returns it as a :class:`tilelang.layout.Layout` of the extents of its axes."""
        shape = [product(mode.shape) for mode in self.modes]
        scalar = not isinstance(self.shape, tuple)
        return MemoryLayout(shape, lambda *coord: ints.leaves(self(coord[0] if scalar else coord)))


def _row_major(value: int, shape: Sequence[int]) -> tuple[int, ...]:
    found = []
    for extent in reversed(shape[1:]):
        value, rest = divmod(value, extent)
        found.append(rest)
    return (value, *reversed(found))


def _vectors(stride: Any) -> list[tuple[int, ...]]:
    """The steps of all digits: one for each index that they lead to."""
    if isinstance(stride, list):
        return [steps for each in stride for steps in _vectors(each)]
    return [stride]


def _mapped(stride: Any, function: Any) -> Any:
    if isinstance(stride, list):
        return tuple([_mapped(each, function) for each in stride])
    return function(stride)


def _basis(steps: tuple[int, ...]) -> Any:
    for axis, step in enumerate(steps):
        if step:
            return ScaledBasis(step, axis)
    return 0


def make_layout(shape: IntTupleLike, stride: IntTupleLike = None) -> Layout:
    """Returns a layout.

    Args:
        shape: extents; or a list of layouts, which become the axes of one.
        stride: of the same form; by default the first axis is contiguous, and each one begins
            where the axis before it ends.
    """
    if isinstance(shape, (list, tuple)) and any(isinstance(each, Layout) for each in shape):
        return Layout([each.shape for each in shape], [each.stride for each in shape])
    return make_column_major_layout(shape) if stride is None else Layout(shape, stride)


def make_column_major_layout(shape: IntTupleLike) -> Layout:
    """Returns the layout without gaps whose first leaf is contiguous."""
    shape = to_python(shape)
    return Layout(shape, _compact(shape, 1)[0])


def make_row_major_layout(shape: IntTupleLike) -> Layout:
    """Returns the layout without gaps whose last leaf is contiguous."""
    shape = to_python(shape)
    return Layout(shape, _reversed(_compact(_reversed(shape), 1)[0]))


def make_identity_layout(shape: IntTupleLike) -> Layout:
    """Returns the layout that maps each coordinate to itself."""
    shape = to_python(shape)
    return Layout(shape, _axes(shape, ()) if isinstance(shape, tuple) else 1)


def _compact(shape: Any, start: Any) -> tuple[Any, Any]:
    """Strides without gaps from ``start`` on, and the stride of what follows."""
    if not isinstance(shape, tuple):
        return start, mul(start, shape)
    found = []
    for each in shape:
        stride, start = _compact(each, start)
        found.append(stride)
    return tuple(found), start


def _reversed(value: Any) -> Any:
    return tuple(map(_reversed, reversed(value))) if isinstance(value, tuple) else value


def _axes(shape: Any, path: tuple[int, ...]) -> Any:
    if not isinstance(shape, tuple):
        return E(path)
    return tuple([_axes(each, (*path, axis)) for axis, each in enumerate(shape)])


def rank(layout: Layout) -> int:
    """Returns the number of axes."""
    return len(layout.modes)


def flatten(layout: Layout) -> Layout:
    """Returns the layout with its leaves as axes."""
    if not isinstance(layout.shape, tuple):
        return layout
    return Layout(ints.leaves(layout.shape), ints.leaves(layout.stride))


def coalesce(layout: Layout) -> Layout:
    """Returns the shortest layout with the same value for each number, without nesting."""
    found: list[tuple[Any, Any]] = []
    for extent, stride in zip(layout.extents, ints.leaves(layout.stride), strict=True):
        if is_int(extent) and extent == 1:
            continue
        if found and ints.equal(mul(found[-1][0], found[-1][1]), stride):
            found[-1] = mul(found[-1][0], extent), found[-1][1]
        else:
            found.append((extent, stride))
    return of_modes(found)


def of_modes(modes: Sequence[tuple[Any, Any]]) -> Layout:
    """Returns the layout of these leaves: without a level above a single one, 1:0 for none."""
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(*zip(*modes, strict=True))


def composition(lhs: Layout, rhs: Layout) -> Layout:
    """Returns ``lhs(rhs(c))`` for the coordinates of ``rhs``.

    A value of ``rhs`` is the number of a coordinate of ``lhs``. A basis as a stride of ``rhs``
    leads to one axis of ``lhs``.

    Raises:
        LayoutError: the result is no layout: the extents do not divide each other.
    """
    if isinstance(rhs.shape, tuple):
        return make_layout([composition(lhs, mode) for mode in rhs.modes])
    if isinstance(rhs.stride, ScaledBasis):
        inner = Layout(rhs.shape, rhs.stride.value)
        return composition(reduce(lambda each, axis: each[axis], rhs.stride.mode, lhs), inner)
    if ints.equal(rhs.stride, 0):
        return rhs
    return of_modes(_composed(lhs, rhs))


def _composed(lhs: Layout, rhs: Layout) -> list[tuple[Any, Any]]:
    """The leaves of ``lhs`` that ``rhs``, a single leaf, steps through."""
    flat = coalesce(lhs)
    *inner, (_, last) = zip(flat.extents, ints.leaves(flat.stride), strict=True)
    count, step = rhs.shape, rhs.stride
    found: list[tuple[Any, Any]] = []
    for extent, stride in inner:
        if is_int(count) and count == 1:
            break
        if not all(map(is_int, (extent, count, step))):
            _refuse(lhs, rhs, "the extents are not known")
        if (count - 1) * step < extent:
            return [*found, (count, mul(stride, step))]
        if step >= extent:
            step = _divided(step, extent, lhs, rhs)
            continue
        taken = _divided(extent, step, lhs, rhs)
        found.append((taken, mul(stride, step)))
        count, step = _divided(count, taken, lhs, rhs), 1
    if not (is_int(count) and count == 1):
        found.append((count, mul(last, step)))
    return found


def _divided(a: int, b: int, lhs: Layout, rhs: Layout) -> int:
    if a % b:
        _refuse(lhs, rhs, f"{b} does not divide {a}")
    return a // b


def _refuse(lhs: Layout, rhs: Layout, reason: str) -> None:
    raise LayoutError(f"the composition of {lhs} with {rhs} is no layout: {reason}")


def cosize(layout: Layout) -> Any:
    """Returns the number of values from 0 to the largest: an expression for unknown strides."""
    return product(coshape(layout))


def coshape(layout: Layout) -> Any:
    """Returns the extents of the values: of each axis, if they are coordinates."""
    strides = zip(layout.extents, ints.leaves(layout.stride), strict=True)
    furthest = [ints.evaluate(extent - 1, extent, _size_of(stride)) for extent, stride in strides]
    return _one_more(reduce(add, furthest))


def _size_of(stride: Any) -> Any:
    if isinstance(stride, ScaledBasis):
        return ScaledBasis(_size_of(stride.value), stride.mode)
    # The analyzer computes a maximum of constants, but leaves the function abs alone.
    return abs(stride) if is_int(stride) else binary(BinaryOp.MAX, stride, -stride)


def _one_more(value: Any) -> Any:
    return tuple(map(_one_more, value)) if isinstance(value, tuple) else value + 1


__all__ = [
    "Layout",
    "coalesce",
    "composition",
    "coshape",
    "cosize",
    "flatten",
    "make_column_major_layout",
    "make_identity_layout",
    "make_layout",
    "make_row_major_layout",
    "of_modes",
    "rank",
]
