"""Decides whether the outputs of a kernel are right: the only place that chooses a tolerance.

A result is compared with its reference in float64 (:mod:`.exact`). Each output has its own
tolerance, and every part of it is relative to the size of the expected values:

* an element may differ by one unit in the last place of its dtype,
* and by the roundings inside of a kernel (:mod:`.precision`), relative to the root mean square of
  the expected values in its row and column, as the terms of a sum are larger than a sum near zero,
* and by what the reference itself is wrong by, or moves by when its inputs are rounded once more,
* and, where the reference rounds to 8 bits on its way, by a rounding to the other neighbour.

Errors must look like roundings, too: the relative error of the whole output has a closer bound, and
roundings do not add up in the direction in which a wrong factor moves the output: the direction of
the output itself, and that of the change caused by a larger input. So the scale of the scores of
attention, which no sum of outputs shows, is seen as a factor of its queries. Integers are exact. An
element is not judged if the reference is too sensitive there: a rounding of an input moves it by a
tenth.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from .exact import STRETCH, Elsewhere, Expected, Reference, expect
from .precision import Precision

#: The largest rounding error among many elements, in root mean squares.
_PEAK = 8.0
#: Units of the precision of a kernel that an element may differ by.
_ELEMENT = 4.0
#: The relative error of the whole output, in units of the bias that all elements may share.
_WHOLE = 1.5
#: The distance to the other neighbour of a number in the middle of two, in errors of its rounding.
_NEIGHBOUR = 2.1
#: The reference is too sensitive where a rounding moves the result by this share.
_SENSITIVE = 0.1
#: The share of values of 8 bits that may be rounded to another neighbour.
_REQUANTIZED = 0.15
#: Distinct values are counted among so many elements.
_SAMPLE = 1 << 18
#: So few distinct values may all be rounded to the same side.
_FEW = 64


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Outputs of a kernel, and what they are compared with.

    Attributes:
        actual: the outputs.
        inputs: the arguments of the reference, as they were before the launch.
        reference: computes the expected outputs from the inputs.
        exact_dtype: an output must have the precision of the reference's dtype, whatever its own.
        special: the inputs hold NaN or infinities. A kernel may then give a number where the
            reference gives NaN: the maximum of a GPU drops NaN, and a skipped tile never reads it.
    """

    actual: list[Any]
    inputs: list[Any]
    reference: Reference | Elsewhere
    exact_dtype: bool = False
    special: bool = False


class NotJudged(Exception):
    """The reference is too inaccurate, or not finite, for the inputs of a comparison."""


def judge(comparison: Comparison, ptx: str = "") -> None:
    """Compares outputs with their reference.

    Args:
        comparison: what to compare.
        ptx: of the kernels that made the outputs; tells whether they compute with tf32.

    Raises:
        AssertionError: an output is wrong; the message names it, and the worst of its elements.
        NotJudged: most elements of an output cannot be judged.
    """
    actual = [torch.as_tensor(each).detach().cpu() for each in comparison.actual]
    precision = Precision(comparison.inputs, actual, ptx)
    reference, inputs = comparison.reference, comparison.inputs
    if isinstance(reference, Elsewhere):
        expected = reference.expect(inputs, precision.step)
    else:
        expected = expect(reference, inputs, precision.step)
    assert len(actual) == len(expected), f"{len(actual)} outputs, but {len(expected)} expected"
    for number, (got, want) in enumerate(zip(actual, expected, strict=True)):
        shapes = tuple(got.shape), tuple(want.value.shape)
        assert shapes[0] == shapes[1], (
            f"output {number} has shape {shapes[0]}, expected {shapes[1]}"
        )
        if got.numel() == 0:
            continue
        if got.is_complex():
            got, want = torch.view_as_real(got), _real(want)
        if got.is_floating_point():
            dtype = want.value.dtype if comparison.exact_dtype else got.dtype
            dtype = dtype if dtype.is_floating_point else got.dtype
            _Output(number, got, want, dtype, precision, comparison.special).judge()
            if dtype == want.value.dtype and torch.finfo(dtype).bits < 16:
                _judge_quantized(number, got, want)
        elif not comparison.special:  # integers have no NaN
            _judge_integers(number, got, want)


def _real(want: Expected) -> Expected:
    parts = [torch.view_as_real(each) for each in (want.value, want.exact, *want.moved)
             if each is not None]  # fmt: skip
    stretched = {number: torch.view_as_real(each) for number, each in want.stretched.items()}
    unrounded = None if want.unrounded is None else torch.view_as_real(want.unrounded)
    return Expected(
        parts[0], parts[1] if len(parts) > 1 else None, tuple(parts[2:]), stretched, unrounded
    )


def _judge_integers(number: int, got: torch.Tensor, want: Expected) -> None:
    """Integers are equal to the reference, or to its result for inputs that are rounded once more.

    The latter is for integers that are computed from floats, as the index of a maximum.
    """
    _fail_at(number, ~_among(got, want), got.double(), want.value.double())


def _judge_quantized(number: int, got: torch.Tensor, want: Expected) -> None:
    """Values of 8 bits and fewer mostly equal the reference: few lie between two such values."""
    finite = got.double().isfinite() & want.value.double().isfinite()
    other = finite & ~_among(got, want)
    assert other.double().mean() <= _REQUANTIZED, (
        f"output {number}: {int(other.sum())} of {other.numel()} elements differ from the "
        f"{want.value.dtype} of the reference; roundings explain {_REQUANTIZED:.0%} of them"
    )


def _among(got: torch.Tensor, want: Expected) -> torch.Tensor:
    """Returns where an output equals one of the results of the reference."""
    same = torch.zeros(got.shape, dtype=torch.bool)
    for each in (want.value, want.exact, *want.moved):
        if each is not None:
            same |= got.double() == each.double()
    return same


def _fail_at(
    number: int, bad: torch.Tensor, got: torch.Tensor, want: torch.Tensor, note: str = ""
) -> None:
    """Raises if an element is bad; names the one that differs most."""
    count = int(bad.sum())
    if count == 0:
        return
    broken = int((bad & (got.isfinite() != want.isfinite())).sum())
    difference = torch.where(bad, (got - want).abs().nan_to_num(nan=float("inf")), -1.0)
    worst = tuple(int(i) for i in torch.unravel_index(difference.argmax(), got.shape))
    beside = f" ({broken} of them finite on one side only)" if broken else ""
    raise AssertionError(
        f"output {number}: {count} of {bad.numel()} elements differ{note}{beside}; the worst is "
        f"at {list(worst)}: {float(got[worst]):.7g} instead of {float(want[worst]):.7g}"
    )


def spread(values: torch.Tensor) -> torch.Tensor:
    """The size of the values around each element: root mean squares of its row and its column.

    Elements of a matrix product have the size (row times column / whole) even if they are near zero
    themselves; where single elements stand out, the smaller one of row and column is meant.
    """
    if values.dim() < 2:
        return values.square().mean().sqrt().expand(values.shape)
    square = values.reshape(-1, values.shape[-1]).square()
    row, column = square.mean(1, keepdim=True).sqrt(), square.mean(0, keepdim=True).sqrt()
    whole = square.mean().sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    product = (row / whole) * column
    return torch.maximum(product, torch.minimum(row, column)).reshape(values.shape)


class _Output:
    """One output of floating point, with what is expected of it; all in float64."""

    def __init__(
        self, number: int, got: torch.Tensor, want: Expected, dtype: torch.dtype,
        precision: Precision, special: bool,
    ) -> None:  # fmt: skip
        self._number = number
        self._got = got.double()
        self._value = want.value.double()
        self._info = info = torch.finfo(dtype)
        # The distance of subnormal numbers. Subnormal float32 numbers may become zero on a GPU.
        self._smallest = max(info.smallest_normal * info.eps, 2.0**-126)
        self._unit, self._bias = precision.unit, precision.bias
        self._special = special
        finite = self._value.isfinite()
        self._want = self._value
        self._changes = torch.zeros_like(self._value).unsqueeze(0)
        self._stretched: dict[int, torch.Tensor] = {}
        self._neighbour = torch.zeros(())
        self._size = spread(self._value.masked_fill(~finite, 0.0))
        if want.exact is not None:
            self._use(want.exact.double(), want)
            self._size = spread(self._want.nan_to_num(0.0, 0.0, 0.0))
        self._judged = self._want.isfinite() & self._value.isfinite()
        self._moves = self._changes.abs().amax(0)
        sensitive = self._moves > _SENSITIVE * torch.maximum(self._size, self._want.abs())
        self._judged &= ~sensitive
        self._moves = self._moves.masked_fill(~self._judged, 0.0)
        self._over = self._want.abs() > info.max * (1 - 2 * info.eps)
        most = self._got.isinf() | (self._got.abs() == info.max)
        self._overflowed = self._over & most & (self._got.sign() == self._want.sign())

    def _use(self, exact: torch.Tensor, found: Expected) -> None:
        """Takes the result in float64 for the truth, unless it is about something else."""
        largest = torch.maximum(self._size, self._value.abs())
        finite = exact.isfinite() & self._value.isfinite()
        wrong = (exact - self._value).masked_fill(~finite, 0.0)
        differs = float((wrong.abs() > _SENSITIVE * largest).double().mean()) > 0.5
        if differs and float(exact[finite].norm()) > 0.5 * float(self._value[finite].norm()):
            return  # else the reference gives nothing but its own error
        overflow = ~self._value.isfinite() & exact.isfinite()
        self._want = torch.where(finite | overflow, exact, self._value)
        moves = [(each.double() - exact).nan_to_num(0.0, 0.0, 0.0) for each in found.moved]
        if any(float((each.abs() > _SENSITIVE * largest).double().mean()) > 0.5 for each in moves):
            moves = []  # nothing could be judged
        self._changes = torch.stack([wrong, *moves])
        if found.unrounded is not None:
            half_step = (found.unrounded.double() - exact).abs()
            self._neighbour = _NEIGHBOUR * half_step.nan_to_num(0.0, 0.0, 0.0)
        if self._info.bits >= 16:  # else roundings are larger than the change
            self._stretched = {i: each.double() - exact for i, each in found.stretched.items()}

    def judge(self) -> None:
        self._judge_non_finite()
        finite, judged = int(self._value.isfinite().sum()), int(self._judged.sum())
        if 2 * judged < finite and not self._special:
            raise NotJudged(
                f"most elements of output {self._number} change by more than a tenth when an input "
                "or an intermediate value is rounded"
            )
        if judged:
            self._judge_elements()
            self._judge_whole()

    def _judge_non_finite(self) -> None:
        """NaN and infinities stand where the reference has them.

        A value beyond the range of the dtype may become infinity or the largest number; if only the
        reference overflows on its way, a kernel may give anything.
        """
        got, want, most = self._got, self._value, self._info.max
        same = torch.where(want.isnan(), got.isnan(), got == want) | self._overflowed
        same |= ~want.isfinite() & self._want.isfinite() & ~self._over
        if self._info.bits < 16:  # conversions of NaN and infinities saturate, or give NaN
            same |= ~want.isfinite() & (~got.isfinite() | (got.abs() == most))
        if self._special:
            same |= want.isnan()
        involved = ~got.isfinite() | ~want.isfinite()
        _fail_at(self._number, involved & ~same, got, want)

    def _allowed(self) -> torch.Tensor:
        info, size = self._info, self._want.abs()
        rounding = (info.eps + self._unit) * size + self._smallest
        inside = _ELEMENT * self._unit * self._size + self._neighbour
        return rounding + inside + _PEAK * torch.maximum(self._moves, spread(self._moves))

    def _judge_elements(self) -> None:
        error = (self._got - self._want).abs()
        allowed = self._allowed()
        bad = self._judged & self._got.isfinite() & (error > allowed) & ~self._overflowed
        if not bool(bad.any()):
            return
        worst = torch.where(bad, error / allowed, 0.0).max()
        note = f" by up to {float(worst):.3g} times what roundings explain"
        _fail_at(self._number, bad, self._got, self._want, note)

    def _judge_whole(self) -> None:
        """The relative error, and the share of it that lies in the direction of a wrong factor."""
        good = self._judged & self._got.isfinite() & ~self._over
        want, changes = self._want[good], self._changes[:, good]
        size = want.norm()
        if float(size) == 0.0:
            return
        error = self._got[good] - want
        floor = float(self._smallest * want.numel() ** 0.5 / size)
        moved = 3.0 * changes.norm(dim=1).amax() / size
        relative, most = (
            error.norm() / size,
            self._info.eps / 2 + _WHOLE * self._bias + moved + floor,
        )
        assert relative <= most, (
            f"output {self._number}: its relative error is {float(relative):.3g}, "
            f"roundings explain {float(most):.3g}"
        )
        self._judge_factors(error, want, changes, good)

    def _judge_factors(
        self, error: torch.Tensor, want: torch.Tensor, changes: torch.Tensor, good: torch.Tensor
    ) -> None:
        """Projects the error on the change that a wrong factor causes; names the best match."""
        directions = {"{:.6g} times as large as expected": want}
        for i, each in self._stretched.items():
            directions[f"as if input {i} were {{:.6g}} times as large"] = each[good] / STRETCH
        distinct = want[:_SAMPLE].unique().numel()  # equal values round alike
        alike = (min(want.numel(), _SAMPLE) / distinct) ** 0.5
        floor, found = self._smallest * want.numel() ** 0.5, []
        for says, direction in directions.items():
            length, total = direction.norm(), direction.square().sum()
            relative = float(length / want.norm())
            if not 0.0 < relative < float("inf"):  # the input has no influence, or too much
                continue
            factor = (error * direction).sum() / total
            noise = ((error - factor * direction) * direction).norm() / total * alike
            if distinct < _FEW:
                noise += self._info.eps / 2 / relative
            moved = 3.0 * (changes * direction).sum(1).abs().amax() / total
            least = self._bias * max(1.0, 1.0 / relative) + floor / length
            if factor.abs() > _PEAK * noise + least + moved:
                found.append((float(factor.abs()) * relative, says.format(1 + float(factor))))
        assert not found, f"output {self._number} is {max(found)[1]}"
