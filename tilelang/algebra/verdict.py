"""Compares what a kernel computes with its definition, over the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilelang.algebra.elements import Elements, same
from tilelang.algebra.missing import lacking
from tilelang.algebra.mode import Algebra, Remark
from tilelang.errors import UserError


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison over the field.

    Attributes:
        equal: whether all elements of all outputs are the same.
        message: what differs, or that nothing does.
        remarks: what instructions did to floats.
    """

    equal: bool
    message: str
    remarks: list[Remark] = field(default_factory=list)

    @property
    def broken(self) -> list[Remark]:
        """Returns the instructions that lost elements."""
        return [remark for remark in self.remarks if remark.broken]

    @property
    def casts(self) -> list[Remark]:
        """Returns the casts that dropped bits."""
        return [remark for remark in self.remarks if not remark.broken]

    def __str__(self) -> str:
        lines = [self.message]
        if self.broken:
            lines.append("instructions that broke the algebra:")
            lines += [f"  {remark}" for remark in self.broken]
        return "\n".join(lines)


def check(
    kernel: Callable[..., Any],
    reference: Callable[..., Any],
    *inputs: Any,
    outputs: Iterable[int] | None = None,
    **options: Any,
) -> Verdict:
    """Compares a kernel with its mathematical definition, without a tolerance.

    The kernel runs in the emulator's algebraic mode, and the reference on arrays of elements: a
    function of torch expressions does both. Casts count as the identity.

    Args:
        kernel: called with the inputs; returns its outputs, or writes them.
        reference: called with the inputs, each torch tensor of floats as
            :class:`~tilelang.algebra.Elements`; returns one output or several.
        inputs: torch tensors on the CPU, and whatever else both take.
        outputs: positions of the inputs that the kernel writes, where it returns nothing. The
            reference still gets them.
        options: of launches; see :class:`tilelang.emulator.Options`.

    Raises:
        UserError: there is nothing to compare, or numbers of outputs or shapes differ.
    """
    algebra = Algebra()
    definition = [embedded(value) for value in inputs]
    with algebra.mode(**options):
        result = kernel(*inputs)
    written = [] if outputs is None else [inputs[i] for i in outputs]
    found = _listed(result) if result is not None else written
    return compare(algebra, found, lambda values: reference(*values), definition)


def compare(
    algebra: Algebra, found: list[Any], reference: Callable[[list[Any]], Any], inputs: list[Any]
) -> Verdict:
    """Compares outputs of launches with a reference.

    Args:
        algebra: whose mode the launches ran in.
        found: the outputs.
        reference: called with the list of inputs.
        inputs: as they were before the launches; floats as elements.

    Raises:
        UserError: there is nothing to compare, or numbers of outputs or shapes differ.
    """
    wanted = _listed(reference(inputs))
    if not found or len(found) != len(wanted):
        raise UserError(
            f"the kernel has {len(found)} outputs and the reference {len(wanted)}; outputs= names "
            "the inputs that a kernel writes"
        )
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        got, expected = algebra.read(one), Elements.of(other)
        differs = ~same(got, expected)
        if differs.any():
            context = (reference, inputs, number, got)
            return Verdict(False, _difference(differs, context), algebra.remarks)
    return Verdict(
        True,
        "equal over the field for these inputs: two residues of 30 bits agree in each element",
        algebra.remarks,
    )


def embedded(value: Any) -> Any:
    """Returns an argument as references take it: elements for a torch tensor of floats."""
    floats = hasattr(value, "is_floating_point") and value.is_floating_point()
    return Elements.of(value) if floats else value


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _difference(differs: np.ndarray, context: Any) -> str:
    reference, inputs, number, got = context
    first = tuple(int(i) for i in np.argwhere(differs)[0])
    where = f"element {first if len(first) != 1 else first[0]}"
    if number:
        where = f"output {number}, {where}"
    text = f"{where} differs, as do {int(differs.sum()) - 1} others of {differs.size}"

    def element(arguments: list[Any]) -> Elements:
        return Elements.of(_listed(reference(arguments))[number])[first]

    lack = lacking(element, inputs, got[first])
    return f"{text}: {lack}" if lack else text
