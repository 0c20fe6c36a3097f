"""Names the tiles at an address of shared memory, and the tiles in registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_WINDOW = (1 << 24) - 1  # an address inside of a block's window; the rank stands above


@dataclass(frozen=True)
class NamedTile:
    """A tile or variable in shared memory, or in the registers of the threads.

    Attributes:
        name: of the program.
        begin, bytes: where it lies in the window of a block; 0 of registers.
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


def static_tiles(entry: dict[str, Any]) -> list[NamedTile]:
    """Returns the variables that a kernel's own PTX names; ``entry`` is of the module's report."""
    return [NamedTile(v["name"], v["address"], v["bytes"]) for v in entry["shared_variables"]]


def compiled_tiles(tiles: Iterable[Any], begin: int) -> list[NamedTile]:
    """Returns the tiles that the compiler has placed.

    Args:
        tiles: of the kernel (``tl.NamedTile``).
        begin: where dynamic shared memory begins in the window.
    """
    return [
        NamedTile(
            str(tile.name),
            begin + tile.offset,
            tile.bytes,
            tile.span.line if tile.span is not None else 0,
            frozenset((str(span.file), span.line) for span in tile.uses),
        )
        for tile in tiles
        if not tile.in_registers
    ]


def fragments_of(tiles: Iterable[Any]) -> list[NamedTile]:
    """Returns the tiles of the compiler (``tl.NamedTile``) that lie in registers."""
    return [
        NamedTile(
            str(tile.name),
            0,
            0,
            tile.span.line if tile.span is not None else 0,
            frozenset((str(span.file), span.line) for span in tile.uses),
        )
        for tile in tiles
        if tile.in_registers
    ]


def at_address(tiles: Sequence[NamedTile], address: int, source: tuple[str, int]) -> str:
    """Names the tiles at an address of shared memory.

    Returns those that the line of the source uses; all of them if it is known to use none; and the
    address itself if there are none.
    """
    place = address & _WINDOW
    here = [tile for tile in tiles if tile.begin <= place < tile.begin + tile.bytes]
    here = [tile for tile in here if source in tile.uses] or here
    if not here:
        return f"address {address:#x}"
    return "tile " + " or ".join(dict.fromkeys(map(str, here)))
