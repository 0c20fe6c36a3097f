"""Names the fragment of a value that nothing has written, in findings about registers of PTX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilelang.emulator.named_tiles import NamedTile

_REGISTER = re.compile(r"the value of register '([^']*)', which nothing has written")


def with_fragment(fields: dict[str, Any], fragments: Sequence[NamedTile]) -> dict[str, Any]:
    """Returns the fields of a finding with the fragment in place of the register.

    The first instruction that reads the register stands in a line of the program, and the compiler
    tells which fragments each line uses. If several come into question, the finding names them all.

    Args:
        fields: of an error or a finding, from the engine's report.
        fragments: of the kernel.
    """
    if fields["kind"] != "uninitialised-register":
        return fields
    candidates = _candidates(fields, fragments)
    found = _REGISTER.search(fields["message"])
    if not candidates or found is None:
        return fields
    register = found.group(1)
    names = " or ".join(candidates)
    text = f"the value of {names}, which nothing has written (register '{register}')"
    changed = {key: fields[key].replace(found.group(0), text) for key in ("message", "report")}
    return {**fields, **changed}


def _candidates(fields: dict[str, Any], fragments: Sequence[NamedTile]) -> list[str]:
    """Returns the fragments of the first line that reads the register.

    If the line of the finding uses some of them, too, it returns these alone.
    """
    first, last = (
        (place.get("source_file", ""), place.get("source_line", 0))
        for place in (fields.get("earlier", {}), fields)
    )
    reads = [tile for tile in fragments if first in tile.uses]
    both = [tile for tile in reads if last in tile.uses] or reads
    return list(dict.fromkeys(str(tile) for tile in both))
