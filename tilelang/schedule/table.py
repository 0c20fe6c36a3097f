"""A schedule as text: roles, channels, and for each loop the steps of every role side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from . import cost
from .description import Channel, Epilogue, Launch, Role, Schedule, Step, TileCandidate

_INDENT = "  "


def table(schedule: Schedule) -> str:
    """Returns the schedule as text."""
    lines = [f"schedule of {schedule.name} on {schedule.arch}"]
    for launch in schedule.launches:
        lines += _launch(launch, schedule.arch)
    if schedule.remarks:
        lines += ["", "remarks"]
        for remark in schedule.remarks:
            line = f"line {remark.span.line}: " if remark.span else ""
            lines.append(f"{_INDENT}{line}{remark.message}")
    return "\n".join(lines)


def _launch(launch: Launch, arch: str) -> list[str]:
    lines = ["", *_aligned([("role", "warps", "registers"), *map(_role_row, launch.roles)])]
    if launch.channels:
        heading = ("channel", "slots", "memory", "from", "to", "full", "empty", "released by")
        lines += ["", *_aligned([heading, *map(_channel_row, launch.channels)])]
    if launch.epilogues:
        lines += ["", *map(_epilogue, launch.epilogues)]
    for loop in launch.loops():
        lines += ["", *_loop(loop, launch, arch)]
    if launch.tiles:
        first = ("tiles considered", "computed by", "predicted", "")
        lines += ["", *_aligned([first, *map(_tiles_row, launch.tiles)])]
    return lines


def _tiles_row(tiles: TileCandidate) -> tuple[str, ...]:
    blocks = [f"{tiles.parts} blocks, each a part of K"] if tiles.parts > 1 else []
    blocks += ["pairs of blocks"] if tiles.pairs else []
    blocks += ["the transposed product"] if tiles.transposed else []
    by = ", ".join(blocks) or "one block"
    size = f"{tiles.rows} x {tiles.columns}"
    return size, by, f"{tiles.microseconds:.1f} us", tiles.outcome


def _epilogue(epilogue: Epilogue) -> str:
    e = epilogue
    halves = " of both halves" if e.parts > 1 else ""
    parts = [f"{e.slices} slices of {e.columns} columns{halves}"]
    if e.slots:
        parts.append(f"staged in {e.slots} slots ({e.bytes} bytes)")
    if e.before:
        parts.append(f"{', '.join(e.before)} loaded before the gemm is waited for")
    if e.ahead:
        parts.append(f"{', '.join(e.ahead)} a slice ahead")
    return f"epilogue of {e.tile} at line {e.line}: {'; '.join(parts)}"


def _role_row(role: Role) -> tuple[str, ...]:
    first, last = role.first // 32, (role.first + role.threads - 1) // 32
    warps = f"{first}" if first == last else f"{first}..{last}"
    return role.name, warps, str(role.registers or "as launched")


def _channel_row(channel: Channel) -> tuple[str, ...]:
    if channel.tiles:
        memory = f"{channel.slot_bytes} bytes of {channel.memory} each"
    else:
        memory = "one for each block of rows"
    return (
        ", ".join(channel.tiles) or channel.name,
        str(channel.slots),
        memory,
        channel.producer,
        channel.consumer,
        channel.full,
        channel.empty,
        channel.release,
    )


def _loop(loop: Step, launch: Launch, arch: str) -> list[str]:
    """The loop in each role that has it; steps outside of it that belong to its iterations, too."""
    name, line = loop.loop
    stages = f", num_stages={loop.stages}" if loop.stages else ""
    trips = f", {_trips(loop, launch)} iterations" if _trips(loop, launch) >= 0 else ""
    lines = [f"loop {name} at line {line}{stages}{trips}"]
    columns = []
    bodies: list[Step] = []
    for role in launch.roles:
        around = _around(role.steps, loop)
        if around is None:
            continue
        before, body, after = around
        bodies += body
        rows = [role.name, *(f"{text}" for text in _rows(before)), "for each " + name]
        rows += [_INDENT + text for text in _rows(body)]
        columns.append([*rows, *_rows(after)])
    lines += [_INDENT + row for row in _aligned(list(zip_longest(*columns, fillvalue="")))]
    lines += [f"{_INDENT}{text}" for text in _ahead(bodies, launch)]
    rates = cost.RATES.get(arch)
    cycles = cost.occupancy(bodies, rates) if rates else {}
    if cycles:
        text = ", ".join(f"{engine} {amount:.0f}" for engine, amount in cycles.items())
        lines.append(f"{_INDENT}cycles an iteration: {text}; limited by {next(iter(cycles))}")
    return lines


def _ahead(bodies: Sequence[Step], launch: Launch) -> Iterator[str]:
    """Yields how far the producer of a loop may run ahead of its consumer."""
    inner = [step for top in bodies for step in top.walk()]
    waited = {step.barrier for step in bodies if step.action == "wait"}
    for channel in launch.channels:
        tiles, slots = ", ".join(channel.tiles), channel.slots
        if any(s.engine == "cp.async" and s.subject.endswith(f"-> {channel.name}") for s in inner):
            yield f"{channel.producer} load {tiles} {slots - 1} iterations ahead"
        if channel.tiles and channel.empty and channel.empty in waited:
            times = "iteration" if slots == 1 else "iterations"
            yield (
                f"{channel.producer} fills {tiles} up to {slots} {times} before"
                f" {channel.consumer} gives the slot back"
            )


def _trips(loop: Step, launch: Launch) -> int:
    """The most of any role: those that run ahead have some outside of the loop."""
    same = (s for r in launch.roles for top in r.steps for s in top.walk() if s.action == "loop")
    return max(step.trips for step in same if step.loop == loop.loop)


def _around(
    steps: Sequence[Step], loop: Step
) -> tuple[list[Step], tuple[Step, ...], list[Step]] | None:
    """The body of the loop in some steps, and what of its first and last iterations is outside."""
    for at, step in enumerate(steps):
        if step.action == "loop" and step.loop == loop.loop:
            before, after = steps[:at], steps[at + 1 :]
            return (
                [s for s in before if _iteration(s) == "first"],
                step.body,
                [s for s in after if _iteration(s) == "last"],
            )
        found = _around(step.body, loop)
        if found is not None:
            return found
    return None


def _iteration(step: Step) -> str:
    """Returns the text of a step, or of the steps in a branch."""
    return step.iteration or next((s.iteration for s in step.walk() if s.iteration), "")


def _rows(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        if step.action == "loop":
            yield f"loop {step.subject} at line {step.line}"
            continue
        iteration = f"[{step.iteration}] " if step.iteration else ""
        yield f"{iteration}{_text(step)}"
        yield from (_INDENT + text for text in _rows(step.body))


def _text(step: Step) -> str:
    if step.action == "wait" and not step.barrier:
        left = f", {step.index} left in flight" if step.index > 0 else ""
        return f"wait for {step.subject}{left}"
    if step.action == "commit":
        return f"commit {step.subject}"
    if step.action in ("wait", "arrive"):
        index = f"[{step.index}]" if step.index >= 0 else ""
        commit = "commit" if step.engine != "threads" else step.action
        return f"{commit} {step.barrier}{index}"
    engine = f" by {step.engine}" if step.engine != "threads" else ""
    commits = ", commit" if step.action == "gemm" else ", on"
    barrier = f"{commits} {step.barrier}" if step.barrier else ""
    return f"{step.action} {step.subject}{engine}{barrier}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    padded = ([text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in padded]
