"""The receipt of a verdict: what it depends on, so that others can check it again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks.check import versions
from ..checks.wire import packed
from ..emulator.instructions import fidelities

if TYPE_CHECKING:
    from ..profiler.judge import Comparison


class Receipt:
    """Collects what the verdict on one target depends on."""

    def __init__(self) -> None:
        self._inputs: list[str] = []

    def compared(self, comparisons: Iterable[Comparison]) -> None:
        """Takes the inputs of a run that is compared with a reference."""
        for each in comparisons:
            self._inputs.append(_digest(each.inputs))

    def document(self, texts: Iterable[str], schedules: Iterable[str | int]) -> dict[str, Any]:
        """Returns the receipt.

        Args:
            texts: the PTX of all modules.
            schedules: those that were tried.
        """
        kept = sorted(texts)
        return {
            "versions": versions(),
            "ptx": [hashlib.sha256(text.encode()).hexdigest() for text in kept],
            "inputs": self._inputs, "schedules": list(schedules),
            "instructions": fidelities("\n".join(kept)),
        }  # fmt: skip


def _digest(inputs: list[Any]) -> str:
    arrays: list[np.ndarray] = []
    digest = hashlib.sha256(repr(packed(inputs, arrays)).encode())
    for each in arrays:
        digest.update(each.tobytes())
    return digest.hexdigest()
