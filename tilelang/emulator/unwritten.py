"""Tracks the elements of allocated outputs that no kernel has written yet.

An output is filled with a pattern when it is allocated, and one byte for each of its bytes tells
whether a kernel of the emulator has written that. This follows the memory from launch to launch.
Between launches anything may write an output in place: where an unwritten byte does not hold the
pattern any more, the 64 bytes around it count as written.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

_BLOCK = 64

# By the name of the element type: bytes that hardly anybody stores; NaN in floating point. Types
# that have no such bytes are missing, and their tensors are not followed.
_PATTERNS = {
    "float64": bytes.fromhex("e1963c5ac3a5f5ff"),
    "float32": bytes.fromhex("c3a5e5ff"),
    "float16": bytes.fromhex("5afe"),
    "bfloat16": bytes.fromhex("d3ff"),
    "float8_e4m3fn": bytes.fromhex("ff7f"),
    "float8_e5m2": bytes.fromhex("fe7d"),
    "int8": bytes.fromhex("a55b"),
    "int16": bytes.fromhex("5ba5"),
    "int32": bytes.fromhex("d7c35ba5"),
    "int64": bytes.fromhex("b4f2e196d7c35ba5"),
}
_PATTERNS |= {f"u{name}": code for name, code in _PATTERNS.items() if name.startswith("int")}


class _Output:
    """One output.

    Attributes:
        begin, end: where it lies on the host.
        written: of each byte, and of the padding behind them; uint8.
    """

    def __init__(self, begin: int, size: int, pattern: bytes) -> None:
        self.begin, self.end = begin, begin + size
        padded = -(-size // _BLOCK) * _BLOCK
        self.written = np.ones(padded, np.uint8)
        self.written[:size] = 0
        self._pattern = np.resize(np.frombuffer(pattern, np.uint8), size)
        self._memory()[:] = self._pattern

    def _memory(self) -> np.ndarray:
        buffer = (ctypes.c_uint8 * (self.end - self.begin)).from_address(self.begin)
        return np.frombuffer(memoryview(buffer).cast("B"), np.uint8)

    def refresh(self) -> bool:
        """Notes elements that were written in place; returns whether some are still unwritten."""
        size = self.end - self.begin
        changed = (self._memory() != self._pattern) & (self.written[:size] == 0)
        if changed.any():
            blocks = self.written.reshape(-1, _BLOCK)
            blocks[np.unique(np.flatnonzero(changed) // _BLOCK)] = 1
        return not self.written.all()


class Outputs:
    """The outputs that are alive and not wholly written."""

    def __init__(self) -> None:
        self._outputs: dict[int, _Output] = {}
        self._lock = threading.Lock()
        self._new = threading.local()

    def allocate(self, address: int, size: int, dtype: str) -> None:
        """Fills a new output, and follows it from now on.

        Args:
            address, size: of its memory on the host, in bytes.
            dtype: the name of its element type.
        """
        pattern = _PATTERNS.get(dtype)
        if pattern is None or size == 0:
            return
        with self._lock:
            self._outputs[address] = _Output(address, size, pattern)
        self._new.__dict__.setdefault("addresses", []).append(address)

    def adopt(self, tensors: Any) -> None:
        """Follows the new outputs of this thread for as long as these tensors live.

        Args:
            tensors: the results of a call: one or a list.
        """
        new = self._new.__dict__.pop("addresses", None)
        if not new:
            return
        owners = tensors if isinstance(tensors, Sequence) else [tensors]
        alive = {_address(each): each for each in owners}
        for address in new:
            owner = alive.get(address)
            output = self._outputs.get(address)  # none: it was filled otherwise before the launch
            if owner is None or output is None or output.written.all():
                self.forget(address)
            else:
                weakref.finalize(owner, self.forget, address).atexit = False

    def forget(self, address: int) -> None:
        """Follows an output no longer."""
        with self._lock:
            self._outputs.pop(address, None)

    def follow(self, begin: int, size: int) -> np.ndarray | None:
        """Returns the record of writes to this memory for a launch; None if none is needed.

        Args:
            begin, size: what the launch maps, in bytes of the host.
        """
        if not self._outputs:
            return None
        with self._lock:
            found = [o for o in self._outputs.values() if o.begin < begin + size and begin < o.end]
            if len(found) == 1 and found[0].begin <= begin and begin + size <= found[0].end:
                output = found[0]
                if output.refresh():
                    return output.written[begin - output.begin : begin - output.begin + size]
            for each in found:  # wholly written, or joined with other memory
                del self._outputs[each.begin]
        return None


def _address(tensor: Any) -> int | None:
    if hasattr(tensor, "data_ptr"):
        return int(tensor.data_ptr())
    interface = getattr(tensor, "__array_interface__", None)
    return int(interface["data"][0]) if interface else None


#: Of this process.
OUTPUTS = Outputs()
