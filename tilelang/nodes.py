"""The classes of the core's objects, by the last part of their type key: ``nodes.KernelLaunch``.

They serve ``isinstance`` and annotations in functions that walk the IR, a kernel's schedule or its
remarks; the functions of the language make the objects. Fields and their types are in the stub.
"""

from __future__ import annotations

import functools
from typing import Any

from ._ffi import tvm_ffi


@functools.cache
def type_keys() -> tuple[str, ...]:
    """The type keys of the core's classes: parents first, then by name.

    The order of registration is the linker's, so it is none to rely on.
    """
    keys = tvm_ffi.get_global_func("ffi.GetRegisteredTypeKeys")()
    return tuple(sorted((str(key) for key in keys if str(key).startswith("tl.")), key=_rank))


def _info(key: str) -> Any:
    return tvm_ffi.core._lookup_or_register_type_info_from_type_key(key)


def fields(key: str) -> dict[str, str]:
    """The fields that a class adds to its parent's: name -> schema of the type, as JSON."""
    return {field.name: field.metadata["type_schema"] for field in _info(key).fields}


def parent(key: str) -> str:
    """The type key of the class that it extends."""
    return str(_info(key).parent_type_info.type_key)


def _rank(key: str) -> tuple[int, str]:
    """Returns the number of classes that it extends, and its name."""
    depth, above = 0, key
    while above.startswith("tl."):
        depth, above = depth + 1, parent(above)
    return depth, key


@functools.cache
def _by_name() -> dict[str, str]:
    return {key.rpartition(".")[2]: key for key in type_keys()}


def _class(key: str) -> Any:
    """The class of a type key: that of the package, or of objects seen so far; else a new one."""
    info = _info(key)
    if info.type_cls is None:
        base = _class(str(info.parent_type_info.type_key))
        made = type(key.rpartition(".")[2], (base,), {"__slots__": (), "__module__": __name__})
        tvm_ffi.register_object(key)(made)
    return _info(key).type_cls


def __getattr__(name: str) -> Any:
    key = _by_name().get(name)
    if key is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class(key)


def __dir__() -> list[str]:
    return [*_by_name(), "fields", "parent", "type_keys"]
