"""Judges the launches of a script outside of the process of the script.

The script runs once for each schedule. Each launch runs in this process when the script makes it.
The script compares its results itself, so they depend on its own word. The findings on its kernels
and their times do not. Elements of the algebraic mode are followed in the process of the script,
where it compares them.
"""

from __future__ import annotations

from ..checks.processes import Other
from ..emulator import options
from ..emulator.launch_options import current as current_options
from ..profiler.judge import Comparison
from .asserts import compares
from .programs import Program, Request, text_of
from .recording import followed


def outside_script(request: Request, algebra: bool) -> Program:
    """Returns an object that runs a script; ``algebra``: comparisons are over the field.

    Raises:
        UserError: there is no such file.
    """
    how = "checked by the script itself" if compares(text_of(request.path)) else ""
    return Program(_Script(request, algebra).run, how)


class _Script:
    def __init__(self, request: Request, algebra: bool) -> None:
        self._program = Other("tilelang.cli.judged:serve")
        self._order = {"do": "script", "path": str(request.path), "argv": list(request.argv),
                       "seed": request.seed, "algebra": algebra}  # fmt: skip

    def run(self, target: str) -> list[Comparison]:
        """Runs the script once for a target."""
        schedule = current_options().schedule
        with options(algebra=None):
            followed(self._program, {**self._order, "target": target, "schedule": schedule})
        return []
