"""Random numbers of a thread, bit by bit as cuRAND's Philox generator gives them."""

from __future__ import annotations

from typing import Any

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import FLOAT32, UINT32, UINT64, VOID, DType
from ..ir.expr import Expr, call, cast
from ..ir.stmt import emit
from .allocate import alloc_local
from .builder import in_kernel
from .pointer import address_of
from .threads import get_block_binding, get_thread_binding, get_thread_extent

_evaluate = _ffi.get("ir.Evaluate")
_WORDS = 11
_HEADER = {"header": "random.h"}
_PHILOX = ("curandStatePhilox4_32_1", "curandStatePhilox4_32_10", "curandStatePhilox4_32_10_t")


def rng_init(
    seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_1"
) -> None:
    """Starts the generator of this thread, as ``curand_init(seed, seq, off, state)``.

    Args:
        seed: of all threads.
        seq: the sequence, by default ``threadIdx.x + blockIdx.x * blockDim.x``.
        off: numbers to skip.
        generator: Philox4x32-10, the only one.

    Raises:
        UnsupportedError: another generator.
    """
    builder = in_kernel("T.rng_init")
    if generator.rstrip("_t") not in {name.rstrip("_t") for name in _PHILOX}:
        raise errors.UnsupportedError(
            f"T.rng_init does not support generator={generator!r}",
            span=span.here(),
            notes=[f"use Philox4x32-10: {_PHILOX[0]!r}"],
        )
    if builder.random is None:
        builder.hints = ()
        builder.random = alloc_local((_WORDS,), UINT32)
    if seq is None:
        seq = get_thread_binding() + get_block_binding() * get_thread_extent()
    words = [cast(value, UINT64) for value in (seed, seq, off)]
    start = call(VOID, "tl::random_init", [address_of(builder.random), *words], _HEADER)
    emit(_evaluate(start, span.current()))


def _next(what: str, name: str, dtype: DType) -> Expr:
    builder = in_kernel(what)
    if builder.random is None:
        raise errors.SemanticsError(
            f"{what} before T.rng_init", span=span.here(), notes=["start it: T.rng_init(seed)"]
        )
    number = call(dtype, name, [address_of(builder.random)], _HEADER)
    return builder.bind(builder.take_hint("random"), number)


def rng_rand() -> Expr:
    """The next number of this thread, 32 random bits (uint32): ``curand(state)``."""
    return _next("T.rng_rand", "tl::random_next", UINT32)


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next number of this thread in (0, 1] (float32): ``curand_uniform(state)``.

    Args:
        bit: 32.
        dist: "uniform".

    Raises:
        UnsupportedError: another size or distribution.
    """
    if bit != 32 or dist != "uniform":
        raise errors.UnsupportedError(
            f"T.rng_rand_float does not support bit={bit}, dist={dist!r}",
            span=span.here(),
            notes=["it gives float32 numbers, uniform in (0, 1]; transform them yourself"],
        )
    return _next("T.rng_rand_float", "tl::random_uniform", FLOAT32)


__all__ = ["rng_init", "rng_rand", "rng_rand_float"]
