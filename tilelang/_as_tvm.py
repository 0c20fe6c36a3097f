"""``import tvm`` after ``import tilelang`` gives :mod:`tilelang.tvm` where no TVM is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OURS = "tilelang.tvm"
#: What TVM calls a module -> where its names are here, both below ``tvm``.
_ELSEWHERE = {
    "tirx": "tir",
    "arith.analyzer": "arith",
    "ir.expr": "ir",
    "ir.module": "ir",
    "target.target": "target",
    **{
        f"{tir}.{part}": "tir"
        for tir in ("tir", "tirx")
        for part in ("op", "expr", "stmt", "buffer")
    },
    **{f"{tir}.stmt_functor": "stmt_functor" for tir in ("tir", "tirx")},
}


class _Alias(Loader):
    """Gives a module that exists a second name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """None: an ordinary module, which :meth:`exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        found = importlib.import_module(self._name)
        if not hasattr(found, "__path__"):
            found.__path__ = []  # what TVM calls a package may be one file here
        sys.modules[module.__spec__.name] = found


def _alias(fullname: str, target: str) -> ModuleSpec:
    return ModuleSpec(fullname, _Alias(target), is_package=True)


class _Whole(MetaPathFinder):
    """Finds ``tvm``; stands last, so that an installed one comes first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        return _alias(fullname, _OURS) if fullname == "tvm" else None


class _Parts(MetaPathFinder):
    """Finds the modules below ``tvm``, if it is ours, and those of :data:`_ELSEWHERE`.

    It stands first: the files of the package are found under their own names alone.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        for prefix in ("tvm.", f"{_OURS}."):
            part = fullname.removeprefix(prefix)
            if part == fullname:
                continue
            if prefix == "tvm." and sys.modules.get("tvm") is not sys.modules.get(_OURS):
                return None
            found = f"{_OURS}.{_ELSEWHERE.get(part, part)}"
            if found == fullname or importlib.util.find_spec(found) is None:
                return None
            return _alias(fullname, found)
        return None


def install() -> None:
    """Makes ``import tvm`` find :mod:`tilelang.tvm`."""
    if not any(isinstance(finder, _Parts) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Parts())
        sys.meta_path.append(_Whole())
