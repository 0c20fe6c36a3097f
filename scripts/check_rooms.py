"""Checks that the rooms of src/ and tilelang/ include each other in one direction only.

A room is a folder of src/; of src/emulator, each of its folders. If a file of one includes a header
of another, then no file of the other includes one of the first, be it over further rooms: so that
what lies below can be read without what lies above. The files beside the emulator's folders
(src/emulator/*.cc) lie above all of them.

A room of tilelang/ is a folder or a file of it. Imports inside functions count, too: they would
only hide a circle. Those under `if TYPE_CHECKING:` do not, and `tilelang/__init__.py` may name what
it imports at first use by text: it lies above all.

Usage: python scripts/check_rooms.py [FOLDER]   (the folder above src/; default: the project)
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
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


def imported(node: ast.stmt, package: list[str]) -> list[str]:
    """The modules of tilelang that an import statement of a package names, and names in them."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        above = [*base, *(node.module.split(".") if node.module else [])]
        found = [".".join([*above, alias.name]) for alias in node.names]
    else:
        return []
    return [name for name in found if name.split(".")[0] == "tilelang"]


def statements(body: ast.AST) -> Iterator[ast.stmt]:
    """All statements, those of functions too; none that only a type checker reads."""
    for node in ast.iter_child_nodes(body):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.stmt):
            yield node
        yield from statements(node)


def imports(package: Path) -> dict[str, dict[str, str]]:
    """Returns for each room of tilelang/ those that it imports, with one file that does."""
    rooms = {path.name for path in package.iterdir() if path.is_dir()}
    rooms |= {path.stem for path in package.glob("*.py")} - {"__init__"}
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        own = name.parts[0].removesuffix(".py")
        folders = ["tilelang", *name.parts[:-1]]
        for statement in statements(ast.parse(path.read_text())):
            for module in imported(statement, folders):
                other = next((part for part in module.split(".")[1:2] if part in rooms), "__init__")
                if other != own:
                    found[own].setdefault(other, name.as_posix())
    return found


def circle(found: dict[str, dict[str, str]], folder: str, verb: str) -> list[str]:
    """Returns lines on a circle among rooms of a folder, if there is one."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        rooms = error.args[1][::-1]  # each includes the next
        return [
            f"  {folder}/{above} {verb} {folder}/{below}: {folder}/{found[above][below]}"
            for above, below in itertools.pairwise(rooms)
        ]
    return []


def main(root: Path) -> int:
    lines = circle(includes(root / "src"), "src", "includes")
    if (root / "tilelang").is_dir():
        lines += circle(imports(root / "tilelang"), "tilelang", "imports")
    if lines:
        print("check_rooms.py: rooms include each other in a circle:", *lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]))
