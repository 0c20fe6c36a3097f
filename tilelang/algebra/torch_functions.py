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


def _var(
    x: Elements, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    correction: Any = None,
) -> Elements:  # fmt: skip
    """Returns variances: sums of squared differences from the mean, over the number less one."""
    dim = None if dim == [] else dim
    less = correction if correction is not None else 1 if unbiased in (None, True) else 0
    centred = x - x.mean(dim, True)
    total = (centred * centred).sum(dim, keepdim)
    return total / float(x.values.size // max(total.values.size, 1) - less)


def _var_mean(
    x: Elements, dim: Any = None, unbiased: Any = None, keepdim: bool = False,
    correction: Any = None,
) -> Any:  # fmt: skip
    return _var(x, dim, unbiased, keepdim, correction), x.mean(dim, keepdim)


def _gelu(x: Elements, approximate: str = "none") -> Elements:
    if approximate != "tanh":
        raise UserError(
            "the algebraic mode supports gelu with approximate='tanh' only: erf has no identity"
        )
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


def scaled_attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None,
) -> Elements:  # fmt: skip
    """Returns softmax(q @ k^T * scale) @ v.

    Raises:
        UserError: there is dropout.
    """
    if dropout_p:
        raise UserError("the algebraic mode does not support attention with dropout")
    scores = elements.matmul(q, Elements.of(k).transpose(-1, -2))
    scores = scores * (scale if scale is not None else q.shape[-1] ** -0.5)
    if is_causal:
        kept = np.tri(scores.shape[-2], scores.shape[-1]) > 0
        scores = elements.where(kept, scores, -np.inf)
    if attn_mask is not None:
        added = isinstance(attn_mask, Elements) or attn_mask.is_floating_point()
        scores = scores + attn_mask if added else elements.where(attn_mask, scores, -np.inf)
    return elements.matmul(scores.softmax(-1), v)


def _triangle(x: Elements, diagonal: int) -> np.ndarray:
    return np.tri(x.shape[-2], x.shape[-1], diagonal, dtype=bool)


def _log_softmax(x: Elements, dim: int) -> Elements:
    centred = x - x.amax(dim, True)
    return centred - centred.exp().sum(dim, True).log()


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
    "scaled_dot_product_attention": scaled_attention,
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
    "rdiv": lambda a, b: Elements.of(b) / a,
    "rtruediv": lambda a, b: Elements.of(b) / a,
    "clamp_min": elements.maximum,
    "clamp_max": elements.minimum,
    # Steps, whose values are exact.
    "ceil": lambda x: Elements.of(np.ceil(x.values)),
    "floor": lambda x: Elements.of(np.floor(x.values)),
    "round": lambda x: Elements.of(np.round(x.values)),
    "trunc": lambda x: Elements.of(np.trunc(x.values)),
    "var": _var,
    "var_mean": _var_mean,
    "std": lambda x, *args, **kwargs: _var(x, *args, **kwargs).sqrt(),
    "masked_fill": lambda x, mask, value: elements.where(mask, value, x),
    "tril": lambda x, diagonal=0: elements.where(_triangle(x, diagonal), x, 0.0),
    "triu": lambda x, diagonal=0: elements.where(~_triangle(x, diagonal - 1), x, 0.0),
    "softmax": lambda x, dim=-1, *_, **__: x.softmax(dim),
    "log_softmax": lambda x, dim=-1, *_, **__: _log_softmax(x, dim),
    "sign": lambda x: Elements.of(np.sign(x.values)),
    "frac": lambda x: x - Elements.of(np.trunc(x.values)),
}  # fmt: skip


#: Functions that only move elements, or leave out some in favour of zeros.
_MOVES = {
    "broadcast_to", "chunk", "clone", "constant_pad_nd", "contiguous", "diag", "diag_embed",
    "diagonal", "embedding", "expand_as", "flatten", "flip", "fliplr", "flipud", "gather",
    "getitem", "hsplit", "hstack", "index", "index_select", "masked_select", "movedim",
    "narrow", "pad", "ravel", "repeat", "repeat_interleave", "reshape_as", "roll", "rot90",
    "scatter", "select", "split", "squeeze", "stack", "swapaxes", "swapdims", "t", "take",
    "take_along_dim", "tensor_split", "tile", "transpose", "unbind", "unflatten", "unfold",
    "unsqueeze", "view_as", "vsplit", "vstack",
}  # fmt: skip


_FILLS = {"zeros_like", "ones_like", "full_like", "empty_like", "zero_", "empty_strided"}


def moves_elements(spelling: str) -> bool:
    """Returns whether a function of torch only moves elements, or fills in zeros."""
    return spelling.strip("_") in _MOVES


def _moved(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Carries out a function that moves elements, on the numbers of their places.

    Zeros that it adds have the place 0.
    """
    import torch
    from torch.utils._pytree import tree_map

    place = {"pad": 3, "constant_pad_nd": 2}.get(function.__name__.split(".")[0], len(args))
    if kwargs.get("value") or any(args[place:]):
        raise UserError("the algebraic mode supports padding with zeros only")
    sources = [Elements.of(np.zeros(1))]

    def placed(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value = Elements.of(value)  # without elements of its own
        if not isinstance(value, Elements):
            return value
        first = sum(source.values.size for source in sources)
        sources.append(value.reshape(-1))
        places = np.arange(first, first + value.values.size, dtype=np.float64)
        return torch.from_numpy(places.reshape(value.shape))

    args, kwargs = tree_map(placed, (tuple(args), kwargs))
    every = elements.concatenate(sources)

    def fetched(places: Any) -> Any:
        return every[places.numpy().astype(np.int64)]

    with torch._C.DisableTorchFunction():
        return tree_map(fetched, function(*args, **kwargs))


def fills(spelling: str) -> bool:
    """Returns whether the result of a function of torch depends on the shape of tensors alone."""
    return spelling.startswith("new_") or spelling in _FILLS


def is_known(name: str) -> bool:
    """Returns whether a function of torch is known for elements."""
    name = name.strip("_")
    return name in _FUNCTIONS or name in _MOVES or hasattr(Elements, name)


def call(function: Any, args: Any, kwargs: dict[str, Any], spelling: str = "") -> Any:
    """Carries out a function of torch one of whose arguments is an array of elements.

    Args:
        function: the function.
        args, kwargs: its arguments.
        spelling: its name; by default that which it has itself.

    Raises:
        UserError: the function is not known for elements.
    """
    spelling = spelling or function.__name__
    name = spelling.strip("_")
    if spelling.startswith("__i") and name[1:] in _FUNCTIONS:
        name = name[1:]  # __iadd__
    if any(isinstance(each, Elements) and not each.all_known() for each in args):
        return _moved(function, args, kwargs)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*args, **kwargs)
    first = args[0] if args else None
    for each in (spelling, name, spelling.replace("__i", "__", 1)):
        if isinstance(first, Elements) and each != "__getitem__" and hasattr(Elements, each):
            return getattr(first, each)(*args[1:], **kwargs)
    if name in _MOVES:
        return _moved(function, args, kwargs)
    raise UserError(f"the algebraic mode does not support torch.{name}")
