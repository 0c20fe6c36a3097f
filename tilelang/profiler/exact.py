"""Evaluates a reference: as it stands, in float64, and with inputs that move by a rounding error.

The result in float64 is what a kernel is compared with. The difference between it and the result of
the reference itself is the error of the reference. The change caused by moved inputs tells how much
any correct kernel may differ, since each of its roundings acts like a small change of its inputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .compare import as_list

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
    """

    value: torch.Tensor
    exact: torch.Tensor | None = None
    moved: tuple[torch.Tensor, ...] = ()


def expect(
    reference: Reference, inputs: Sequence[Any], step: Callable[[torch.dtype], float]
) -> list[Expected]:
    """Returns what the reference expects of each output.

    Args:
        reference: the reference; it runs four times.
        inputs: arguments of the kernel; they are not changed.
        step: how far to move elements of a dtype, relative to their size.
    """
    values = _evaluate(reference, inputs)
    exact = _in_float64(reference, inputs, values)
    if exact is None:
        return [Expected(value) for value in values]
    moved = []
    for sign in (1.0, -1.0):
        found = _in_float64(reference, _moved(inputs, step, sign), values)
        moved += [found] if found is not None else []
    return [
        Expected(value, exact[i], tuple(each[i] for each in moved))
        for i, value in enumerate(values)
    ]


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
    reference: Reference, inputs: Sequence[Any], like: list[torch.Tensor]
) -> list[torch.Tensor] | None:
    """Returns the outputs in float64; None if the reference fails in float64 or changes shapes."""
    try:
        with _wide():
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


def _is_float_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _widened(value: Any) -> Any:
    return value.detach().double() if _is_float_tensor(value) else value


@contextlib.contextmanager
def _wide() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64():
            yield
    finally:
        torch.set_default_dtype(before)


class _Float64(TorchDispatchMode):
    """Computes in float64. A cast to fewer bits than float32 has rounds, but stays in float64."""

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
                args = (args[0].to(dtype), *args[1:])
        if not func._schema.is_mutable and not func.is_view:
            args = torch.utils._pytree.tree_map(_widened, args)
            kwargs = torch.utils._pytree.tree_map(_widened, kwargs)
        return func(*args, **kwargs)
