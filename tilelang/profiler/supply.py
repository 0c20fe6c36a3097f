"""Makes arguments for a kernel: tensors of the declared shapes, filled as asked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..errors import ArgumentError


class TensorSupplyType(Enum):
    """Kinds of values that fill tensors.

    Integer: small integers; Uniform: floats in -1..1; Normal and Randn: standard normal;
    Zero, One: that number; Auto: Integer for integers, Uniform for floats.
    """

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


#: Elements that a large tensor repeats; odd, so that rows of even lengths differ.
_PATTERN = (1 << 16) + 1


def supply(
    params: list[Any],
    kind: TensorSupplyType,
    device: Any,
    symbols: Mapping[str, int],
    *,
    repeats: bool = False,
) -> list[Any]:
    """Returns one argument for each parameter.

    Args:
        params: buffers and scalar variables of a kernel.
        kind: how to fill tensors.
        device: a torch device.
        symbols: values of symbolic dimensions and of scalars, by name.
        repeats: large tensors repeat some values, which takes a tenth of the time: for runs whose
            results nobody compares.

    Raises:
        ArgumentError: a symbolic dimension or a scalar has no value.
    """
    return [_argument(param, kind, device, symbols, repeats) for param in params]


def described(params: list[Any], symbols: Mapping[str, int]) -> list[Any]:
    """Returns the dtype and the shape of each parameter that is a tensor, else its value.

    Raises:
        ArgumentError: a symbolic dimension or a scalar has no value.
    """
    return [
        {"dtype": str(param.dtype), "shape": [_extent(extent, symbols) for extent in param.shape]}
        if hasattr(param, "shape")
        else _symbol(str(param.name), symbols)
        for param in params
    ]


def supplied(argument: Any) -> Any:
    """Returns an argument as :func:`described` describes it, on the CPU, filled as by ``Auto``."""
    if not isinstance(argument, dict):
        return argument
    return _filled(argument["shape"], argument["dtype"], TensorSupplyType.Auto, "cpu")


def _argument(
    param: Any, kind: TensorSupplyType, device: Any, symbols: Mapping[str, int], repeats: bool
) -> Any:
    if not hasattr(param, "shape"):
        return _symbol(str(param.name), symbols)
    shape = [_extent(extent, symbols) for extent in param.shape]
    size = math.prod(shape)
    if not repeats or size <= _PATTERN:
        return _filled(shape, str(param.dtype), kind, device)
    pattern = _filled([_PATTERN], str(param.dtype), kind, device)
    tensor = pattern.new_empty(size)
    whole = size - size % _PATTERN
    tensor[:whole].view(-1, _PATTERN).copy_(pattern)
    tensor[whole:] = pattern[: size - whole]
    return tensor.view(shape)


def _extent(extent: Any, symbols: Mapping[str, int]) -> int:
    # Python's view of a constant extent is an int; the core's own is a node with a value.
    constant = extent if isinstance(extent, int) else getattr(extent, "value", None)
    return _symbol(_name(extent), symbols) if constant is None else int(constant)


def _name(extent: Any) -> str:
    name = getattr(extent, "name", None)
    if name is None:
        raise ArgumentError(f"cannot make a tensor with the computed extent {extent}")
    return str(name)


def _symbol(name: str, symbols: Mapping[str, int]) -> int:
    if name not in symbols:
        raise ArgumentError(
            f"the value of {name!r} is not known: a search takes it from "
            "tilelang.autotuner.set_autotune_inputs(...), a profiler from "
            f"dynamic_symbolic_constraints={{{name!r}: ...}} or input_tensors"
        )
    return symbols[name]


def _filled(shape: list[int], dtype: str, kind: TensorSupplyType, device: Any) -> Any:
    import torch

    torch_dtype = getattr(torch, dtype)
    if kind in (TensorSupplyType.Zero, TensorSupplyType.One):
        value = int(kind is TensorSupplyType.One)
        return torch.full(shape, value, dtype=torch.float32, device=device).to(torch_dtype)
    if dtype == "bool":
        return torch.randint(0, 2, shape, device=device).bool()
    if not torch_dtype.is_floating_point:
        low = 0 if dtype.startswith("uint") else -3
        return torch.randint(low, 4, shape, device=device).to(torch_dtype)
    if kind is TensorSupplyType.Integer:
        return torch.randint(-3, 4, shape, device=device).to(torch_dtype)
    if kind in (TensorSupplyType.Uniform, TensorSupplyType.Auto):
        return (torch.rand(shape, device=device) * 2 - 1).to(torch_dtype)
    return torch.randn(shape, device=device).to(torch_dtype)
