"""Records: several values that a reduction carries together, as an index beside its maximum.

A record has named fields, an identity, and says how two of them combine; everything that reduces
(fragments, tensors of any extent, reducers of a block or of a grid) takes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import DType, dtype_of
from ..ir.expr import Expr, as_expr, cast, var

_update = _ffi.get("ir.RecordUpdate")


class Fields:
    """The fields of one record, by name: ``r.value``, ``r.index``."""

    def __init__(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self.__dict__.update(zip(names, values, strict=True))


class Record:
    """The values that a reduction carries; see :func:`record`.

    Attributes:
        name: in remarks and messages.
        fields: the type of each field.
        arguments: the type of what a contribution gives, by name.
        results: what is read from a record, by name.
        combination, insertion: how records, and contributions, are taken in.
    """

    def __init__(
        self,
        fields: Mapping[str, Any],
        identity: Sequence[Any],
        combine: Callable[[Any, Any], Sequence[Any]],
        insert: Callable[..., Sequence[Any]] | None = None,
        arguments: Mapping[str, Any] | None = None,
        results: Mapping[str, Callable[[Any], Any]] | None = None,
        name: str = "record",
    ) -> None:
        self.name = name
        self.fields: dict[str, DType] = {key: dtype_of(kind) for key, kind in fields.items()}
        if not self.fields or len(identity) != len(self.fields):
            raise errors.SemanticsError(
                f"{name}: {len(self.fields)} fields and {len(identity)} values of the identity",
                span=span.here(),
            )
        given = self.fields if arguments is None or insert is None else arguments
        self.arguments: dict[str, DType] = {key: dtype_of(kind) for key, kind in given.items()}
        self.results = dict(results or {key: _reader(key) for key in self.fields})
        self.identity = [
            cast(value, kind) for value, kind in zip(identity, self.fields.values(), strict=True)
        ]
        others = {f"other_{key}": kind for key, kind in self.fields.items()}
        self.combination = self._updated(others, lambda r, *o: combine(r, self.of(o)))
        self.insertion = (
            self.combination if insert is None else self._updated(self.arguments, insert)
        )

    def of(self, values: Sequence[Any]) -> Fields:
        """The record of these fields."""
        return Fields(list(self.fields), values)

    def results_of(self, values: Sequence[Any]) -> list[Expr]:
        """Returns the results of the record of these fields, in the order of ``results``."""
        fields = self.of(values)
        return [as_expr(read(fields)) for read in self.results.values()]

    def _updated(self, incoming: Mapping[str, DType], update: Callable[..., Any]) -> Any:
        left = [var(key, kind) for key, kind in self.fields.items()]
        right = [var(key, kind) for key, kind in incoming.items()]
        combined = self._cast(update(self.of(left), *right))
        return _update(self.name, left, right, combined, self.identity)

    def _cast(self, values: Any) -> list[Expr]:
        if not isinstance(values, (tuple, list)) or len(values) != len(self.fields):
            raise errors.SemanticsError(
                f"{self.name}: a combination gives a tuple of its {len(self.fields)} fields "
                f"({', '.join(self.fields)}), not {values!r}",
                span=span.here(),
            )
        return [cast(each, kind) for each, kind in zip(values, self.fields.values(), strict=True)]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}: {kind}' for key, kind in self.fields.items())})"


def _reader(key: str) -> Callable[[Any], Any]:
    return lambda fields: getattr(fields, key)


def record(
    fields: Mapping[str, Any],
    identity: Sequence[Any],
    combine: Callable[[Any, Any], Sequence[Any]],
    insert: Callable[..., Sequence[Any]] | None = None,
    arguments: Mapping[str, Any] | None = None,
    results: Mapping[str, Callable[[Any], Any]] | None = None,
    name: str = "record",
) -> Record:
    """Several values that a reduction carries together.

    Args:
        fields: name and type of each.
        identity: constants; combined with any record they leave it as it is.
        combine: of two records, ``a.name`` their fields, a tuple of the fields of both together. It
            is called once, with symbols: conditions are ``T.if_then_else``. The order of records
            must not matter.
        insert: of a record and the ``arguments`` of a contribution, the fields with it; without it
            a contribution gives all fields.
        arguments: name and type of what a contribution gives; with ``insert``.
        results: name and function of a record, of what is read from it; its fields by default.
        name: in messages.

    Raises:
        SemanticsError: identity or combination have another number of fields.
        DTypeError: a type is none of the language.
    """
    return Record(fields, identity, combine, insert, arguments, results, name)
