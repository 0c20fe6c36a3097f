"""Kernels that sweep over memory: element by element, and sums of rows."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from ...errors import ConfigError
from ..estimate import sweep_seconds
from ..hint import Hint
from .base import Template, bits_of

_THREADS = (64, 128, 256, 512)
#: Elements of a side of a square that is transposed: whole lines of both tensors.
_SIDE = 64


@dataclasses.dataclass
class ElementwiseTemplate(Template):
    """A result of ``shape``, each element computed from one of an operand.

    A block has consecutive elements: extents of 1, then a part of one dimension, then whole ones.

    Attributes:
        shape: extents.
        dtype: type of the elements.
        transposed: whether the last dimension of the operand is the one before it: blocks are
            squares then.
    """

    shape: Sequence[int]
    dtype: str = "float16"
    transposed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need_shape(self.shape)
        if not self.shape:
            raise ConfigError("ElementwiseTemplate: the shape must have at least one dimension")

    def _candidates(self) -> list[Hint]:
        bits, elements = bits_of(self.dtype), math.prod(self.shape)
        hints = []
        for threads, vectors in itertools.product(_THREADS, (1, 2, 4)):
            block = _consecutive(self.shape, threads * vectors * 128 // bits)
            if self.transposed:
                block = _square(self.shape)
            size = math.prod(block)
            moved = 2 * size * bits / 8
            seconds = sweep_seconds(self.arch, math.ceil(elements / size), moved, threads)
            hints.append(Hint(block, thread=_spread(block, threads), seconds=seconds))
        return hints


def _square(shape: Sequence[int]) -> list[int]:
    """The extents of a block that is transposed."""
    sides = [min(_SIDE, 1 << (extent.bit_length() - 1)) for extent in shape[-2:]]
    return [1] * (len(shape) - len(sides)) + sides


def _consecutive(shape: Sequence[int], size: int) -> list[int]:
    """The extents of a block of about ``size`` consecutive elements, each a power of two or all."""
    block: list[int] = []
    for extent in reversed(shape):
        block.insert(0, extent if extent <= size else 1 << (size.bit_length() - 1))
        size = max(1, size // extent)
    return block


def _spread(block: Sequence[int], threads: int) -> list[int]:
    """Threads along each dimension, the most along the last ones."""
    spread: list[int] = []
    for axis, extent in reversed(list(enumerate(block))):
        along = threads if axis == 0 else min(threads, 1 << (extent.bit_length() - 1))
        spread.insert(0, along)
        threads //= along
    return spread


@dataclasses.dataclass
class GeneralReductionTemplate(Template):
    """Sums (or others) over some dimensions of a tensor.

    Attributes:
        structure: a letter for each dimension: "S" for one of the result, "R" for a reduced one.
        shape: extents.
        dtype: type of the elements.
    """

    structure: str | Sequence[str]
    shape: Sequence[int]
    dtype: str = "float16"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._need_shape(self.shape)
        letters = list(self.structure)
        if len(letters) != len(self.shape) or not set(letters) <= {"S", "R"} or "R" not in letters:
            raise ConfigError(
                f"GeneralReductionTemplate(structure={self.structure!r}, shape={self.shape!r}): "
                'structure must have a letter for each dimension, "S" or "R", and at least one "R"'
            )

    def _candidates(self) -> list[Hint]:
        letters, bits = list(self.structure), bits_of(self.dtype)
        kept = [extent for letter, extent in zip(letters, self.shape, strict=True) if letter == "S"]
        reduced = [e for letter, e in zip(letters, self.shape, strict=True) if letter == "R"]
        vector = 128 // bits
        hints = []
        for threads, rows in itertools.product(_THREADS, (1, 2, 4, 8, 16, 32, 64, 128)):
            # Rows that lie one after the other are read along them, columns across.
            along = letters[-1] == "R"
            shared = threads // rows if along else 1
            width = rows if along else min(threads * vector, 1 << (kept[-1].bit_length() - 1))
            if shared < 1 or (not along and rows > 1):
                continue
            block = _consecutive(kept, width) if kept else []
            steps = _consecutive(reduced, max(1, shared * vector if along else 16))
            blocks = math.prod(math.ceil(k / b) for k, b in zip(kept, block, strict=True))
            moved = math.prod(block) * math.prod(reduced) * bits / 8
            seconds = sweep_seconds(self.arch, blocks, moved, threads)
            hints.append(
                Hint(
                    block,
                    thread=_spread(block, threads // shared) if block else [],
                    rstep=steps,
                    reduce_thread=[shared],
                    seconds=seconds,
                )
            )
        return hints
