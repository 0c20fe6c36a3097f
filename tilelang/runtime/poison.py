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
        value = pattern(str(tensor.dtype), array.dtype, second)
        array[...] = value
        found.append((array, value))
    return found


def pattern(name: str, bits: np.dtype[Any], second: bool) -> Any:
    """Returns what fills elements of a dtype: one of two patterns, as an integer of ``bits``."""
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


#: The bits of the elements of an output, and the pattern that fills it.
Filled = tuple[np.ndarray, Any]


class Watch:
    """Fills outputs, and tells a listener which of their elements a call has not written.

    Attributes:
        second: which pattern to use; see :func:`fill`.
    """

    def __init__(self, listener: Listener, second: bool) -> None:
        self._listener, self.second = listener, second
        #: The outputs of the call that runs, and their memory.
        self.filled: list[Filled] = []
        self.tensors: list[Any] = []

    def fill(self, tensors: Sequence[Any]) -> list[Filled]:
        """Fills tensors of tvm-ffi on the host."""
        return fill(tensors, self.second)

    def tell(self, name: str, filled: Sequence[Filled]) -> None:
        """Tells the listener of these outputs after the call of a kernel."""
        for number, (array, value) in enumerate(filled):
            self._listener(name, number, array == value, array.itemsize)


_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("poison", default=None)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Fills the outputs that calls of the block allocate, and tells what stays unwritten."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def current() -> Watch | None:
    """Returns the watch of the innermost block."""
    return _watch.get()


def allocated(tensors: Sequence[Any]) -> None:
    """Fills what a call has just allocated, if anybody watches."""
    watch = _watch.get()
    if watch is not None and tensors:
        watch.tensors = list(tensors)
        watch.filled = watch.fill(watch.tensors)


def ended(name: str, failed: bool = False) -> None:
    """Tells what the call of a kernel has left unwritten, unless it failed."""
    watch = _watch.get()
    if watch is None or not watch.filled:
        return
    filled, watch.filled, watch.tensors = watch.filled, [], []
    if not failed:
        watch.tell(name, filled)


@contextlib.contextmanager
def call(name: str, tensors: Iterable[Any]) -> Iterator[None]:
    """Treats ``tensors``, of torch or others that speak DLPack, as outputs of what the block calls.

    They are filled if anybody watches. Nothing is told of a block that raises.
    """
    watch = _watch.get()
    if watch is None:
        yield
        return
    filled = watch.fill([tvm_ffi.from_dlpack(each) for each in tensors])
    yield
    watch.tell(name, filled)
