"""Merges the warnings of a launch, one for each line of the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilelang.emulator.named_tiles import NamedTile, at_address


def line_by_line(
    reported: Iterable[dict[str, Any]], tiles: Sequence[NamedTile] = ()
) -> Iterator[str]:
    """Returns texts of warnings: one of each kind for a line of the source, in order.

    Code without line numbers gets one for each PTX line. Of addresses in shared memory the tiles
    are named.

    Args:
        reported: what the engine's report of the launch has under ``"warnings"``.
        tiles: of the kernel.
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
        message = first["message"] + _where(group, tiles)
        yield f"{first['short_kernel']}, {line}{others}: {message}{times}"


def _where(group: Iterable[dict[str, Any]], tiles: Sequence[NamedTile]) -> str:
    """Returns the tiles of the warnings of a line, and the first address that is in no tile."""
    named: list[str] = []
    for warning in group:
        if "address" in warning:
            source = warning["source_file"], warning["source_line"]
            named.append(at_address(tiles, warning["address"], source))
    known = [text for text in named if text.startswith("tile ")] or named[:1]
    return ": " + ", ".join(dict.fromkeys(known)) if known else ""
