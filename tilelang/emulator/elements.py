"""Elements of the algebraic mode in memory that a program moves by itself."""

from __future__ import annotations

import numpy as np

from tilelang import _ffi

from .launch_options import current


def forget(data: np.ndarray) -> None:
    """Takes the floats of an array for their exact values, where elements are followed."""
    if (algebra := current().algebra) is not None:
        _ffi.get("emulator.AlgebraForget")(algebra, data.ctypes.data, data.nbytes)


def copied(target: np.ndarray, source: np.ndarray) -> None:
    """Copies the elements of floats between arrays of bytes, where elements are followed."""
    if (algebra := current().algebra) is not None:
        call = _ffi.get("emulator.AlgebraCopy")
        call(algebra, target.ctypes.data, source.ctypes.data, target.nbytes)
