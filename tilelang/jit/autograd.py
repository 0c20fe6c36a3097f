"""Joins a kernel and the kernel of its gradient in a function that torch can differentiate."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, user_level


def differentiable(
    forward: Callable[..., Any], backward: Callable[..., Any], save_outputs: bool = False
) -> Callable[..., Any]:
    """Makes a function that torch can differentiate.

    Args:
        forward: a kernel, or any function of them: takes tensors and scalars, returns one tensor or
            several, which it allocates.
        backward: called as ``backward(*inputs, *outputs, *gradients)``: the arguments of the call,
            with ``save_outputs`` what ``forward`` returned, and the gradient of each output
            (contiguous; zeros for one that is not used). Returns the gradient of each tensor among
            the inputs, in order; None for one that has none.
        save_outputs: hand the outputs to ``backward``, too.

    Returns:
        A function of the same arguments as ``forward``; the gradient of its gradient is refused by
        torch.

    Raises:
        ArgumentError: at the backward pass, if ``backward`` returns another number of gradients, or
            one of another shape than its input.
    """
    import torch
    from torch.autograd.function import once_differentiable

    class Differentiable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            result = forward(*args)
            outputs = _as_tuple(result)
            tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
            ctx.rest = [None if isinstance(arg, torch.Tensor) else arg for arg in args]
            ctx.is_tensor = [isinstance(arg, torch.Tensor) for arg in args]
            ctx.save_for_backward(*tensors, *(outputs if save_outputs else ()))
            return outputs if isinstance(result, (list, tuple)) else result

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *gradients: Any) -> Any:
            saved = list(ctx.saved_tensors)
            tensors = saved[: sum(ctx.is_tensor)]
            left = iter(tensors)
            args = [next(left) if t else r for t, r in zip(ctx.is_tensor, ctx.rest, strict=True)]
            contiguous = [gradient.contiguous() for gradient in gradients]
            found = _as_tuple(backward(*args, *saved[len(tensors) :], *contiguous))
            _check(found, tensors)
            ordered = iter(found)
            return tuple(next(ordered) if t else None for t in ctx.is_tensor)

    return Differentiable.apply


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (list, tuple)) else (result,)


def _check(gradients: Sequence[Any], tensors: Sequence[Any]) -> None:
    if len(gradients) != len(tensors):
        raise ArgumentError(
            f"backward returned {len(gradients)} gradients for {len(tensors)} tensors: it must "
            "return one for each tensor among the inputs, None for one that has none"
        )
    for number, (gradient, tensor) in enumerate(zip(gradients, tensors, strict=True)):
        if gradient is not None and gradient.shape != tensor.shape:
            raise ArgumentError(
                f"backward returned a gradient of shape {tuple(gradient.shape)} for tensor "
                f"{number} among the inputs, whose shape is {tuple(tensor.shape)}"
            )


def warn_of_lost_gradient(name: str, args: Sequence[Any]) -> None:
    """Warns if torch expects a gradient from a call of a kernel, which has none by itself."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in args):
        warnings.warn(
            f"an argument of {name} requires a gradient, and the results have none: use "
            "tilelang.differentiable, or call the kernel under torch.no_grad()",
            stacklevel=user_level(),
        )
