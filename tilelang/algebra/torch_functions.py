"""Functions of torch on arrays of elements, so that references in torch run as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.algebra import elements
from tilelang.algebra.elements import Elements
from tilelang.errors import UserError


def _max(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, int):
        return a.amax(dim, keepdim), None
    return elements.maximum(a, dim) if dim is not None else a.amax()


def _linear(x: Any, weight: Any, bias: Any = None) -> Elements:
    product = elements.matmul(x, Elements.of(weight).T)
    return product if bias is None else product + bias


def _gelu(x: Elements, approximate: str = "none") -> Elements:
    if approximate != "tanh":
        raise UserError("gelu of elements needs approximate='tanh': erf has no identity")
    inner = (x + x * x * x * 0.044715) * float(np.sqrt(2 / np.pi))
    return x * 0.5 * (inner.tanh() + 1.0)


def _layer_norm(
    x: Elements, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Elements:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    centred = x - x.mean(axes, True)
    result = centred * ((centred * centred).mean(axes, True) + eps).rsqrt()
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _rms_norm(x: Elements, shape: Any, weight: Any = None, eps: float = 1e-5) -> Elements:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    result = x * ((x * x).mean(axes, True) + eps).rsqrt()
    return result if weight is None else result * weight


def _attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None,
) -> Elements:  # fmt: skip
    if attn_mask is not None or dropout_p:
        raise UserError("attention of elements takes neither a mask nor dropout")
    scores = elements.matmul(q, Elements.of(k).transpose(-1, -2))
    scores = scores * (scale if scale is not None else q.shape[-1] ** -0.5)
    if is_causal:
        kept = np.tri(scores.shape[-2], scores.shape[-1]) > 0
        scores = elements.where(kept, scores, -np.inf)
    return elements.matmul(scores.softmax(-1), v)


def _einsum(equation: str, *operands: Any) -> Elements:
    """Multiplies all operands, expanded to all indices, and sums over those not in the result."""
    terms, _, result = equation.replace(" ", "").partition("->")
    names = terms.split(",")
    order = result + "".join(sorted(set(terms) - set(result) - {","}))
    product: Any = None
    for name, operand in zip(names, operands, strict=True):
        array = Elements.of(operand).permute(
            *sorted(range(len(name)), key=lambda i: order.index(name[i]))
        )
        present = iter(array.shape)
        array = array.reshape(*(next(present) if letter in name else 1 for letter in order))
        product = array if product is None else product * array
    summed = tuple(range(len(result), len(order)))
    return product.sum(summed) if summed else product


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": elements.matmul,
    "mm": elements.matmul,
    "bmm": elements.matmul,
    "einsum": _einsum,
    "linear": _linear,
    "where": elements.where,
    "maximum": elements.maximum,
    "minimum": elements.minimum,
    "max": _max,
    "cat": elements.concatenate,
    "concat": elements.concatenate,
    "relu": lambda x, inplace=False: elements.maximum(x, 0.0),
    "silu": lambda x, inplace=False: x * x.sigmoid(),
    "gelu": _gelu,
    "softplus": lambda x: (x.exp() + 1.0).log(),
    "log1p": lambda x: (x + 1.0).log(),
    "logsumexp": lambda x, dim, keepdim=False: (x - x.amax(dim, True)).exp().sum(dim, keepdim).log()
    + x.amax(dim, keepdim),
    "clamp": lambda x, min=None, max=None: elements.minimum(
        elements.maximum(x, -np.inf if min is None else min), np.inf if max is None else max
    ),
    "square": lambda x: x * x,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "scaled_dot_product_attention": _attention,
    "zeros_like": lambda x, **_: Elements.of(np.zeros(x.shape)),
    "mul": lambda a, b: Elements.of(a) * b,
    "multiply": lambda a, b: Elements.of(a) * b,
    "add": lambda a, b: Elements.of(a) + b,
    "sub": lambda a, b: Elements.of(a) - b,
    "rsub": lambda a, b: b - a if isinstance(b, Elements) else Elements.of(b) - a,
    "div": lambda a, b: Elements.of(a) / b,
    "true_divide": lambda a, b: Elements.of(a) / b,
    "pow": lambda a, b: a**b,
    "neg": lambda a: -a,
}  # fmt: skip


def call(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Carries out a function of torch one of whose arguments is an array of elements.

    Raises:
        UserError: the function is not known for elements.
    """
    name = function.__name__.strip("_")
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*args, **kwargs)
    if args and isinstance(args[0], Elements) and hasattr(Elements, name):
        return getattr(args[0], name)(*args[1:], **kwargs)
    raise UserError(f"torch.{name} is not known for elements of the algebraic mode")
