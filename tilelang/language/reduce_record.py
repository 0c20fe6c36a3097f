"""Reductions to records, of fragments and of memory of any extent: ``T.reduce_argmax``, ..."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import prod
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Region, load, plain, shape_text
from ..ir.expr import cast
from .builder import in_block
from .function import macro
from .loops import Parallel, serial
from .record import Record
from .record_turns import Span, Target, begins, is_large, part_of, target_of, turns_over
from .records import argmax, argmin, logsumexp, topk, welford
from .reduce import Source, source_of
from .reducer import alloc_reducer, finalize_reducer
from .region import as_part, as_region, significant
from .view import Part
from .view_copy import VIEWS
from .ws_schedule import named


@named
def reduce_argmax(
    buffer: Any, out: Any, dim: int = -1, values: Any = None, chunk: int | None = None
) -> None:
    """The index of the greatest element along ``dim``, from 0 in the region ``buffer``.

    Of equal elements the lowest index wins, and NaN wins over numbers, as in torch.

    Args:
        buffer: a fragment, a shared tile, a tensor or a region of one, of any extent; the shape of
            the results is constant.
        out: of the shape of ``buffer`` without ``dim``, or with extent 1 there; integers.
        dim: the dimension; negative ones count from the end.
        values: of the same shape, gets the elements themselves; None: they are not wanted.
        chunk: the elements along ``dim`` that one turn takes at most; not of a fragment.

    Raises:
        ShapeError: ``out`` or ``values`` has another shape, or there is no such dimension.
        DTypeError: ``out`` does not hold integers.
    """
    _extreme("T.reduce_argmax", argmax, buffer, out, dim, values, chunk)


@named
def reduce_argmin(
    buffer: Any, out: Any, dim: int = -1, values: Any = None, chunk: int | None = None
) -> None:
    """The index of the least element along ``dim``; see :func:`reduce_argmax`."""
    _extreme("T.reduce_argmin", argmin, buffer, out, dim, values, chunk)


def _extreme(
    name: str, record: Any, buffer: Any, out: Any, dim: Any, values: Any, chunk: int | None
) -> None:
    src = source_of(name, buffer, dim)
    index = as_region(f"out of {name}", out)
    if not index.dtype.is_integer:
        raise errors.DTypeError(
            f"{name} into {index.buffer.describe()}: indices are integers", span=span.here()
        )
    wanted = {"index": index}
    if values is not None:
        wanted["value"] = as_region(f"values of {name}", values)
    _Reduction(name, record(src.region.dtype), src, chunk).run(wanted)


@named
def reduce_welford(
    buffer: Any,
    mean: Any,
    variance: Any,
    dim: Any = -1,
    correction: float = 0,
    chunk: int | None = None,
) -> None:
    """Mean and variance along ``dim`` in one pass; see :func:`welford`.

    Args:
        buffer: a fragment, a shared tile, a tensor or a region of one, of any extent; floats.
        mean, variance: of the shape of ``buffer`` without ``dim``, or with extent 1 there.
        dim: the dimension, or several; negative ones count from the end.
        correction: the variance is divided by the number of elements less this.
        chunk: the elements along ``dim`` that one turn takes at most; not of a fragment.

    Raises:
        ShapeError: a result has another shape, or there is no such dimension.
        DTypeError: ``buffer`` holds no floats.
    """
    name = "T.reduce_welford"
    src = source_of(name, buffer, dim)
    wanted = {
        "mean": as_region(f"mean of {name}", mean),
        "variance": as_region(f"variance of {name}", variance),
    }
    _Reduction(name, welford(src.region.dtype, correction), src, chunk).run(wanted)


@named
def reduce_logsumexp(buffer: Any, out: Any, dim: Any = -1, chunk: int | None = None) -> None:
    """log(sum(exp(x))) along ``dim`` in one pass, relative to the greatest element.

    Args:
        buffer, dim, chunk: as of :func:`reduce_welford`.
        out: of the shape of ``buffer`` without ``dim``, or with extent 1 there.

    Raises:
        ShapeError: ``out`` has another shape, or there is no such dimension.
        DTypeError: ``buffer`` holds no floats.
    """
    name = "T.reduce_logsumexp"
    src = source_of(name, buffer, dim)
    wanted = {"value": as_region(f"out of {name}", out)}
    _Reduction(name, logsumexp(src.region.dtype), src, chunk).run(wanted)


@named
def reduce_topk(
    buffer: Any, values: Any, indices: Any, dim: int = -1, chunk: int | None = None
) -> None:
    """The greatest elements along ``dim``, in order, and their indices; see :func:`topk`.

    Args:
        buffer, chunk: as of :func:`reduce_argmax`.
        values, indices: of the shape of ``buffer`` with extent k, from 1 to 16, at ``dim``.
        dim: the dimension; negative ones count from the end.

    Raises:
        ShapeError: the shapes differ otherwise, or there is no such dimension.
        SemanticsError: k is larger than 16.
    """
    name = "T.reduce_topk"
    src = source_of(name, buffer, dim)
    given = {
        what: as_part(each) if isinstance(each, VIEWS) else as_region(f"{what} of {name}", each)
        for what, each in (("values", values), ("indices", indices))
    }
    axis = src.dims[0]
    for tile in given.values():
        if len(tile.shape) != len(src.shape):
            raise errors.ShapeError(
                f"{name} of {shape_text(src.shape)} into {shape_text(tile.shape)}; results have "
                f"the same rank, with extent k at dimension {axis}",
                span=span.here(),
            )
    k: Any = given["values"].shape[axis]
    wanted = {
        f"{key}{place}": _slice(f"{what} of {name}", given[what], axis, place)
        for key, what in (("value", "values"), ("index", "indices"))
        for place in range(k if isinstance(k, int) else 0)
    }
    _Reduction(name, topk(k, src.region.dtype), src, chunk).run(wanted)


def _slice(what: str, tile: Part | Region, axis: int, place: int) -> Region:
    """The elements of a tile at ``place`` along ``axis``."""
    index = tuple(
        low + place if d == axis else slice(low, low + extent)
        for d, (low, extent) in enumerate(zip(tile.mins, tile.shape, strict=True))
    )
    holder = tile.view if isinstance(tile, Part) else tile.buffer
    return as_region(what, holder[index])


@named
def reduce_record(
    buffer: Any, outs: Any, record: Record, dim: Any = -1, chunk: int | None = None
) -> None:
    """Reduces to records along ``dim``: see :func:`record`.

    Args:
        buffer, chunk: as of :func:`reduce_argmax`.
        outs: a tile, or several, one for each result of ``record``, each of the shape of ``buffer``
            without ``dim``, or with extent 1 there.
        record: of one argument, the element, or of two, the element and its index along ``dim``.
        dim: the dimension, or several of a record of one argument.

    Raises:
        ShapeError: a result has another shape, or there is no such dimension.
        SemanticsError: the record takes other arguments, or has another number of results.
    """
    name = "T.reduce_record"
    src = source_of(name, buffer, dim)
    given = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    if len(given) != len(record.results):
        raise errors.SemanticsError(
            f"{name}: {record!r} has the results {', '.join(record.results)}, and there are "
            f"{len(given)} outs",
            span=span.here(),
        )
    wanted = {
        key: as_region(f"{key} of {name}", each)
        for key, each in zip(record.results, given, strict=True)
    }
    _Reduction(name, record, src, chunk).run(wanted)


class _Reduction:
    """A reduction of the region ``src`` along ``axes``."""

    def __init__(self, name: str, record: Record, source: Source, chunk: int | None) -> None:
        in_block(name)
        self.name, self.record, self.chunk = name, record, chunk
        self.source, self.src, self.axes = source, source.region, source.axes
        takes = len(record.arguments)
        if takes > 2 or (takes == 2 and len(source.dims) > 1):
            raise errors.SemanticsError(
                f"{name} along dimensions {tuple(source.dims)}: {record!r} takes "
                f"{', '.join(record.arguments)}; a reduction gives an element, and along one "
                "dimension its index",
                span=span.here(),
            )
        shape = self.src.shape
        self.kept = [d for d, n in enumerate(shape) if d not in self.axes and significant([n])]
        self.shape = [plain(shape[d]) for d in self.kept]

    def run(self, wanted: dict[str, Region]) -> None:
        """Reduces, into tiles by the names of results."""
        for key, region in wanted.items():
            if significant(region.shape) != significant(self.shape):
                shape, dims = self.source.shape, tuple(self.source.dims)
                raise errors.ShapeError(
                    f"{self.name} of {shape_text(shape)} along {dims} gives "
                    f"{shape_text(self.shape)}, but {key} goes to {region.buffer.name} of shape "
                    f"{shape_text(region.shape)}",
                    span=span.here(),
                )
        targets = {key: target_of(region) for key, region in wanted.items()}
        record_bytes = sum(-(-kind.bits // 8) for kind in self.record.fields.values())
        if not is_large(self.shape, record_bytes):
            total = alloc_reducer(self.shape or [1], self.record, chunk=self.chunk)
            _reduce(self, total, targets)
            return
        for spans in turns_over(self.shape, record_bytes):
            total = alloc_reducer([each.held for each in spans], self.record, chunk=self.chunk)
            _reduce_in_turns(self, total, targets, spans)

    def of_turn(
        self, spans: Sequence[Span], turn: Any, wanted: dict[str, Target]
    ) -> tuple[_Reduction, dict[str, Target]]:
        """Returns the reduction to the results of a turn, and where they go."""
        first = begins(spans, turn)
        part = copy(self)
        part.shape = [each.size for each in spans]
        part.src = part_of(self.src, self.kept, first, part.shape)
        return part, {key: target.moved(first) for key, target in wanted.items()}

    def arguments(self, place: tuple[Any, ...]) -> list[Any]:
        """Returns the contribution of the element at ``place``."""
        at = [low + here for low, here in zip(self.src.mins, place, strict=True)]
        given = [load(self.src.buffer, at), place[self.axes[0]]][: len(self.record.arguments)]
        kinds = self.record.arguments.values()
        return [cast(value, kind) for value, kind in zip(given, kinds, strict=True)]


@macro
def _reduce(reduction: Any, total: Any, wanted: Any) -> None:
    _contribute(reduction, total)
    finalize_reducer(total)
    _conclude(reduction, total, wanted)


@macro
def _reduce_in_turns(reduction: Any, total: Any, wanted: Any, spans: Any) -> None:
    for turn in serial(prod(each.turns for each in spans)):
        total.reopen()
        part, targets = reduction.of_turn(spans, turn, wanted)
        _reduce(part, total, targets)


@macro
def _contribute(reduction: Any, total: Any) -> None:
    for place in Parallel(*reduction.src.shape):
        here = place if isinstance(place, tuple) else (place,)
        kept = [here[d] for d in reduction.kept] or [0]
        total.contribute(kept, tuple(reduction.arguments(here)))


@macro
def _conclude(reduction: Any, total: Any, wanted: Any) -> None:
    for place in Parallel(*(reduction.shape or [1])):
        here = place if isinstance(place, tuple) else (place,)
        _store_wanted(reduction.record, wanted, here, total.result_at(list(here)))


def _store_wanted(
    record: Record, wanted: dict[str, Target], here: tuple[Any, ...], values: list[Any]
) -> None:
    found = dict(zip(record.results, values, strict=True))
    for key, target in wanted.items():
        target.buffer[target.place(here)] = cast(found[key], target.buffer.dtype)
