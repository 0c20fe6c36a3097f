"""Programs that both blocks of a pair carry out, their gemms together.

Each block has an output of its own, in a first dimension that the program of one block lacks; both
must hold what that program computes. Where B of a gemm is loaded for gemms alone, each block loads
its half of the columns, else it copies the half from the whole tile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from fuzz.programs import model
from fuzz.programs.model import Buffer, Linear, Region

_RANK = Linear(0, (("rank", 1),))


def are_possible(program: model.Program) -> bool:
    """Whether there are gemms, all of which wait for their result."""
    gemms = [s for s in model.walk(program.body) if isinstance(s, model.Gemm)]
    fits = all(
        not s.barrier and s.c.extents[-2] % 128 == 0 and s.c.extents[-1] % 32 == 0 for s in gemms
    )
    return program.target == "sm_100a" and bool(gemms) and fits


def _mapped(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """``change(old, new)`` of every part of a program, the inner ones first; lists are spliced."""
    if isinstance(value, tuple):
        parts: list[Any] = []
        for item in value:
            new = _mapped(item, change)
            parts += new if isinstance(new, list) else [new]
        return tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        new = dataclasses.replace(value, **{n: _mapped(v, change) for n, v in fields.items()})
        return change(value, new)
    return value


def _columns(s: model.Gemm) -> int:
    """The dimension of B that N is."""
    return len(s.b.extents) - (2 if s.transpose_b else 1)


def _loaded_as_halves(body: tuple) -> dict[Buffer, int]:
    """Tiles of B that hold nothing else, with the dimension to be halved."""
    found: dict[Buffer, int] = {}
    other: set[Buffer] = set()
    for s in model.walk(body):
        if isinstance(s, model.Gemm):
            other.update((s.a.buffer, s.c.buffer))
            dim = _columns(s)
            whole = s.b.is_whole and s.b.buffer.scope == "shared"
            if not whole or found.setdefault(s.b.buffer, dim) != dim:
                other.add(s.b.buffer)
        elif isinstance(s, model.Copy):
            other.add(s.src.buffer)
            if not s.dst.is_whole or s.src.buffer.scope != "input":
                other.add(s.dst.buffer)
        else:
            read, written = model.touched(s)
            other.update(read, written)
    return {buffer: dim for buffer, dim in found.items() if buffer not in other}


def _half(extents: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*extents[:dim], extents[dim] // 2, *extents[dim + 1 :])


def _half_of(region: Region, dim: int) -> Region:
    """The half of this block of a region."""
    low = region.mins[dim]
    low = Linear(low.const, (*low.terms, ("rank", region.extents[dim] // 2)))
    mins = (*region.mins[:dim], low, *region.mins[dim + 1 :])
    return dataclasses.replace(region, mins=mins, extents=_half(region.extents, dim))


def of(program: model.Program) -> model.Program:
    """The program that a block of a pair carries out."""
    halves = _loaded_as_halves(program.body)
    number = 900

    def change(old: Any, new: Any) -> Any:
        nonlocal number
        if isinstance(old, Buffer):
            if old.scope == "output":
                return dataclasses.replace(old, shape=(2, *old.shape))
            if old in halves:
                return dataclasses.replace(old, shape=_half(old.shape, halves[old]))
        elif isinstance(old, Region):
            if old.buffer.scope == "output":
                extents = (1, *old.extents)
                return dataclasses.replace(new, mins=(_RANK, *old.mins), extents=extents)
            if old.buffer in halves:
                return model.whole(new.buffer)
        elif isinstance(old, (model.Load, model.Store)):
            if old.buffer.scope == "output":
                return dataclasses.replace(new, indices=(_RANK, *new.indices))
        elif isinstance(old, model.Copy) and old.dst.buffer in halves:
            return dataclasses.replace(new, src=_half_of(new.src, halves[old.dst.buffer]))
        elif isinstance(old, model.Persistent):
            return dataclasses.replace(new, counted=False)
        elif isinstance(old, model.Gemm) and old.b.buffer not in halves:
            number += 1
            dim = _columns(old)
            tile = Buffer(f"s{number}", _half(old.b.extents, dim), old.b.buffer.dtype, "shared")
            copy = model.Copy(_half_of(new.b, dim), model.whole(tile))
            return [copy, dataclasses.replace(new, b=model.whole(tile))]
        return new

    return dataclasses.replace(program, body=_mapped(program.body, change))
