"""scripts/check_rooms.py: rooms of src/ and tilelang/ that include each other."""

from __future__ import annotations

import re
from pathlib import Path

import check_rooms
import pytest


def write(root: Path, **included: str) -> None:
    """Files of src/: each includes one."""
    for name, header in included.items():
        path = root / "src" / name.replace("__", "/").replace("_h", ".h")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#include "{header}"\n')


def test_the_project_has_no_circle() -> None:
    assert check_rooms.main(Path(__file__).resolve().parents[3]) == 0


def test_a_circle_is_named_by_its_files(tmp_path: Path, capsys) -> None:
    write(tmp_path, ir__a_h="ir/b.h", op__a_h="ir/a.h", sync__a_h="op/a.h")
    assert check_rooms.main(tmp_path) == 0
    write(tmp_path, ir__b_h="sync/a.h")
    assert check_rooms.main(tmp_path) == 1
    lines = sorted(capsys.readouterr().out.splitlines()[1:])
    assert lines == [
        "  src/ir includes src/sync: src/ir/b.h",
        "  src/op includes src/ir: src/op/a.h",
        "  src/sync includes src/op: src/sync/a.h",
    ]


def test_rooms_of_the_emulator_are_its_folders(tmp_path: Path) -> None:
    write(tmp_path, emulator__core__a_h="emulator/ptx/b.h", emulator__run_h="emulator/core/a.h")
    assert check_rooms.main(tmp_path) == 0
    write(tmp_path, emulator__ptx__b_h="emulator/run.h")
    assert check_rooms.main(tmp_path) == 1


def test_the_guide_tells_what_rooms_of_the_emulator_include() -> None:
    root = Path(__file__).resolve().parents[3]
    found = {
        name.removeprefix("emulator/"): {below.removeprefix("emulator/") for below in belows}
        for name, belows in check_rooms.includes(root / "src").items()
        if name.startswith("emulator/")
    }
    guide = (root / "docs" / "internals.md").read_text().split("## The rooms of the emulator")[1]
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", guide, re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", below)) for name, below in rows}
    rooms = {path.name for path in (root / "src" / "emulator").iterdir() if path.is_dir()}
    assert told == {name: found.get(name, set()) - {"base"} for name in rooms}


@pytest.mark.parametrize(
    "text",
    [
        "from ..jit import kernel",
        "from tilelang.jit import kernel",
        "def late():\n    from .. import jit",
        "import tilelang.jit.kernel",
    ],
)
def test_modules_of_python_are_rooms_too(tmp_path: Path, capsys, text: str) -> None:
    for name, content in {
        "__init__": "from .jit import kernel",
        "jit/kernel": "from ..ir import span",
        "ir/span": "if TYPE_CHECKING:\n    from ..jit import x",
    }.items():
        path = tmp_path / "tilelang" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    (tmp_path / "src").mkdir()
    assert check_rooms.main(tmp_path) == 0
    (tmp_path / "tilelang" / "ir" / "expr.py").write_text(text + "\n")
    assert check_rooms.main(tmp_path) == 1
    assert "  tilelang/ir imports tilelang/jit: tilelang/ir/expr.py" in capsys.readouterr().out
