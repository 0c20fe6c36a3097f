#!/usr/bin/env python3
"""Draws the schedules of all examples: FOLDER/<family>/<script>/<kernel>.svg.

    python scripts/draw_examples.py FOLDER

The scripts run for the newest target that they share with the timing model. Kernels are drawn in
place of being launched, and no result is checked. Pictures that a script makes itself are kept.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from tilelang.schedule import RATES
from tilelang.tools import example, scaled

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def scripts() -> list[str]:
    """Returns the scripts of examples/, as family/name, sorted: what has a main function."""
    return [
        path.relative_to(EXAMPLES).with_suffix("").as_posix()
        for path in sorted(EXAMPLES.rglob("*.py"))
        if '\nif __name__ == "__main__":' in path.read_text()
    ]


def draw(script: str, folder: Path) -> list[Path]:
    """Writes the pictures of one script below ``folder``; returns their paths."""
    drawn: list[Path] = []

    class Drawing(example.Example):
        def __init__(
            self, description: str | None, targets: tuple[str, ...] = ("sm_100a",), **options: Any
        ) -> None:
            modelled = [target for target in targets if target in RATES]
            super().__init__(description, modelled[-1:], **options)

        def compile(self, function: Any, **options: Any) -> Any:
            kernel = super().compile(function, **options)
            path = folder / script / f"{kernel.name}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(kernel.schedule().svg())
            drawn.append(path)
            return lambda *tensors: None

        def picture(self, name: str, svg: str) -> None:
            path = folder / script / f"{name}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(svg)
            drawn.append(path)

        def check(self, *arguments: Any, **options: Any) -> None:
            pass

        def verify(self, *arguments: Any) -> None:
            pass

    path = EXAMPLES / f"{script}.py"
    # Some scripts import those beside them, which must see this class, too.
    beside = {other.stem for other in path.parent.glob("*.py")}
    for name in beside & set(sys.modules):
        del sys.modules[name]
    with (
        mock.patch.object(example, "Example", Drawing),
        mock.patch.object(scaled, "Example", Drawing),  # which has imported the class itself
        mock.patch.object(sys, "argv", [path.name, "--device", "cpu"]),
        mock.patch.object(sys, "path", [str(path.parent), *sys.path]),
    ):
        runpy.run_path(str(path), run_name="__main__")
    return drawn


def main() -> None:
    """Draws all scripts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for script in scripts():
        print(script, *[path.name for path in draw(script, folder)])


if __name__ == "__main__":
    main()
