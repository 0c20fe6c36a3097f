"""Smaller programs that fail alike, and standalone reproducers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.outcome import Outcome
from fuzz.programs import check, model, source
from fuzz.programs.model import Program, Statement


def _replaced(
    body: tuple[Statement, ...], edit: Callable[[Statement], Iterator[tuple[Statement, ...]]]
) -> Iterator[tuple[Statement, ...]]:
    """Every body that one edit of one statement, at any depth, gives."""
    for n, statement in enumerate(body):
        for changed in edit(statement):
            yield (*body[:n], *changed, *body[n + 1 :])
        for name in model.BODIES.get(type(statement), ()):
            value = getattr(statement, name)
            if name == "bodies":
                for i, part in enumerate(value):
                    for inner in _replaced(part, edit):
                        parts = (*value[:i], inner, *value[i + 1 :])
                        yield (*body[:n], replace(statement, bodies=parts), *body[n + 1 :])
            else:
                for inner in _replaced(value, edit):
                    yield (*body[:n], replace(statement, **{name: inner}), *body[n + 1 :])


def _removed(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    yield ()


def _simpler(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    """What may take a statement's place."""
    if isinstance(statement, model.If):
        yield statement.then
        yield statement.orelse
    if isinstance(statement, model.Role):
        yield from statement.bodies
        if len(statement.bodies) > 1 and not statement.chained:
            for n in range(len(statement.bodies)):
                yield (
                    replace(
                        statement,
                        conditions=statement.conditions[:n] + statement.conditions[n + 1 :],
                        bodies=statement.bodies[:n] + statement.bodies[n + 1 :],
                    ),
                )
    if isinstance(statement, model.For):
        if statement.kind != "serial":
            yield (replace(statement, kind="serial"),)
        elif statement.stop.is_constant and statement.stop.const > 1:
            yield (replace(statement, stop=statement.stop.plus(-1)),)
        if statement.num_stages > 1:
            yield (replace(statement, num_stages=statement.num_stages - 1),)
    if isinstance(statement, model.Copy) and statement.disable_tma:
        yield (replace(statement, disable_tma=False),)
    if isinstance(statement, model.Parallel):
        for n, store in enumerate(statement.stores):
            for value in _simpler_value(store.value):
                changed = replace(store, value=value)
                stores = (*statement.stores[:n], changed, *statement.stores[n + 1 :])
                yield (replace(statement, stores=stores),)
            if store.guard:
                yield (replace(statement, stores=(replace(store, guard=None),)),)


def _simpler_value(e: model.Expression) -> Iterator[model.Expression]:
    """Expressions of the same type with a part less."""
    for name in ("value", "a", "b", "left", "right"):
        part = getattr(e, name, None)
        if not hasattr(part, "dtype"):
            continue
        yield part if part.dtype == e.dtype else model.Cast(part, e.dtype)
        for inner in _simpler_value(part):
            yield replace(e, **{name: inner})


def _grids(program: Program) -> Iterator[Program]:
    if max(program.grid) > 1:
        yield replace(program, grid=(1,) * len(program.grid))


def candidates(program: Program) -> Iterator[Program]:
    """Programs one step smaller, the largest steps first."""
    for edit in (_removed, _simpler):
        for body in _replaced(program.body, edit):
            if body and model.effects(body)[1]:
                yield replace(program, body=body)
    yield from _grids(program)


def shrink(program: Program, outcome: Outcome, limit: int = 400) -> Program:
    """Makes steps while the outcome stays of one cause, with at most ``limit`` runs."""
    runs = 0
    progress = True
    while progress:
        progress = False
        for smaller in candidates(program):
            runs += 1
            if runs > limit:
                return program
            if check.run(smaller).same_cause(outcome):
                program, progress = smaller, True
                break
    return program


_MAIN = """

if __name__ == "__main__":
    import torch

    import tilelang
    from tilelang import emulator

    def values(shape, dtype, low, high, factor, name):
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        return (torch.randint(low, high + 1, shape, generator=generator) * factor).to(dtype)

{arguments}
    compiled = tilelang.compile(kernel, target="{target}")
    for schedule in {schedules}:
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        with emulator.options(schedule=schedule, lint={lint}, letters="fail", threads=1):
            compiled(*given)
        for name, tensor in zip({names}, given):
            print(schedule, name, tensor, sep="\\n")
"""


def reproducer(program: Program, outcome: Outcome, seed: int) -> str:
    """A file of its own that compiles and runs the kernel and prints what it wrote."""
    lines = []
    tensors = [b for b in model.buffers(program.body) if b.is_global]
    for buffer in tensors:
        dtype = f"torch.{buffer.dtype}"
        bounds = program.ranges.get(buffer.name)
        if bounds:
            bounded = ", ".join(map(repr, bounds))
            seeded = f'"{program.seed} {buffer.name}"'
            lines.append(f"        values({buffer.shape!r}, {dtype}, {bounded}, {seeded}),")
        else:
            lines.append(f"        torch.full({buffer.shape!r}, 77).to({dtype}),")
    lines += [f"        {value}," for value in program.scalars.values()]
    text = outcome.detail.replace('"""', "'''").replace("\\", "/")
    main = _MAIN.format(
        arguments="    arguments = [\n" + "\n".join(lines) + "\n    ]",
        target=program.target,
        schedules=check.SCHEDULES,
        lint=["ld-before-wait"] if program.target == "sm_100a" else [],
        names=[b.name for b in tensors],
    )
    head = f'"""Seed {seed}: {outcome.kind}. {outcome.cause}\n\n{text}\n"""\n\nimport zlib\n\n'
    return head + source.module(program) + main
