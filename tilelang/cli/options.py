"""Options that several commands have, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..env import default_target
from ..errors import UserError
from ..target import device_target
from .programs import Request


class Extents(click.ParamType):
    """One to three positive integers, x first: ``8,4,1``."""

    name = "X,Y,Z"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r}: expected one to three integers, like 8,4,1", param, ctx)


class Shapes(click.ParamType):
    """Values by name: ``M=128,N=64``."""

    name = "NAME=VALUE,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, int]:
        if isinstance(value, dict):
            return value
        try:
            pairs = (part.split("=") for part in value.split(",") if part)
            return {name.strip(): int(number) for name, number in pairs}
        except ValueError:
            self.fail(f"{value!r}: expected names and integers, like M=128,N=64", param, ctx)


_REQUEST = (
    click.argument("subject", metavar="FILE[::NAME]"),
    click.argument("argv", nargs=-1, metavar="[-- ARGUMENTS OF THE SCRIPT]"),
    click.option("--reference", default="", metavar="[FILE::]FUNCTION",
                 help="What to compare with; by default NAME_reference or reference of FILE."),
    click.option("--seed", default=0, help="Of the random inputs."),
    click.option("--grid", type=Extents(), default="1", help="Of PTX and CUDA C++."),
    click.option("--block", type=Extents(), default="32", help="Of PTX and CUDA C++."),
    click.option("--cluster", type=Extents(), help="Of PTX and CUDA C++."),
    click.option("--smem", default=0, help="Dynamic shared memory of PTX and CUDA C++, bytes."),
    click.option("--arg", "args", multiple=True,
                 help="Argument of PTX and CUDA C++, once for each, as f32[128,64]:random or 3."),
)  # fmt: skip

shapes_option = click.option("--shapes", type=Shapes(), default="",
                             help="Dimensions and parameters of the kernel NAME.")  # fmt: skip


def request_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds what makes a :class:`Request`, but for the shapes."""
    for decorate in reversed(_REQUEST):
        function = decorate(function)
    return function


def request_of(subject: str, options: dict[str, Any]) -> Request:
    """Returns the request of a command line; takes its options out of ``options``.

    Where the command has no single option of shapes, the request is without.
    """
    path, _, name = subject.partition("::")
    names = ("argv", "reference", "seed", "grid", "block", "cluster", "smem", "args")
    shapes = options.pop("shapes", {})
    return Request(Path(path), name, shapes=shapes, **{each: options.pop(each) for each in names})


def chosen_target(given: str | None) -> str:
    """The target of a command: as given, else as ``"auto"`` has it."""
    return given or default_target() or str(device_target() or "sm_100a")


def schedules(seeds: int) -> list[str | int]:
    """The schedules of a check: as late and as early as legal, and random ones."""
    if seeds < 0:
        raise UserError(f"--seeds must not be negative, got {seeds}")
    return ["late", "eager", *range(1, seeds + 1)]
