"""Finds the elements of outputs that nothing has written: they still hold what filled them before.

A pattern may also be a result. A second run on equal inputs with another pattern tells them apart,
as a result does not depend on what the memory of an output held.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from .regions import Regions, Span

#: Bits by the dtype of the elements: two NaNs of each type of floating point.
_SECOND = {
    "float16": 0x7E5B, "bfloat16": 0x7FDB, "float32": 0x7FC1A5B7, "float64": 0x7FF8A5B7C3D1E2F0,
}  # fmt: skip
_SECOND_BYTE = {"float8": 0x7F}
#: Neither True nor False.
_NO_BOOL = 0xA5


def span_of(tensor: Any) -> Span:
    """The memory of a tensor of tvm-ffi on the host."""
    size = tensor.dtype.itemsize
    strides = tuple(stride * size for stride in tensor.strides)
    return Span(int(tensor.data_ptr()), tuple(tensor.shape), strides, size)


def fill(tensors: Iterable[Any], second: bool = False) -> list[tuple[np.ndarray, Any]]:
    """Fills tensors of tvm-ffi with a pattern: NaN, and unlikely integers.

    Args:
        tensors: on the host.
        second: use the other one of two patterns. The first one sets all bits.

    Returns:
        The bits of the elements, and the pattern, of each tensor.
    """
    found = []
    for tensor in tensors:
        span = span_of(tensor)
        array = Regions([span]).array(span)
        value = _pattern(str(tensor.dtype), array.dtype, second)
        array[...] = value
        found.append((array, value))
    return found


def _pattern(name: str, bits: np.dtype[Any], second: bool) -> Any:
    if not second:
        return _NO_BOOL if name.endswith("bool") else np.iinfo(bits).max
    if bits.itemsize == 1:
        kinds = (value for kind, value in _SECOND_BYTE.items() if kind in name)
        return next(kinds, 0x5A)
    repeated = int.from_bytes(b"\x5a" * bits.itemsize, "little")
    return _SECOND.get(name, repeated)


#: Takes the name of a kernel, the number of an output, where it is unwritten, and the bytes of an
#: element: values of one byte equal a pattern by chance.
Listener = Callable[[str, int, np.ndarray, int], None]


class _Watch:
    """The outputs of the call that runs, and whom to tell of them."""

    def __init__(self, listener: Listener, second: bool) -> None:
        self.listener, self.second = listener, second
        self.filled: list[tuple[np.ndarray, Any]] = []
        self.tensors: list[Any] = []


_watch: contextvars.ContextVar[_Watch | None] = contextvars.ContextVar("poison", default=None)


@contextlib.contextmanager
def watching(listener: Listener, second: bool) -> Iterator[None]:
    """Fills the outputs that calls of the block allocate, and tells what stays unwritten.

    Args:
        listener: is called after each call, for each of its outputs.
        second: which pattern to use; see :func:`fill`.
    """
    token = _watch.set(_Watch(listener, second))
    try:
        yield
    finally:
        _watch.reset(token)


def allocated(tensors: Sequence[Any]) -> None:
    """Fills what a call has just allocated, if anybody watches."""
    watch = _watch.get()
    if watch is not None and tensors:
        watch.tensors = list(tensors)
        watch.filled = fill(watch.tensors, watch.second)


def ended(name: str, failed: bool = False) -> None:
    """Tells what the call of a kernel has left unwritten, unless it failed."""
    watch = _watch.get()
    if watch is None or not watch.filled:
        return
    filled, watch.filled, watch.tensors = watch.filled, [], []
    for number, (array, pattern) in enumerate(filled if not failed else ()):
        watch.listener(name, number, array == pattern, array.itemsize)


@contextlib.contextmanager
def call(name: str, tensors: Iterable[Any]) -> Iterator[None]:
    """Treats ``tensors``, of torch or others that speak DLPack, as outputs of what the block calls.

    They are filled if anybody watches. Nothing is told of a block that raises.
    """
    watch = _watch.get()
    known = [tvm_ffi.from_dlpack(each) for each in tensors] if watch is not None else []
    filled = fill(known, watch.second) if watch is not None else []
    yield
    for number, (array, pattern) in enumerate(filled):
        assert watch is not None
        watch.listener(name, number, array == pattern, array.itemsize)
