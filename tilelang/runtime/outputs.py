"""Gives allocated outputs to the caller in the form of the tensors that were passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi


def to_user(result: Any, args: Sequence[Any]) -> Any:
    """Converts the launcher's result: one tensor stays one, several become a list.

    torch's tensors are made by tvm-ffi itself. For others the memory is shared through DLPack with
    the library that the first tensor argument comes from.
    """
    if isinstance(result, tvm_ffi.Array):
        return [_convert(tensor, args) for tensor in result]
    return _convert(result, args)


def _convert(tensor: Any, args: Sequence[Any]) -> Any:
    if not isinstance(tensor, tvm_ffi.Tensor):
        return tensor
    for arg in args:
        if hasattr(arg, "__dlpack__"):
            return _importer(arg)(tensor)
    return tensor


def _importer(array: Any) -> Any:
    """Returns ``from_dlpack`` of the library that an array belongs to."""
    import importlib

    name = type(array).__module__.partition(".")[0]
    # The classes of JAX arrays live in jaxlib.
    library = importlib.import_module("jax.numpy" if name.startswith("jax") else name)
    return library.from_dlpack
