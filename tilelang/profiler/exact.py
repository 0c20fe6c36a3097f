"""Evaluates a reference: as it stands, in float64, and with inputs that move by a rounding error.

The result in float64 is what a kernel is compared with. The difference between it and the result of
the reference itself is the error of the reference. The change caused by moved inputs tells how much
any correct kernel may differ, since each of its roundings acts like a small change of its inputs.
The change caused by one larger input tells how a kernel is wrong that scales this input wrongly.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .compare import as_list

#: By how much an input is larger, as a share: about the error of a factor that is to be found.
STRETCH = 2.0**-6

#: Takes the inputs of a kernel, which it may change, and returns the expected outputs.
Reference = Callable[[list[Any]], Any]


@runtime_checkable
class Elsewhere(Protocol):
    """A reference that another process evaluates."""

    def expect(self, inputs: Sequence[Any], step: Callable[[torch.dtype], float]) -> list[Expected]:
        """Returns what :func:`expect` returns."""
        ...


@dataclasses.dataclass(frozen=True)
class Expected:
    """The expected value of one output.

    Attributes:
        value: the result of the reference as it stands.
        exact: the result in float64; None if the reference cannot be evaluated so.
        moved: results in float64 for inputs that are moved up and down; empty without ``exact``.
        stretched: results in float64 for one input that is larger by :data:`STRETCH`, by the number
            of this input; empty without ``exact``.
        unrounded: the result in float64 where casts to 8 bits and fewer do not round; None if the
            reference has none.
    """

    value: torch.Tensor
    exact: torch.Tensor | None = None
    moved: tuple[torch.Tensor, ...] = ()
    stretched: Mapping[int, torch.Tensor] = dataclasses.field(default_factory=dict)
    unrounded: torch.Tensor | None = None


def expect(
    reference: Reference, inputs: Sequence[Any], step: Callable[[torch.dtype], float]
) -> list[Expected]:
    """Returns what the reference expects of each output.

    Args:
        reference: the reference; it runs four times, and once for each input of floats. It runs
            once more if it casts to 8 bits or fewer.
        inputs: arguments of the kernel; they are not changed.
        step: how far to move elements of a dtype, relative to their size.
    """
    values = _evaluate(reference, inputs)
    mode = _Float64()
    exact = _in_float64(reference, inputs, values, mode)
    if exact is None:
        return [Expected(value) for value in values]
    unrounded = None
    if mode.narrows:
        unrounded = _in_float64(reference, inputs, values, _Float64(rounds_to_8_bits=False))
    moved = []
    for sign in (1.0, -1.0):
        found = _in_float64(reference, _moved(inputs, step, sign), values)
        moved += [found] if found is not None else []
    stretched: dict[int, list[torch.Tensor]] = {}
    for number in range(len(inputs)):
        if _is_float_tensor(inputs[number]):
            found = _in_float64(reference, _stretched(inputs, number), values)
            stretched |= {number: found} if found is not None else {}
    return [
        Expected(
            value, exact[i], tuple(each[i] for each in moved),
            {number: each[i] for number, each in stretched.items()},
            unrounded[i] if unrounded is not None else None,
        )
        for i, value in enumerate(values)
    ]  # fmt: skip


def _evaluate(reference: Reference, inputs: Sequence[Any]) -> list[torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        returned = as_list(reference([copy_of(each) for each in inputs]))
    return [torch.as_tensor(each).detach().cpu() for each in returned]


def copy_of(value: Any) -> Any:
    """Returns a copy of a tensor or an array; other values as they are."""
    if hasattr(value, "clone"):
        return value.clone()
    return value.copy() if hasattr(value, "copy") else value


def _in_float64(
    reference: Reference, inputs: Sequence[Any], like: list[torch.Tensor],
    mode: _Float64 | None = None,
) -> list[torch.Tensor] | None:  # fmt: skip
    """Returns the outputs in float64; None if the reference fails in float64 or changes shapes."""
    try:
        with _wide(), mode or _Float64():
            found = _evaluate(reference, [_widened(each) for each in inputs])
    except Exception:  # such as an assertion about the dtype of an input
        return None
    if [each.shape for each in found] != [each.shape for each in like]:
        return None
    kinds = [each.is_floating_point() for each in like]
    return found if [each.is_floating_point() for each in found] == kinds else None


def _moved(inputs: Sequence[Any], step: Callable[[torch.dtype], float], sign: float) -> list[Any]:
    """Returns float64 inputs, each element moved in a random direction or in the opposite one."""
    generator = torch.Generator().manual_seed(7)

    def move(value: Any) -> Any:
        if not _is_float_tensor(value):
            return value
        directions = torch.randint(0, 2, value.shape, generator=generator) * 2.0 - 1.0
        return _widened(value) * (1.0 + sign * step(value.dtype) * directions.double())

    return [move(each) for each in inputs]


def _stretched(inputs: Sequence[Any], number: int) -> list[Any]:
    """Returns the inputs, one of which is larger."""
    found = list(inputs)
    found[number] = _widened(inputs[number]) * (1.0 + STRETCH)
    return found


def _is_float_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _widened(value: Any) -> Any:
    return value.detach().double() if _is_float_tensor(value) else value


@contextlib.contextmanager
def _wide() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class _Float64(TorchDispatchMode):
    """Computes in float64. A cast to fewer bits than float32 has rounds, but stays in float64.

    Attributes:
        narrows: there was a cast to 8 bits or fewer.
    """

    def __init__(self, rounds_to_8_bits: bool = True) -> None:
        super().__init__()
        self._rounds_to_8_bits, self.narrows = rounds_to_8_bits, False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False: else the first operation imports torch._dynamo, which takes a second."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.ops.aten.view.dtype:
            raise TypeError("the bits of a float64 mean something else")
        dtype = kwargs.get("dtype")
        if dtype is not None and dtype.is_floating_point:
            kwargs["dtype"] = torch.float64
            if func is torch.ops.aten._to_copy.default and torch.finfo(dtype).bits < 32:
                narrow = torch.finfo(dtype).bits < 16
                self.narrows |= narrow
                if self._rounds_to_8_bits or not narrow:
                    args = (args[0].to(dtype), *args[1:])
        if not func._schema.is_mutable and not func.is_view:
            args = torch.utils._pytree.tree_map(_widened, args)
            kwargs = torch.utils._pytree.tree_map(_widened, kwargs)
        return func(*args, **kwargs)
