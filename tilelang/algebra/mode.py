"""The algebraic mode of the emulator."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilelang import _ffi
from tilelang.algebra.elements import PARTS, PTX_TYPES, Elements
from tilelang.emulator.launch_options import options
from tilelang.emulator.memory import extent_of
from tilelang.errors import UserError


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


class Algebra:
    """The elements of the floats of all arrays that kernels write in its mode.

    Arrays that a program changes in another way between two launches must be forgotten.
    """

    def __init__(self) -> None:
        self._handle = _ffi.get("emulator.Algebra")()

    @contextlib.contextmanager
    def mode(self, **changes: Any) -> Iterator[None]:
        """Runs the launches of the block in the algebraic mode, with options of launches."""
        with options(algebra=self._handle, **changes):
            yield

    def read(self, array: Any) -> Elements:
        """Returns the elements of an array of floats on the CPU; its exact values where none are.

        Raises:
            UserError: the elements of its dtype are not followed.
        """
        dtype = str(array.dtype).removeprefix("torch.")
        if dtype not in PTX_TYPES:
            raise UserError(
                f"elements of {dtype} are not followed in memory; there are {', '.join(PTX_TYPES)}"
            )
        values = Elements.of(array).values
        words = np.empty((*values.shape, PARTS), dtype=np.uint32)
        strides = (
            [stride // array.itemsize for stride in array.strides]
            if isinstance(array, np.ndarray)
            else array.stride()
        )
        read = _ffi.get("emulator.AlgebraRead")
        start = extent_of(array).start
        for index in np.ndindex(values.shape[:-1]) if values.ndim else [()]:
            offset = sum(i * stride for i, stride in zip(index, strides, strict=False))
            row = words[index]
            count = values.shape[-1] if values.ndim else 1
            if values.ndim and strides[-1] != 1:
                raise UserError("the elements of an array are read along rows without gaps")
            at = start + offset * array.itemsize
            read(self._handle, at, PTX_TYPES[dtype], count, int(row.ctypes.data))
        return Elements(words, values)

    def forget(self, array: Any) -> None:
        """Takes the floats of an array for their exact values from now on."""
        extent = extent_of(array)
        call = _ffi.get("emulator.AlgebraForget")
        call(self._handle, extent.storage, extent.storage_bytes)

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
