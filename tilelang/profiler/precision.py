"""The relative error that each rounding inside of a correct kernel may cause."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

#: Instructions that work with fewer bits than float32 has, whatever the dtype of the inputs.
_COARSE = re.compile(r"\.tf32\b|\btanh\.approx\.f32\b")
_COARSE_UNIT = 2.0**-10  # tf32 has 10 bits of mantissa; tanh.approx.f32 an error of 2^-11
#: Conversions to types of 8 bits and fewer: the kernel quantises.
_QUANTISES = re.compile(r"\bcvt\.\S*\.(?:e4m3|e5m2|e2m1|e2m3|e3m2)x[24]\.(?:f|bf)")
_FLOAT16_SUMS = re.compile(r"\bmma\.\S*\.f16\.f16\.f16\.f16\b|\bwgmma\.\S*\.f16\.f16\.f16\b")
#: Tensor cores of sm_90a keep 13 bits of the fraction of each term of such sums.
_SHORT_SUMS = re.compile(r"\b(?:wg)?mma\.\S*\.(?:e4m3|e5m2)\b")
_SHORT_UNIT, _MOST = 2.0**-16, 2.0**-4
#: Partial sums of float32 over fewer elements than this are not distinguished.
_SHORTEST = 16


class Precision:
    """The precision of a kernel, by the dtypes of its inputs and outputs and by its PTX.

    Attributes:
        unit: relative error of a rounding inside of the kernel, in units of the last place of the
            type that it may round to: that of its inputs; tf32 for float32 if the PTX has tf32.
        bias: relative error that all elements may share: half a unit where the kernel rounds to the
            nearest number, a constant for example; a unit where tensor cores cut digits off.
    """

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor], ptx: str) -> None:
        """Reads the dtypes of tensors and the PTX of the kernels ("" if unknown)."""
        self._ptx = ptx
        self._quantises = bool(_QUANTISES.search(ptx))
        self._results = {each.dtype for each in outputs}
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        kinds = {each.dtype for each in tensors if each.is_floating_point()}
        length = _longest_sum(tensors, outputs)
        to_nearest = [self.unit_of(kind) for kind in kinds if kind.itemsize <= 2]
        units = [self.unit_of(kind) for kind in kinds if kind.itemsize > 2]
        if torch.float16 in kinds and _FLOAT16_SUMS.search(ptx):
            units.append(2.0**-10 * math.sqrt(length))
        if _SHORT_SUMS.search(ptx):
            units.append(min(_SHORT_UNIT * length, _MOST))
        widest = torch.float64 if kinds == {torch.float64} else torch.float32
        self._sums = torch.finfo(widest).eps * math.sqrt(length)
        units.append(self._sums)
        self.unit = max(units + to_nearest)
        self.bias = max([*units, *(unit / 2 for unit in to_nearest)])

    def unit_of(self, dtype: torch.dtype) -> float:
        """Returns the unit of a value of this dtype where the kernel works with it."""
        info = torch.finfo(dtype)
        if info.bits < 16:
            if self._quantises and dtype not in self._results:
                return info.eps
            return 2.0**-7 if "bf16" in self._ptx else 2.0**-10
        if info.bits == 32 and _COARSE.search(self._ptx):
            return _COARSE_UNIT
        return info.eps

    @property
    def step(self) -> Callable[[torch.dtype], float]:
        """Returns how far an input moves if it is rounded again: a quarter unit on average.

        An input of 32 bits or more moves as the roundings of a sum of such numbers move the sum.
        """
        return lambda dtype: max(self.unit_of(dtype), self._sums * (dtype.itemsize > 2)) / 4


def _longest_sum(inputs: Iterable[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Returns an upper bound of the number of terms in the sums of a kernel."""
    results = max((each.numel() for each in outputs), default=1) or 1
    found = [_SHORTEST]
    for each in inputs:
        found += [*each.shape, each.numel() // results]
    return max(found)
