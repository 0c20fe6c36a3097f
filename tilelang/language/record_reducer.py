"""Reducers of records: tiles in shared memory, one for each field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _ffi, errors
from ..ir import span
from ..ir.buffer import Buffer, Load, load
from ..ir.dtype import VOID
from ..ir.expr import Expr, call, cast
from ..ir.stmt import emit
from .allocate import alloc_contributions
from .builder import in_kernel
from .copy import fill
from .pointer import address_of
from .record import Record
from .sync import sync_threads

if TYPE_CHECKING:
    from .grid_reducer import GridStage

_evaluate = _ffi.get("ir.Evaluate")


class Element:
    """An element of a reducer of records: what ``T.reducer_update`` adds to."""

    def __init__(self, reducer: RecordReducer, place: list[Any]) -> None:
        self.reducer = reducer
        self.place = place

    def contribute(self, values: tuple[Any, ...]) -> None:
        """Adds a contribution."""
        self.reducer.contribute(self.place, values)


class Result:
    """A result of the records of a reducer, by index: ``stats.mean[i]``."""

    def __init__(self, reducer: RecordReducer, which: int) -> None:
        self._reducer = reducer
        self._which = which

    def __getitem__(self, index: Any) -> Expr:
        place = index if isinstance(index, tuple) else (index,)
        return self._reducer.result_at(list(place))[self._which]


class RecordReducer:
    """A tile of records that iterations contribute to; see ``T.alloc_reducer``.

    After ``T.finalize_reducer`` the results of the record are its attributes: ``best.index[i]``.

    Attributes:
        tiles: one for each field.
        record: what its elements are.
    """

    def __init__(self, shape: Any, record: Record, notes: dict[str, Any]) -> None:
        notes = {**notes, "reducer": record.name}
        self.tiles: list[Buffer] = [
            alloc_contributions(shape, kind, notes) for kind in record.fields.values()
        ]
        self.record = record
        self.done = False
        self.contributions = 0
        self.stage: GridStage | None = None

    shape = property(lambda self: self.tiles[0].shape)
    name = property(lambda self: self.tiles[0].name)

    def __getitem__(self, index: Any) -> Element:
        element = self.tiles[0][index]  # which checks the index
        if not isinstance(element, Load):
            raise errors.ShapeError(
                f"`{element}` is not an element of a reducer of records", span=span.here()
            )
        return Element(self, list(element.indices))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise errors.SemanticsError(
            f"elements of {self}, a reducer of records, cannot be assigned",
            span=span.here(),
            notes=[f"T.reducer_update(r[i], {', '.join(self.record.arguments)}) contributes to it"],
        )

    def __getattr__(self, name: str) -> Result:
        names = list(self.__dict__["record"].results) if "record" in self.__dict__ else []
        if name not in names:
            raise AttributeError(f"{name}: the results are {', '.join(names)}")
        return Result(self, names.index(name))

    def contribute(self, place: list[Any], values: tuple[Any, ...]) -> None:
        """Adds a contribution: the arguments of the record."""
        kinds = self.record.arguments
        if len(values) != len(kinds):
            raise errors.SemanticsError(
                f"a contribution to {self} takes {', '.join(kinds)}, got {len(values)} values",
                span=span.here(),
            )
        self._emit(
            place,
            [cast(v, kind) for v, kind in zip(values, kinds.values(), strict=True)],
            self.record.insertion,
        )

    def combine(self, place: list[Any], values: list[Any]) -> None:
        """Contributes the part of others to an element."""
        self._emit(place, values, self.record.combination)

    def _emit(self, place: list[Any], values: list[Any], update: Any) -> None:
        builder = in_kernel("T.reducer_update")
        if not builder.inside("T.Parallel"):
            raise errors.ScopeError(
                f"a contribution to {self}, a reducer of records, must be inside T.Parallel",
                span=span.here(),
                notes=["it cannot be an atomic operation; contribute in a loop over T.Parallel"],
            )
        self.contributions += 1
        addresses = [address_of(load(tile, place)) for tile in self.tiles]
        attrs = {"update": update, "record": self.record.combination}
        emit(_evaluate(call(VOID, "contribute", [*addresses, *values], attrs), span.current()))

    def result_names(self) -> list[str]:
        return list(self.record.results)

    def result_at(self, place: list[Any]) -> list[Expr]:
        """The results of an element."""
        return self.record.results_of([load(tile, place) for tile in self.tiles])

    def results_of_nothing(self) -> list[Expr]:
        """The results of an element without contributions."""
        return self.record.results_of(self.record.identity)

    def reopen(self) -> None:
        """Begins anew: no contribution was made."""
        sync_threads()
        self.done = False
        for tile, value in zip(self.tiles, self.record.identity, strict=True):
            fill(tile, value)

    def atomics_obstacle(self) -> str:
        return "records are more than one value"

    def __str__(self) -> str:
        return f"{self.name} of {self.record!r}"
