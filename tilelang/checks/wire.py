"""Messages between the process that judges and those that it judges.

A message is a JSON object and some arrays of bytes. Nothing in it is executed by its receiver, so a
program cannot do more to the process that judges it than to send wrong numbers.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UserError

_HEAD = struct.Struct("<QQ")
#: A JSON text of more bytes is no message of ours.
_MOST_TEXT = 1 << 30
_PIECE = 1 << 24

Message = tuple[dict[str, Any], list[np.ndarray]]


class Ended(Exception):
    """The other process has ended."""


class Wire:
    """One end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._owner = connection, os.getpid()
        self.lock = threading.RLock()

    @property
    def is_own(self) -> bool:
        """Whether this process made it. A process that a program has forked must not use it."""
        return self._owner == os.getpid()

    def send(self, fields: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
        """Sends a message.

        Raises:
            Ended: nobody reads it.
        """
        parts = [np.ascontiguousarray(each).view(np.uint8).ravel() for each in arrays]
        text = json.dumps({**fields, "sizes": [part.size for part in parts]}).encode()
        try:
            self._socket.sendall(_HEAD.pack(len(text), sum(part.size for part in parts)) + text)
            for part in parts:
                self._socket.sendall(part.data)
        except OSError:  # also after close()
            raise Ended from None

    def receive(self) -> Message:
        """Waits for a message.

        Raises:
            Ended: the other process has ended, or sends something else.
        """
        length, _ = _HEAD.unpack(self._read(_HEAD.size))
        if length > _MOST_TEXT:
            raise Ended
        try:
            fields = json.loads(self._read(length))
            sizes = fields.pop("sizes")
        except (ValueError, KeyError, AttributeError):
            raise Ended from None
        return fields, [np.frombuffer(self._read(size), np.uint8) for size in sizes]

    def ask(self, fields: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> Message:
        """Sends a message, and waits for the answer."""
        with self.lock:
            self.send(fields, arrays)
            return self.receive()

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            try:
                count = self._socket.recv_into(view[done : done + _PIECE])
            except OSError:
                count = 0
            if count == 0:
                raise Ended
            done += count
        return data


# Values ---------------------------------------------------------------------------------------


def packed(value: Any, arrays: list[np.ndarray]) -> Any:
    """Returns a value as JSON; tensors go into ``arrays``, with their strides.

    Raises:
        UserError: it is no number, text, tensor, or list, tuple or dictionary of such.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [packed(each, arrays) for each in value]}
    if isinstance(value, dict):
        return {
            "dict": [[packed(key, arrays), packed(each, arrays)] for key, each in value.items()]
        }
    if isinstance(value, np.ndarray):
        import torch

        value = torch.from_numpy(np.ascontiguousarray(value))
    if not hasattr(value, "untyped_storage"):
        raise UserError(f"an input of type {type(value).__name__} cannot be handed to a program")
    arrays.append(_bytes(value))
    return {
        "tensor": len(arrays) - 1, "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape), "strides": list(value.stride()),
    }  # fmt: skip


def unpacked(value: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Returns the value that :func:`packed` has packed."""
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "dict" in value:
        return {unpacked(key, arrays): unpacked(each, arrays) for key, each in value["dict"]}
    for kind in (list, tuple):
        if kind.__name__ in value:
            return kind(unpacked(each, arrays) for each in value[kind.__name__])
    return tensor_at(np.array(arrays[value["tensor"]]), value)


def tensor_at(data: np.ndarray, fields: dict[str, Any]) -> Any:
    """Returns the tensor of a dtype, a shape and strides whose elements begin at ``data``.

    Raises:
        ValueError: ``data`` is too short.
    """
    import torch

    dtype = getattr(torch, fields["dtype"])
    shape, strides = [int(n) for n in fields["shape"]], [int(n) for n in fields["strides"]]
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if min([0, *strides]) < 0 or (last + 1) * dtype.itemsize > data.size:
        raise ValueError("a tensor of the message is larger than the bytes sent for it")
    whole = torch.from_numpy(data[: (last + 1) * dtype.itemsize]).view(dtype)
    return torch.as_strided(whole, shape, strides)


def _bytes(tensor: Any) -> np.ndarray:
    """Returns the bytes from the first to the last element of a tensor."""
    import torch

    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.numel() == 0:
        return np.zeros(0, np.uint8)
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = torch.as_strided(tensor, (last + 1,), (1,))
    return flat.contiguous().view(torch.uint8).numpy()  # type: ignore[no-any-return]
