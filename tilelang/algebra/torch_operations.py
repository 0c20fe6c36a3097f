"""Operations below the functions of torch, on arrays of elements.

Functions and autograd arrive at them. Those that torch itself can decompose into simpler ones have
no rule of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import UserError

from . import elements, torch_functions
from .elements import Elements


def _spread(value: Any, shape: tuple[int, ...]) -> Elements:
    value = Elements.of(value)
    words = np.broadcast_to(value.words, (*shape, value.words.shape[-1]))
    return Elements(words, np.broadcast_to(value.values, shape))


def _max(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return x.amax() if dim is None else (x.amax(dim, keepdim), None)


def _min(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return x.amin() if dim is None else (x.amin(dim, keepdim), None)


def _index(x: Elements, places: Any) -> Elements:
    return x[tuple(slice(None) if each is None else each for each in places)]


def _index_put(
    x: Elements, places: Any, source: Any, accumulate: bool = False, *_: Any
) -> Elements:
    if accumulate:
        raise UserError("the algebraic mode does not support index_put with accumulate=True")
    at = tuple(slice(None) if each is None else np.asarray(each) for each in places)
    words = x.words.copy()
    words[at] = _spread(source, x.values[at].shape).words
    return Elements(words, x.values)


def _index_add(x: Elements, dim: int, places: Any, source: Any, alpha: Any = 1) -> Elements:
    before = (slice(None),) * (dim % x.ndim)
    result, source = x, Elements.of(source) * alpha
    for i, place in enumerate(np.asarray(places)):
        at = (*before, int(place))
        words = result.words.copy()
        origin = (*before, i)
        words[at] = (result[at] + source[origin]).words
        result = Elements(words, result.values)
    return result


def _add(a: Any, b: Any, alpha: Any = 1) -> Elements:
    return Elements.of(a) + (b if alpha == 1 else Elements.of(b) * alpha)


def _subtract(a: Any, b: Any, alpha: Any = 1) -> Elements:
    return Elements.of(a) - (b if alpha == 1 else Elements.of(b) * alpha)


def _addmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Elements:
    product = elements.matmul(a, b)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (c if beta == 1 else c * beta)


def _pair(value: Any, rank: int) -> list[int]:
    return list(value) * (rank if len(value) == 1 else 1)


def _convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Elements:  # fmt: skip
    """Adds up the products of each tap of the filter with the places that it meets."""
    if transposed:
        raise UserError("the algebraic mode does not support transposed convolutions")
    x, weight, rank = Elements.of(x), Elements.of(weight), len(x.shape) - 2
    stride, padding, dilation = (_pair(each, rank) for each in (stride, padding, dilation))
    wide = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    padded = Elements.of(np.zeros((*x.shape[:2], *wide)))
    inside = tuple(slice(p, p + n) for p, n in zip(padding, x.shape[2:], strict=True))
    whole = (slice(None), slice(None), *inside)
    padded.words[whole] = x.words
    kernel = weight.shape[2:]
    extent = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(wide, dilation, kernel, stride, strict=True)
    ]
    each_in, each_out = x.shape[1] // groups, weight.shape[0] // groups
    parts = []
    for group in range(groups):
        total: Any = 0.0
        for tap in np.ndindex(*kernel):
            places = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilation, extent, stride, strict=True)
            )
            channels = slice(group * each_in, (group + 1) * each_in)
            window = (slice(None), channels, *places)
            met = padded[window].reshape(x.shape[0], each_in, -1)
            rows = slice(group * each_out, (group + 1) * each_out)
            filters = (rows, slice(None), *tap)
            total = elements.matmul(weight[filters], met) + total
        parts.append(total.reshape(x.shape[0], each_out, *extent))
    result = elements.concatenate(parts, 1)
    return result if bias is None else result + Elements.of(bias).reshape(-1, *[1] * rank)


def _threshold_backward(gradient: Elements, x: Elements, threshold: float) -> Elements:
    return elements.where(x.values <= threshold, 0.0, gradient)


def _masked_scatter_sum(x: Elements, dim: int, places: Any, source: Any) -> Elements:
    """Adds elements of a source at places along an axis, one after the other."""
    places = np.asarray(places)
    words, added = x.words.copy(), Elements.of(source)
    for at in np.ndindex(places.shape):
        target = (*at[: dim % x.ndim], int(places[at]), *at[dim % x.ndim + 1 :])
        words[target] = (Elements(words[target], x.values[target]) + added[at]).words
    return Elements(words, x.values)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "_to_copy": lambda x, **_: x,
    "copy_": lambda x, source, *_: _spread(source, x.shape),
    "fill_": lambda x, value: _spread(value, x.shape),
    "lift_fresh": lambda x: x,
    "add": _add, "add_": _add, "sub": _subtract, "sub_": _subtract,
    "rsub": lambda a, b, alpha=1: _subtract(b, a, alpha),
    "max": _max, "min": _min,
    "index": _index, "index_put": _index_put, "index_put_": _index_put,
    "index_add": _index_add, "index_add_": _index_add,
    "scatter_add": _masked_scatter_sum, "scatter_add_": _masked_scatter_sum,
    "addmm": _addmm, "baddbmm": _addmm, "addmv": _addmm,
    "mv": elements.matmul, "dot": elements.matmul,
    "convolution": _convolution,
    "threshold_backward": _threshold_backward,
}  # fmt: skip


def operation(name: str) -> Callable[..., Any] | None:
    """Returns how an operation is carried out on elements, where no function does it."""
    return _OPERATIONS.get(name)


#: Operations whose decompositions do something other than to compute the same with simpler ones.
_WHOLE = {"_to_copy", "_unsafe_view", "clamp", "clamp_min", "clamp_max", "masked_fill", "mv", "dot"}
_WHOLE |= {"stack", "where", "softplus", "gelu", "index_add", "index_add_", "addmm", "baddbmm"}
_WHOLE |= {"sigmoid", "silu", "logsumexp", "tril", "triu", "threshold_backward", "repeat", "addmv"}


@functools.cache
def decomposition_of(function: Any) -> Callable[..., Any] | None:
    """Returns simpler operations that compute what an operation does; None where it is one."""
    name = function.overloadpacket.__name__
    if name in _OPERATIONS or name in _WHOLE or torch_functions.is_known(name):
        return None
    from torch._decomp import decomposition_table

    return decomposition_table.get(function)
