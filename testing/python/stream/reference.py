"""What NumPy cuts of an array, for comparing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tilelang.stream import Batch


def random_array(shape: Sequence[int], dtype: str, seed: int = 0) -> np.ndarray:
    """Random bits as elements; floating-point ones are finite."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def cut(
    array: np.ndarray, tile: Sequence[int], order: Sequence[int] | None = None, pad: object = 0
) -> np.ndarray:
    """All tiles of an array, ``(count, *tile)``, padded at its edges."""
    rank = array.ndim
    counts = [-(-s // n) for s, n in zip(array.shape, tile, strict=True)]
    whole = np.full([t * n for t, n in zip(counts, tile, strict=True)], pad, array.dtype)
    whole[tuple(slice(0, s) for s in array.shape)] = array
    split = whole.reshape([e for pair in zip(counts, tile, strict=True) for e in pair])
    axes = [2 * d + 1 for d in (order or range(rank))]
    cut_ = split.transpose([2 * d for d in range(rank)] + axes)
    return cut_.reshape(-1, *cut_.shape[rank:])


def collect(batches: Iterable[Batch]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Copies of the tiles and places of batches, which are released."""
    return [(np.from_dlpack(batch.tiles).copy(), batch.index.copy()) for batch in batches]
