"""Names the tiles at an address of shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_WINDOW = (1 << 24) - 1  # an address inside of a block's window; the rank stands above


@dataclass(frozen=True)
class SharedTile:
    """A tile or variable in shared memory.

    Attributes:
        name: of the program.
        begin, bytes: where it lies in the window of a block.
        line: of its allocation; 0 if unknown.
        uses: file and line of what uses it; empty if unknown.
    """

    name: str
    begin: int
    bytes: int
    line: int = 0
    uses: frozenset[tuple[str, int]] = frozenset()

    def __str__(self) -> str:
        return f"{self.name} (allocated in line {self.line})" if self.line else self.name


def static_tiles(entry: dict[str, Any]) -> list[SharedTile]:
    """Returns the variables that a kernel's own PTX names; ``entry`` is of the module's report."""
    return [SharedTile(v["name"], v["address"], v["bytes"]) for v in entry["shared_variables"]]


def compiled_tiles(tiles: Iterable[Any], begin: int) -> list[SharedTile]:
    """Returns the tiles that the compiler has placed.

    Args:
        tiles: of the kernel (``tl.SharedTile``).
        begin: where dynamic shared memory begins in the window.
    """
    return [
        SharedTile(
            str(tile.name),
            begin + tile.offset,
            tile.bytes,
            tile.span.line if tile.span is not None else 0,
            frozenset((str(span.file), span.line) for span in tile.uses),
        )
        for tile in tiles
    ]


def at_address(tiles: Sequence[SharedTile], address: int, source: tuple[str, int]) -> str:
    """Names the tiles at an address of shared memory."""
    place = address & _WINDOW
    here = [tile for tile in tiles if tile.begin <= place < tile.begin + tile.bytes]
    here = [tile for tile in here if source in tile.uses] or here
    if not here:
        return f"address {address:#x}"
    return "tile " + " or ".join(dict.fromkeys(map(str, here)))
