"""Memory that kernels reach by addresses that they find in tensors."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

#: Lower values are no addresses of the host's heap, which may begin behind a program at 4 MiB.
_LOWEST = 1 << 22
_HIGHEST = 1 << 47

_tensors: contextvars.ContextVar[tuple[Any, ...]] = contextvars.ContextVar("tensors", default=())


@contextlib.contextmanager
def reachable(*tensors: Any) -> Iterator[None]:
    """Lets launches inside of the block access these CPU tensors at their own addresses.

    A GPU's kernel reaches all memory of its process; the emulator's that of its arguments, and what
    tensors of torch own whose addresses are in a 64-bit integer or in a tensor of them. A program
    with other pointers, of NumPy or two tables deep, says here what they point to::

        with tilelang.emulator.reachable(a, b):
            kernel(torch.tensor([a.data_ptr(), b.data_ptr()]), out)

    Blocks nest. A block is seen by its own thread only.
    """
    token = _tensors.set((*_tensors.get(), *tensors))
    try:
        yield
    finally:
        _tensors.reset(token)


def possible_addresses(values: np.ndarray) -> np.ndarray:
    """Returns the values of an array that may be heap addresses of the host, sorted and unique."""
    return np.unique(values[(values >= _LOWEST) & (values < _HIGHEST)])


def live_tensors(addresses: np.ndarray) -> list[Any]:
    """Returns the memory of torch's CPU tensors in this process that holds one of the addresses.

    Args:
        addresses: uint64; what cannot be one is passed over.

    Returns:
        for each piece of memory a tensor of all its bytes.
    """
    addresses = possible_addresses(addresses)
    torch = sys.modules.get("torch")
    if torch is None or not len(addresses):
        return []
    found: dict[int, Any] = {}
    with torch._C.DisableTorchFunction():  # what "cuda" means to a program does not matter
        for each in gc.get_objects():
            if not issubclass(type(each), torch.Tensor):
                continue
            try:
                storage = each.untyped_storage()
                if storage.device.type != "cpu":  # a fake tensor's is "meta"
                    continue
                begin, size = storage.data_ptr(), storage.nbytes()
            except (RuntimeError, NotImplementedError):  # of no memory: sparse, meta, fake
                continue
            if begin in found:
                continue
            first, last = np.searchsorted(addresses, np.array([begin, begin + size], np.uint64))
            if first < last:
                found[begin] = torch.empty(0, dtype=torch.uint8).set_(storage)
    return list(found.values())


def current() -> tuple[Any, ...]:
    """Returns the tensors that launches may reach here."""
    return _tensors.get()
