"""Compares what a kernel computes with its definition, over the field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilelang.algebra.elements import PTX_TYPES, Elements, same
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
        degree: of formulas up to which the error probability is below 2^-50; 0 if not equal.
    """

    equal: bool
    message: str
    remarks: list[Remark] = field(default_factory=list)
    degree: int = 0

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
    exact: Iterable[int] = (),
    seed: int = 0,
    draws: int = 1,
    **options: Any,
) -> Verdict:
    """Compares a kernel with its mathematical definition, without a tolerance.

    The kernel runs in the emulator's algebraic mode, and the reference on arrays of elements: a
    function of torch expressions does both. Casts count as the identity. The floats of the inputs
    decide branches, addresses and maxima; their elements are drawn at random.

    Args:
        kernel: called with the inputs; returns its outputs, or writes them.
        reference: called with the inputs, each torch tensor of floats as
            :class:`~tilelang.algebra.Elements`; returns one output or several.
        inputs: torch tensors on the CPU, and whatever else both take.
        outputs: positions of the inputs that the kernel writes, where it returns nothing. The
            reference still gets them.
        exact: positions of the inputs whose floats stand for their exact values.
        seed: of the random elements.
        draws: how often to run with other random elements. Inputs that the kernel writes are
            restored in between.
        options: of launches; see :class:`tilelang.emulator.Options`.

    Raises:
        UserError: there is nothing to compare, or numbers of outputs or shapes differ.
    """
    kept, written = set(exact), [] if outputs is None else list(outputs)
    before = [_cloned(value) for value in inputs]
    remarks: list[Remark] = []
    for draw in range(draws):
        if draw:
            _restore(inputs, before)
        algebra = Algebra()
        for number, value in enumerate(inputs):
            if is_floats(value) and number not in kept:
                algebra.draw(value, seed + draw, number)
        definition = [algebra.read(value) if is_floats(value) else value for value in inputs]
        with algebra.mode(**options):
            result = kernel(*inputs)
        found = _listed(result) if result is not None else [inputs[i] for i in written]
        verdict = compare(algebra, found, lambda values: reference(*values), definition)
        remarks = remarks or verdict.remarks
        if not verdict.equal:
            return verdict
    return Verdict(True, equal_text(draws), remarks, largest_degree(draws))


#: Bits of the smaller of the two primes, rounded down: about the probability that a polynomial of
#: degree 1 vanishes at a random point modulo it. Exponentials lie in a group of half that size.
_BITS_OF_PRIME = 29
_BITS_OF_ERROR = 50


def largest_degree(draws: int) -> int:
    """Returns the degree of formulas up to which they agree by chance with less than 2^-50.

    A polynomial of degree d vanishes at a random point modulo both primes with a probability of at
    most (d / 2^29)^2, if its variables lie in the groups of exponentials.
    """
    return math.ceil(2 ** (_BITS_OF_PRIME - _BITS_OF_ERROR / (2 * draws))) - 1


def error_bound(draws: int = 1) -> str:
    """Returns how likely it is that formulas which differ have equal elements, as text."""
    return (
        f"error probability below 2^-{_BITS_OF_ERROR} for formulas of degree "
        f"{largest_degree(draws)} or less"
    )


def equal_text(draws: int) -> str:
    """Returns the message of a verdict that finds no difference."""
    points = "a random point" if draws == 1 else f"{draws} random points"
    return f"equal over the field at {points} for these inputs: {error_bound(draws)}"


def is_floats(value: Any) -> bool:
    """Returns whether a value is a torch tensor of floats that have elements in memory."""
    return (
        hasattr(value, "is_floating_point")
        and value.is_floating_point()
        and str(value.dtype).removeprefix("torch.") in PTX_TYPES
    )


def _cloned(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value


def _restore(inputs: Iterable[Any], before: Iterable[Any]) -> None:
    for value, old in zip(inputs, before, strict=True):
        if hasattr(value, "copy_"):
            value.copy_(old)


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
        got = algebra.read(one) if is_floats(one) else Elements.of(one)
        expected = Elements.of(other)
        differs = ~same(got, expected)
        if differs.any():
            context = (reference, inputs, number, got)
            return Verdict(False, _difference(differs, context), algebra.remarks)
    return Verdict(True, equal_text(1), algebra.remarks, largest_degree(1))


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
