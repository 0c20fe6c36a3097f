"""Checks that C++ files which may be compiled as one have no names in common.

CMakeLists.txt compiles the files of a folder together, some at a time, when TILELANG_UNITY_BATCH is
more than one: what they hide in unnamed namespaces must then differ. A name is taken twice if two
files of a folder define it so, or if a header of the same namespace declares it as well; functions
may have the same name if their parameters differ.

Usage: python scripts/check_names.py [FOLDER]   (the folder above src/; default: the project)
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

#: Rooms whose files name their handlers alike; they are compiled one by one (CMakeLists.txt).
SEPARATE = ("emulator/async", "emulator/instructions")

_TYPE = re.compile(r"^(?:class|struct|union|enum(?: class)?) (?:alignas\(\w+\) )?(\w+)[^;]*[{:]")
_ALIAS = re.compile(r"^using (\w+) =")
_VARIABLE = re.compile(r"^(?:[\w:<>,*& ]+ )[*&]?(\w+)(?:\[\w*\])*\s*(?:=|\{|;)")
_FUNCTION = re.compile(r"^(?:[\w:<>,*&\[\] ]+ )[*&]?(\w+)(\(.*)")
_NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")


def names(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yields what a file defines at the outermost level: namespace, name, whether it is hidden.

    A function is given by its name and the types of its parameters.
    """
    space, hidden = "", False
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if line.startswith("namespace {"):
            hidden = True
        elif line.startswith("}  // namespace"):
            hidden, space = False, space if hidden else ""
        elif match := _NAMESPACE.match(line):
            space = match[1]
        elif name := _defined(line, lines[index + 1 : index + 8]):
            yield space, name, hidden
            if line.startswith("constexpr ") and "(" not in line and "{" not in line:
                for more in re.findall(r", (\w+) =", line):
                    yield space, more, hidden


def _defined(line: str, following: list[str]) -> str:
    """The name that a line defines at the outermost level, else nothing."""
    if not line or line[0] in " }#/" or line.startswith(("template", "TVM_", "return", "extern")):
        return ""
    for pattern in (_TYPE, _ALIAS):
        if match := pattern.match(line):
            return match[1]
    if match := _FUNCTION.match(line):
        rest = " ".join([match[2], *(each.strip() for each in following)])
        parameters = rest[: rest.find(")") + 1]
        return match[1] + re.sub(r"\b(\w+)(?: = [^,)]+)?(?=[,)])", "", parameters).replace(" ", "")
    match = _VARIABLE.match(line)
    return match[1] if match and not line.startswith(("using ", "namespace ")) else ""


def clashes(source: Path) -> list[str]:
    """Returns a line for each name that two files of a folder of ``source`` both define."""
    declared: dict[tuple[str, str], Path] = {}
    for path in sorted(source.rglob("*.h")):
        for space, name, hidden in names(path.read_text()):
            if not hidden and "(" not in name:
                declared.setdefault((space, name), path)
    found = []
    for folder in sorted({path.parent for path in source.rglob("*.cc")}):
        if folder.relative_to(source).as_posix() in SEPARATE:
            continue
        owners: dict[tuple[str, str], list[Path]] = defaultdict(list)
        for path in sorted(folder.glob("*.cc")):
            for space, name, hidden in set(names(path.read_text())):
                if hidden:
                    owners[space, name].append(path)
                    if (space, name) in declared:
                        found.append(_line(name, [path, declared[space, name]], source))
        found += [_line(name, paths, source) for (_, name), paths in owners.items() if paths[1:]]
        for (space, name), paths in owners.items():
            bare = name.partition("(")[0]
            if bare != name and (space, bare) in owners:  # a function, and a type or variable
                found.append(_line(bare, sorted({*paths, *owners[space, bare]}), source))
    return found


def _line(name: str, paths: list[Path], source: Path) -> str:
    where = " and ".join(path.relative_to(source.parent).as_posix() for path in paths)
    return f"{name}: in {where}; one of them needs another name"


def main(arguments: list[str]) -> int:
    """Prints what clashes; returns the exit status."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    found = clashes(root / "src")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
