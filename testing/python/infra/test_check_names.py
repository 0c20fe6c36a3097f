"""scripts/check_names.py: names that files of a folder may not have in common."""

from __future__ import annotations

from pathlib import Path

import check_names

FILE = """
namespace tilelang::room {{
namespace {{

{body}

}}  // namespace
}}  // namespace tilelang::room
"""


def write(root: Path, **files: str) -> None:
    folder = root / "src" / "room"
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in files.items():
        path, _, ending = name.rpartition("_")
        (folder / f"{path}.{ending}").write_text(FILE.format(body=body))


def test_the_project_has_none() -> None:
    assert check_names.clashes(Path(__file__).resolve().parents[3] / "src") == []


def test_what_clashes(tmp_path: Path) -> None:
    first = (
        "class Planner : public Base {\n};\nconstexpr int kA = 1, kB = 2;\n"
        "int Sum(int a, int b) {\n}"
    )
    for other, name in (
        ("struct Planner {\n};", "Planner"),
        ("constexpr double kB = 2;", "kB"),
        ("using kA = int;", "kA"),
        ("bool Sum(int x,\n         int y) {\n}", "Sum(int,int)"),
        ("Set Planner(int x) {\n}", "Planner"),
        ("struct Sum {\n};", "Sum"),
    ):
        write(tmp_path, a_cc=first, b_cc=other)
        (found,) = check_names.clashes(tmp_path / "src")
        assert found.startswith(f"{name}: in src/room/a.cc and src/room/b.cc")
        assert check_names.main([str(tmp_path)]) == 1


def test_what_does_not(tmp_path: Path) -> None:
    write(tmp_path, a_cc="int Sum(int a) {\n}\nclass Planner;", b_cc="int Sum(float a) {\n}")
    assert check_names.main([str(tmp_path)]) == 0


def test_a_name_of_a_header(tmp_path: Path) -> None:
    write(tmp_path, a_cc="struct Turn {\n};")
    header = FILE.replace("namespace {{\n", "", 1).format(body="struct Turn {\n};")
    (tmp_path / "src" / "room" / "b.h").write_text(header)
    (found,) = check_names.clashes(tmp_path / "src")
    assert found.startswith("Turn: in src/room/a.cc and src/room/b.h")
