"""Checks that the rooms of src/ include each other in one direction only.

A room is a folder of src/; of src/emulator, each of its folders. If a file of one includes a header
of another, then no file of the other includes one of the first, be it over further rooms: so that
what lies below can be read without what lies above. The files beside the emulator's folders
(src/emulator/*.cc) lie above all of them.

Usage: python scripts/check_rooms.py [FOLDER]   (the folder above src/; default: the project)
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def room(path: str) -> str:
    """The room of a file, by its path below src/."""
    folders = path.split("/")[:-1]
    return "/".join(folders[:2] if folders[:1] == ["emulator"] else folders[:1])


def includes(source: Path) -> dict[str, dict[str, str]]:
    """Returns for each room those that it includes, with one file that does."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted(source.rglob("*")):
        # Generated code is compiled of these: they include each other as CUDA C++ does.
        if path.suffix not in (".h", ".cc") or "tl_templates" in path.parts:
            continue
        name = path.relative_to(source).as_posix()
        for included in _INCLUDE.findall(path.read_text()):
            if room(included) != room(name):
                found[room(name)].setdefault(room(included), name)
    return found


def main(root: Path) -> int:
    found = includes(root / "src")
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]  # each includes the next
        print("check_rooms.py: rooms include each other in a circle:")
        for above, below in itertools.pairwise(circle):
            print(f"  src/{above} includes src/{below}: src/{found[above][below]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]))
