"""The warnings of a launch, one for what a line of the source does many times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def line_by_line(reported: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Texts of warnings: one of each kind for a line of the source, in the order of the first.

    Code without line numbers gets one for each PTX line.

    Args:
        reported: what the engine's report of the launch has under ``"warnings"``.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for warning in reported:
        source = warning["source_file"], warning["source_line"]
        place = source if warning["source_line"] else ("", -warning["ptx_line"])
        groups.setdefault((warning["kind"], warning["kernel"], *place), []).append(warning)
    for group in groups.values():
        first = group[0]
        line = f"PTX line {first['ptx_line']}"
        if first["source_line"]:
            line = f"{first['source_file']}:{first['source_line']}, {line}"
        others = f" and {len(group) - 1} more of this line" if len(group) > 1 else ""
        count = sum(warning["count"] for warning in group)
        times = f" ({count} times)" if count > 1 else ""
        yield f"{first['short_kernel']}, {line}{others}: {first['message']}{times}"
