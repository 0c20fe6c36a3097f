"""Finds computations of a solution in torch, outside of its kernels."""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

#: Operations that move, convert or allocate, by their names in aten. Views are allowed as well, and
#: operations without an input that is a tensor.
_MOVES = frozenset({
    "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "clone",
    "contiguous", "copy", "copy_", "detach", "detach_", "empty_like", "fill", "fill_", "full_like",
    "is_pinned", "lift", "lift_fresh", "new_empty", "new_empty_strided", "new_full", "new_ones",
    "new_zeros", "ones_like", "record_stream", "resize_", "set_", "zero", "zero_", "zeros_like",
})  # fmt: skip
#: Functions that hand all values of a tensor to Python or NumPy, where computations are not seen.
_LEAVES = {
    torch.Tensor.numpy: "Tensor.numpy", torch.Tensor.tolist: "Tensor.tolist",
    torch.Tensor.__array__: "Tensor.__array__",
}  # fmt: skip
_PACKAGE = Path(__file__).resolve().parents[1]
#: Files between a solution and the operation that it calls.
_BETWEEN = (str(Path(torch.__file__).parent), str(_PACKAGE / "emulator" / "cuda_devices.py"),
            __file__, "<")  # fmt: skip
#: Files that launch kernels. A launch is not a computation of the solution.
_LAUNCHERS = (str(_PACKAGE), f"{Path(np.__file__).parent}", "/triton/", "/tvm_ffi/", "/helion/")


def is_move(name: str) -> bool:
    """Returns whether an operation of aten only moves, converts or allocates."""
    return name in _MOVES


class Outside:
    """The operations of a solution outside of kernels.

    Attributes:
        found: how often by the name of the operation and the place in the solution.
    """

    def __init__(self) -> None:
        self.found: collections.Counter[tuple[str, str]] = collections.Counter()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Counts the operations of the block."""
        with _Functions(self), _Operations(self):
            yield

    def count(self, name: str) -> None:
        """Counts an operation, unless it belongs to the launch of a kernel."""
        place = _place()
        if place:
            self.found[name, place] += 1

    def document(self) -> list[dict[str, Any]]:
        """Returns the operations as documents list them."""
        return [
            {"operation": name, "place": place, "count": count}
            for (name, place), count in sorted(self.found.items())
        ]


class _Operations(TorchDispatchMode):
    """Reports operations that compute."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False: else the first operation imports torch._dynamo, which takes a second."""
        return False

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.rpartition("::")[2]
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        given = any(isinstance(each, torch.Tensor) for each in leaves)
        if given and name not in _MOVES and not func.is_view:
            self._outside.count(f"torch.{name}")
        return func(*args, **kwargs)


class _Functions(TorchFunctionMode):
    """Reports tensors that leave torch."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _LEAVES:
            self._outside.count(_LEAVES[func])
        return func(*args, **(kwargs or {}))


def _place() -> str:
    """Returns the line of the solution that asks for an operation; "" if a launch does."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_BETWEEN):
            if file.startswith(_LAUNCHERS[:2]) or any(part in file for part in _LAUNCHERS[2:]):
                return ""
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
