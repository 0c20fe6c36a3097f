"""Random numbers of a thread, in the order in which cuRAND's generators give them."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from .. import _ffi, errors
from ..ir import span
from ..ir.dtype import FLOAT32, UINT32, UINT64, VOID, DType, dtype_of
from ..ir.expr import Expr, call, cast
from ..ir.stmt import emit
from .allocate import alloc_local
from .builder import in_kernel
from .pointer import address_of
from .threads import get_block_binding, get_thread_binding, get_thread_extent

_evaluate = _ffi.get("ir.Evaluate")
_HEADER = {"header": "random.h"}
#: Words of the state behind those of a generator: Spare in random.h.
_SPARE_WORDS = 4


class _Generator(NamedTuple):
    """A generator of random.h, and the words of its state there."""

    name: str
    words: int


_PHILOX = _Generator("tl::Philox", 11)
#: cuRAND's types, without "_t".
_GENERATORS = {
    "curandStatePhilox4_32_1": _PHILOX,
    "curandStatePhilox4_32_10": _PHILOX,
    "curandStateXORWOW": _Generator("tl::Xorwow", 6),
    "curandStateMRG32k3a": _Generator("tl::Mrg32k3a", 6),
}
#: (bits, distribution) -> the function of random.h and its type.
_REALS = {
    (32, "uniform"): ("tl::random_uniform", FLOAT32),
    (64, "uniform"): ("tl::random_uniform_double", dtype_of("float64")),
    (32, "normal"): ("tl::random_normal", FLOAT32),
    (64, "normal"): ("tl::random_normal_double", dtype_of("float64")),
}


def _generator(name: str) -> _Generator:
    found = _GENERATORS.get(str(name).removesuffix("_t"))
    if found is None:
        near = difflib.get_close_matches(str(name), _GENERATORS, n=1)
        meant = f"did you mean {near[0] + '_t'!r}? " if near else ""
        raise errors.UnsupportedError(
            f"T.rng_init does not support generator={name!r}",
            span=span.here(),
            notes=[f"{meant}use one of {', '.join(repr(each + '_t') for each in _GENERATORS)}"],
        )
    return found


def rng_init(
    seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_1"
) -> None:
    """Starts the generator of this thread, as ``curand_init(seed, seq, off, state)``.

    Args:
        seed: of all threads.
        seq: the sequence, by default ``threadIdx.x + blockIdx.x * blockDim.x``.
        off: numbers to skip.
        generator: ``"curandStatePhilox4_32_10_t"``, ``"curandStateXORWOW_t"`` or
            ``"curandStateMRG32k3a_t"``.

    Raises:
        UnsupportedError: another generator.
        SemanticsError: the kernel has started one of another kind.
    """
    builder = in_kernel("T.rng_init")
    chosen = _generator(generator)
    if builder.random is None:
        builder.hints = ()
        builder.random = alloc_local((chosen.words + _SPARE_WORDS,), UINT32), chosen
    state, kind = builder.random
    if kind != chosen:
        raise errors.SemanticsError(
            f"T.rng_init with {generator!r}, but this kernel has started {kind.name[4:]} before",
            span=span.here(),
            notes=["a thread has one generator; use the same one in the whole kernel"],
        )
    if seq is None:
        seq = get_thread_binding() + get_block_binding() * get_thread_extent()
    words = [cast(value, UINT64) for value in (seed, seq, off)]
    function = f"tl::random_init<{chosen.name}>"
    emit(_evaluate(call(VOID, function, [address_of(state), *words], _HEADER), span.current()))


def _next(what: str, name: str, dtype: DType) -> Expr:
    builder = in_kernel(what)
    if builder.random is None:
        raise errors.SemanticsError(
            f"{what} before T.rng_init", span=span.here(), notes=["start it: T.rng_init(seed)"]
        )
    state, kind = builder.random
    number = call(dtype, f"{name}<{kind.name}>", [address_of(state)], _HEADER)
    return builder.bind(builder.take_hint("random"), number)


def rng_rand() -> Expr:
    """The next number of this thread, 32 random bits (uint32): ``curand(state)``."""
    return _next("T.rng_rand", "tl::random_next", UINT32)


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next number of this thread: ``curand_uniform(state)`` and its like.

    Args:
        bit: 32 for float32, 64 for float64.
        dist: ``"uniform"`` in (0, 1], or ``"normal"`` with mean 0 and variance 1.

    Raises:
        UnsupportedError: another size or distribution.
    """
    found = _REALS.get((bit, dist))
    if found is None:
        raise errors.UnsupportedError(
            f"T.rng_rand_float does not support bit={bit}, dist={dist!r}",
            span=span.here(),
            notes=['bit is 32 or 64, dist is "uniform" or "normal"'],
        )
    return _next("T.rng_rand_float", *found)


__all__ = ["rng_init", "rng_rand", "rng_rand_float"]
