"""Draws a schedule: a lane for each role and engine, time from left to right. Writes SVG itself."""

from __future__ import annotations

from html import escape
from typing import Any

from ..errors import TargetError
from . import cost
from .description import Launch, Schedule, Step
from .timeline import SHOWN, Box, Timeline

WIDTH, LANE, MARGIN_LEFT, HEADING = 1100, 34, 110, 30
#: Width in pixels of a character of the labels.
CHARACTER = 5.6

#: Fill colours by action.
COLOURS = {
    "load": "#9ecae1",
    "store": "#c6dbef",
    "gemm": "#fdae6b",
    "copy": "#d9d9d9",
    "reduce": "#c7e9c0",
    "elementwise": "#a1d99b",
}


def timelines(schedule: Schedule) -> list[tuple[Launch, Timeline]]:
    """Returns when the steps of each launch happen.

    Raises:
        TargetError: there is no timing model of the schedule's target.
    """
    rates = cost.RATES.get(schedule.arch)
    if rates is None:
        raise TargetError(
            f"the schedule of {schedule.name} has no picture: there is no timing model of"
            f" {schedule.arch}",
            notes=[f"print(schedule) works; targets with a timing model: {', '.join(cost.RATES)}"],
        )
    return [(launch, Timeline(launch, rates)) for launch in schedule.launches]


def label(box: Box) -> str:
    """Returns what a box shows: what it makes, and of which iteration."""
    return f"{box.step.subject.split(' -> ')[-1]} {box.iteration}"


def svg(schedule: Schedule) -> str:
    """Returns the picture of a schedule as an SVG document."""
    parts: list[str] = []
    top = 0
    for _, timeline in timelines(schedule):
        drawn, height = _launch(schedule, timeline, top)
        parts += drawn
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}"'
        f' viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="10">'
    )
    return "\n".join([head, *parts, "</svg>"])


def _title(schedule: Schedule, timeline: Timeline) -> str:
    return (
        f"{schedule.name} on {schedule.arch}: the first {SHOWN} iterations of each loop,"
        f" {timeline.end:.0f} cycles by the cost model"
    )


def _launch(schedule: Schedule, timeline: Timeline, top: int) -> tuple[list[str], int]:
    title = escape(_title(schedule, timeline))
    parts = [f'<text x="4" y="{top + 18}" font-size="13">{title}</text>']
    scale = (WIDTH - MARGIN_LEFT - 8) / max(timeline.end, 1.0)
    for row, lane in enumerate(timeline.lanes):
        y = top + HEADING + row * LANE
        parts.append(f'<text x="4" y="{y + 18}">{escape(lane)}</text>')
        parts.append(f'<line x1="{MARGIN_LEFT}" y1="{y + 28}" x2="{WIDTH}" y2="{y + 28}"')
        parts[-1] += ' stroke="#cccccc"/>'
        parts += [_box(box, y, scale) for box in timeline.boxes if box.lane == lane]
    return parts, HEADING + len(timeline.lanes) * LANE + 8


def _box(box: Box, y: int, scale: float) -> str:
    x = MARGIN_LEFT + box.start * scale
    width = max((box.end - box.start) * scale, 1.0)
    texts = (label(box), str(box.iteration), "")
    shown = next(text for text in texts if len(text) * CHARACTER < width)
    tip = f"{box.step.action} {box.step.subject}, cycles {box.start:.0f} to {box.end:.0f}"
    return (
        f'<g><title>{escape(tip)}</title><rect x="{x:.1f}" y="{y + 4}" width="{width:.1f}"'
        f' height="22" fill="{_colour(box.step)}" stroke="#ffffff"/>'
        f'<text x="{x + 3:.1f}" y="{y + 19}">{escape(shown)}</text></g>'
    )


def _colour(step: Step) -> str:
    return COLOURS.get(step.action, "#eeeeee")


def draw(schedule: Schedule, figure_class: Any) -> Any:
    """Returns the picture as a figure of matplotlib, of the class given."""
    launches = timelines(schedule)
    figure = figure_class(figsize=(12, 0.6 * sum(len(t.lanes) + 2 for _, t in launches)))
    all_axes = figure.subplots(len(launches), squeeze=False)
    for (_, timeline), axes in zip(launches, all_axes[:, 0], strict=True):
        axes.set_title(_title(schedule, timeline))
        axes.set_xlabel("cycles")
        lanes = timeline.lanes[::-1]
        axes.set_yticks(range(len(lanes)), lanes)
        for box in timeline.boxes:
            axes.barh(
                lanes.index(box.lane),
                box.end - box.start,
                left=box.start,
                color=_colour(box.step),
                edgecolor="white",
            )
    return figure
