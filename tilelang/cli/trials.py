"""Inputs that break kernels which work for ordinary ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

#: Values well above 1e6, if the dtype has them.
_LARGE = 4e6
#: Variances of values of this size are near the usual epsilon of a normalization.
_SMALL = 1e-2
#: Larger sizes are replaced by one that needs a whole tile and a part of one.
_SIZES = ((512, 261), (160, 133))


class NotTried(Exception):
    """A kernel refuses the inputs, or its reference cannot compute the result for them."""


#: Functions that change floating-point values, by the name of the trial. They also get the largest
#: number of the dtype.
KINDS: dict[str, Callable[[Any, float], Any] | None] = {
    "zeros": lambda values, _: values * 0.0,
    "negative": lambda values, _: -values.abs(),
    "small": lambda values, _: values * _SMALL,
    "large": lambda values, most: values * min(_LARGE, most / 16),
    "infinities": None,
    "nan": None,
}
#: Trials whose inputs are not finite, and the values that replace single elements.
SPECIAL: dict[str, tuple[float, ...]] = {
    "infinities": (float("inf"), float("-inf")), "nan": (float("nan"),),
}  # fmt: skip


def changed(inputs: list[Any], kind: str, seed: int) -> list[Any]:
    """Returns inputs as a trial wants them; integers and scalars stay as they are.

    Args:
        inputs: random ones.
        kind: of :data:`KINDS`; "" for no change.
        seed: of the places of infinities and NaN.

    Raises:
        NotTried: no input has such values.
    """
    import torch

    if not kind:
        return inputs
    generator = torch.Generator().manual_seed(seed + 1)
    found, any_changed = [], False
    for each in inputs:
        if isinstance(each, torch.Tensor) and each.is_floating_point() and each.numel():
            other = _changed(each, kind, generator)
            any_changed |= other is not each
            each = other
        found.append(each)
    if not any_changed:
        raise NotTried("no input has such values")
    return found


def _changed(values: Any, kind: str, generator: Any) -> Any:
    import torch

    # Few operations know the types of 8 bits.
    wide = values.double()
    change = KINDS[kind]
    if change is not None:
        return change(wide, torch.finfo(values.dtype).max).to(values.dtype)
    flat = wide.flatten()
    for value in SPECIAL[kind]:
        if bool(torch.tensor(value).to(values.dtype).double().isfinite()):
            return values  # the dtype has none
        flat[int(torch.randint(0, flat.numel(), (1,), generator=generator))] = value
    return flat.view(wide.shape).to(values.dtype)


def parameters_of(found: Any) -> set[str] | None:
    """Returns the parameters of a function that makes or is a kernel; None if unknown."""
    function = getattr(found, "function", found)
    try:
        return set(inspect.signature(getattr(function, "__wrapped__", function)).parameters)
    except (TypeError, ValueError):
        return None


def ragged(parameters: Collection[str] | None, shapes: Mapping[str, int]) -> dict[str, int]:
    """Returns sizes that are no multiples of a tile, and small.

    Args:
        parameters: of the function; None if they are not known.
        shapes: values of its dimensions and parameters. Only dimensions change: the names of
            ``T.const`` and ``T.dynamic``, which are no parameters of the function.
    """
    if parameters is None:
        return dict(shapes)
    return {name: value if name in parameters else _ragged(value) for name, value in shapes.items()}


def _ragged(size: int) -> int:
    for least, replacement in _SIZES:
        if size > least:
            return replacement
    return size - 1 if size > 1 else size
