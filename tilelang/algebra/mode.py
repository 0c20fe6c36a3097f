"""The algebraic mode of the emulator."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang import _ffi
from tilelang.algebra.elements import BIT_TYPES, PARTS, PTX_TYPES, Elements
from tilelang.emulator.launch_options import options
from tilelang.emulator.memory import extent_of
from tilelang.errors import UserError

if TYPE_CHECKING:
    from .torch_mode import FunctionMode, TorchMode


@dataclass(frozen=True)
class Remark:
    """What an instruction did that a reader of the result should know.

    Attributes:
        broken: it computed with the bits of a float whose element is lost. Else it is a cast that
            dropped bits, which counts as the identity.
        instruction: its spelling.
        place: the source line, or the PTX line.
        count: how many floats it did that to.
    """

    broken: bool
    instruction: str
    place: str
    count: int

    def __str__(self) -> str:
        what = "loses the element of" if self.broken else "drops bits of"
        return f"{self.place}: {self.instruction} {what} {self.count} floats"


def _remark(fields: dict[str, Any]) -> Remark:
    place = f"{fields['source_file']}:{fields['source_line']}"
    if not fields["source_file"]:
        place = f"PTX line {fields['ptx_line']}"
    return Remark(bool(fields["broken"]), fields["spelling"], place, int(fields["count"]))


def _dtype_of(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


def _ptx_type(array: Any) -> str:
    dtype = _dtype_of(array)
    found = PTX_TYPES.get(dtype) or BIT_TYPES.get(dtype)
    if found is None:
        raise UserError(
            f"the algebraic mode does not support tensors of {dtype}; it supports "
            f"{', '.join(PTX_TYPES)}"
        )
    return found


def _rows(array: Any) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """Yields the index of each row, its address, the bytes between its elements and their number.

    An array without gaps is one row.
    """
    size = array.itemsize
    steps = (
        list(array.strides)
        if isinstance(array, np.ndarray)
        else [stride * size for stride in array.stride()]
    )
    shape, start = tuple(array.shape), extent_of(array).start
    dense = [size * int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    count = int(np.prod(shape))
    if count == 0:
        return
    if all(n == 1 or step == full for n, step, full in zip(shape, steps, dense, strict=True)):
        yield (), start, size, count
        return
    for index in np.ndindex(shape[:-1]):
        offset = sum(i * step for i, step in zip(index, steps, strict=False))
        yield index, start + offset, steps[-1], shape[-1]


class Algebra:
    """The elements of the floats of all arrays that kernels and torch write in its mode.

    Arrays that a program changes in another way between two launches must be forgotten.
    """

    def __init__(self) -> None:
        self._handle = _ffi.get("emulator.Algebra")()

    @contextlib.contextmanager
    def mode(
        self, seed: int | None = None, **changes: Any
    ) -> Iterator[tuple[TorchMode, FunctionMode] | None]:
        """Runs the block in the algebraic mode: launches, and operations of torch.

        Args:
            seed: of the elements of random tensors. With a seed, ``torch.allclose``,
                ``torch.isclose``, ``torch.equal`` and what calls them compare elements.
            changes: options of launches.

        Yields:
            what follows torch and what compares tensors; None if torch is not imported.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(options(algebra=self._handle, **changes))
            if "torch" not in sys.modules:
                yield None
                return
            from .torch_mode import following

            yield stack.enter_context(following(self, seed))

    def read(self, array: Any) -> Elements:
        """Returns the elements of an array of floats on the CPU; its exact values where none are.

        Of an array of integers: the elements of the floats whose bits they are, else unknown ones.

        Raises:
            UserError: the elements of its dtype are not followed.
        """
        dtype = _ptx_type(array)
        values = Elements.of(array).values
        words = np.empty((*values.shape, PARTS), dtype=np.uint32)
        call = _ffi.get("emulator.AlgebraRead")
        for index, place, stride, count in _rows(array):
            call(self._handle, place, dtype, stride, count, int(words[index].ctypes.data))
        found = Elements(words, values)
        return found._known() if _dtype_of(array) in PTX_TYPES else found

    def write(self, array: Any, elements: Elements) -> None:
        """Gives the floats of an array elements; the floats themselves stay.

        Raises:
            UserError: the elements of its dtype are not followed.
        """
        dtype = _ptx_type(array)
        words = np.ascontiguousarray(elements.words.reshape(*array.shape, PARTS))
        call = _ffi.get("emulator.AlgebraWrite")
        for index, place, stride, count in _rows(array):
            call(self._handle, place, dtype, stride, count, int(words[index].ctypes.data))

    def draw(self, array: Any, seed: int, number: int = 0) -> None:
        """Gives the floats of an array random elements; see :meth:`Elements.drawn`.

        An array whose floats have elements keeps them: it is the same input once more.
        """
        if not self.has(array):
            self.write(array, Elements.drawn(array, seed, number))

    def has(self, array: Any) -> bool:
        """Returns whether a float of an array has an element other than its exact value."""
        extent = extent_of(array)
        call = _ffi.get("emulator.AlgebraHas")
        return bool(call(self._handle, extent.begin, extent.end - extent.begin))

    def forget(self, array: Any) -> None:
        """Takes the floats of an array for their exact values from now on."""
        extent = extent_of(array)
        call = _ffi.get("emulator.AlgebraForget")
        call(self._handle, extent.begin, extent.end - extent.begin)

    @property
    def remarks(self) -> list[Remark]:
        """Returns what instructions did to floats, by source line; broken ones first."""
        found = json.loads(str(_ffi.get("emulator.AlgebraRemarks")(self._handle)))
        remarks: dict[tuple[bool, str, str], Remark] = {}
        for one in map(_remark, found):
            key = (one.broken, one.instruction, one.place)
            count = one.count + (remarks[key].count if key in remarks else 0)
            remarks[key] = replace(one, count=count)
        return list(remarks.values())
