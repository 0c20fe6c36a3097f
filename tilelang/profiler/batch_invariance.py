"""Checks that the result of a row does not depend on the other rows of its batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import UserError
from .compare import as_list

#: The schedules of the emulator under which each batch is computed on the CPU.
SCHEDULES: tuple[str | int, ...] = ("late", "eager", 1)


def assert_batch_invariant(
    run: Callable[..., Any],
    *inputs: Any,
    batch_axes: Sequence[int | None] | None = None,
    output_axes: int | Sequence[int | None] | None = 0,
    sizes: Iterable[int] | None = None,
    schedules: Iterable[str | int] | None = None,
) -> None:
    """Checks that a row has the same bits in every batch that it is part of.

    ``run`` computes the whole batch first. Then the first and the last ``n`` rows are computed
    alone, for each ``n`` of ``sizes``, and compared bit by bit with their rows of the whole::

        assert_batch_invariant(lambda x, w: kernel(x, w), x, w, batch_axes=(0, None))

    A kernel is not batch invariant where the tile, the number of splits or the order of a sum
    depends on the number of rows or on which block comes first (atomics on floats).

    Args:
        run: called with the inputs, returns one output or several; a kernel, or a function that
            chooses one by the shapes it is given.
        inputs: torch tensors of the whole batch and whatever else ``run`` takes.
        batch_axes: for each input the axis along which the rows of the batch lie, None where it is
            the same for all; by default 0 for the first input, None for the others.
        output_axes: the same for the outputs; one number holds for all.
        sizes: numbers of rows to compute alone; by default 1, 2, 3, powers of two and their
            neighbours, up to all rows but one.
        schedules: those of the emulator that are tried where the inputs are on the CPU, see
            :class:`tilelang.emulator.Options`; :data:`SCHEDULES` by default. On a GPU each batch is
            computed twice instead.

    Raises:
        AssertionError: names the rows, the output, how many elements differ and the first of them.
        UserError: no input has a batch axis, their extents differ, or a size does not fit.
    """
    axes = _axes_of_inputs(inputs, batch_axes)
    rows = _rows(inputs, axes)
    chosen = _sizes(rows, sizes)
    for attempt in _attempts(inputs, schedules):
        with attempt:
            whole = [each.clone() for each in as_list(run(*inputs))]
            again = as_list(run(*inputs))
            kept = _axes_of_outputs(whole, output_axes)
            _compare("the same batch, computed again", again, whole, kept, 0, rows)
            for size in chosen:
                for start in sorted({0, rows - size}):
                    part = as_list(run(*_part(inputs, axes, start, size)))
                    label = f"rows {start} to {start + size - 1} of {rows}, computed alone"
                    _compare(label, part, whole, kept, start, size)


def _axes_of_inputs(inputs: Sequence[Any], axes: Sequence[int | None] | None) -> list[int | None]:
    if axes is None:
        return [0, *[None] * (len(inputs) - 1)][: len(inputs)]
    if len(axes) != len(inputs):
        raise UserError(f"batch_axes has {len(axes)} entries for {len(inputs)} inputs")
    return list(axes)


def _axes_of_outputs(
    outputs: Sequence[Any], axes: int | Sequence[int | None] | None
) -> list[int | None]:
    if not outputs:
        raise UserError("assert_batch_invariant: run returns no output to compare")
    if axes is None or isinstance(axes, int):
        return [axes] * len(outputs)
    if len(axes) != len(outputs):
        raise UserError(f"output_axes has {len(axes)} entries for {len(outputs)} outputs")
    return list(axes)


def _rows(inputs: Sequence[Any], axes: Sequence[int | None]) -> int:
    """Returns the extent of the batch, which all inputs with a batch axis share."""
    extents = {
        int(each.shape[axis]) for each, axis in zip(inputs, axes, strict=True) if axis is not None
    }
    if not extents:
        raise UserError("assert_batch_invariant: no input has a batch axis; give batch_axes=")
    if len(extents) > 1:
        found = ", ".join(map(str, sorted(extents)))
        raise UserError(f"assert_batch_invariant: the inputs have batches of {found} rows")
    return extents.pop()


def _sizes(rows: int, sizes: Iterable[int] | None) -> list[int]:
    if rows < 2:
        raise UserError(f"assert_batch_invariant needs at least two rows, got {rows}")
    if sizes is None:
        powers = (1 << exponent for exponent in range(rows.bit_length()))
        near = {1, 2, 3, rows - 1, *(p + d for p in powers for d in (-1, 0, 1))}
        return sorted(size for size in near if 0 < size < rows)
    chosen = sorted(set(sizes))
    wrong = [size for size in chosen if not 0 < size <= rows]
    if wrong:
        raise UserError(f"assert_batch_invariant: sizes={wrong[0]}, but there are {rows} rows")
    return chosen


def _attempts(inputs: Sequence[Any], schedules: Iterable[str | int] | None) -> list[Any]:
    if any(getattr(each, "is_cuda", False) for each in inputs):
        if schedules is not None:
            raise UserError("assert_batch_invariant: schedules are those of the emulator, which "
                            "computes on CPU tensors")  # fmt: skip
        return [contextlib.nullcontext()]
    from ..emulator import options

    return [options(schedule=each) for each in (SCHEDULES if schedules is None else schedules)]


def _part(inputs: Sequence[Any], axes: Sequence[int | None], start: int, size: int) -> list[Any]:
    """Returns the inputs of some rows, copied into tensors of their own."""
    return [
        each if axis is None else each.narrow(axis, start, size).contiguous()
        for each, axis in zip(inputs, axes, strict=True)
    ]


def _compare(
    label: str,
    part: Sequence[Any],
    whole: Sequence[Any],
    axes: Sequence[int | None],
    start: int,
    size: int,
) -> None:
    assert len(part) == len(whole), f"{label}: {len(part)} outputs instead of {len(whole)}"
    for number, (got, full, axis) in enumerate(zip(part, whole, axes, strict=True)):
        want = full if axis is None else full.narrow(axis, start, size)
        shapes = tuple(got.shape), tuple(want.shape)
        assert shapes[0] == shapes[1], (
            f"{label}: output {number} has shape {shapes[0]} instead of {shapes[1]}"
        )
        _compare_bits(f"{label}: output {number}", got, want)


def _compare_bits(label: str, got: Any, want: Any) -> None:
    import torch

    width = got.element_size()
    flat = (each.reshape(-1).contiguous() for each in (got, want))
    as_bytes = (each.view(torch.uint8).reshape(-1, width) for each in flat)
    differ = torch.ne(*as_bytes).any(dim=1)
    if not bool(differ.any()):
        return
    first = int(differ.int().argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(first), got.shape))
    raise AssertionError(
        f"{label}: {int(differ.sum())} of {differ.numel()} elements differ from the whole "
        f"batch; the first is at {place}: {got[place].item()!r} instead of {want[place].item()!r}"
    )
