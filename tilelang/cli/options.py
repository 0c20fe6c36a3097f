"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ..env import default_target
from ..errors import UserError
from ..target import architectures, device_target
from .programs import Request, text_of

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class Target(click.ParamType):
    """The name of a target; :func:`tilelang.target.resolve` refuses unknown ones."""

    name = "TARGET"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        return str(value)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in architectures() if name.startswith(incomplete)]


class _TargetOption(click.Option):
    """An option whose help lists all targets; the list is read when the help is printed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        known = ", ".join(architectures())
        more = " Repeat it for several targets." if self.multiple else ""
        self.help = f"One of {known}. Default: the GPU of this machine, else sm_100a.{more}"
        return super().get_help_record(ctx)


def target_option(*names: str, multiple: bool = False) -> Callable[[_Decorated], _Decorated]:
    """Returns the decorator that adds ``--target``."""
    return click.option(
        "--target", *names, type=Target(), cls=_TargetOption, multiple=multiple, metavar="TARGET"
    )


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


class Indices(click.ParamType):
    """Indices: ``0,2``."""

    name = "INDEX,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in value.split(",")]
        if not all(part.isdigit() for part in parts):
            self.fail(f"{value!r}: expected indices of arguments, like 0,2", param, ctx)
        return tuple(map(int, parts))


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


_arg_option = click.option(
    "--arg", "args", multiple=True, metavar="ARGUMENT",
    help="PTX and CUDA C++: one argument, such as f32[128,64]:random or 3. Repeat it for each "
         "argument.",
)  # fmt: skip
#: The options of a launch of PTX and CUDA C++, with their types, defaults and help.
_LAUNCH: tuple[tuple[str, Any, Any, str], ...] = (
    ("grid", Extents(), (1,), "number of blocks. Default: 1."),
    ("block", Extents(), (32,), "threads of a block. Default: 32."),
    ("cluster", Extents(), None, "blocks of a cluster."),
    ("smem", click.INT, 0, "bytes of dynamic shared memory."),
)
_REQUEST = (
    click.argument("subject", metavar="FILE[::NAME]"),
    click.argument("argv", nargs=-1, metavar="[-- ARGUMENTS OF THE SCRIPT]"),
    click.option("--reference", default="", metavar="[FILE::]FUNCTION",
                 help="Function that computes the expected outputs. Default: the function "
                      "NAME_reference or reference in FILE."),
    click.option("--seed", default=0, show_default=True, metavar="NUMBER",
                 help="Seed of the random inputs."),
    *(click.option(f"--{name}", type=kind, default=default, help=f"PTX and CUDA C++: {text}")
      for name, kind, default, text in _LAUNCH),
    _arg_option,
    click.option("--outputs", type=Indices(), default=(),
                 help="Indices of the arguments that the kernel writes and the reference computes, "
                      "from 0. Default: the last ones, or those that a reference of a kernel in "
                      "Python does not take."),
)  # fmt: skip

shapes_option = click.option("--shapes", type=Shapes(), default="",
                             help="Sizes and parameters of the kernel NAME.")  # fmt: skip

seeds_option = click.option("--seeds", default=1, show_default=True, metavar="NUMBER",
                            help="Number of random schedules to try.")  # fmt: skip

algebra_option = click.option(
    "--algebra", is_flag=True,
    help="Compare with the reference over a finite field, without a tolerance. There is no "
         "predicted time then.",
)  # fmt: skip


def request_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that make a :class:`Request`, except for the shapes."""
    for decorate in reversed(_REQUEST):
        function = decorate(function)
    return function


def request_of(subject: str, options: dict[str, Any]) -> Request:
    """Returns the request of a command line, and removes its options from ``options``.

    The request has no shapes if ``options`` has none.
    """
    path, _, name = subject.partition("::")
    names = ("argv", "reference", "seed", "grid", "block", "cluster", "smem", "args", "outputs")
    shapes = options.pop("shapes", {})
    return Request(Path(path), name, shapes=shapes, **{each: options.pop(each) for each in names})


def pair_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of two launches, each to be given once for both or twice."""
    function = _arg_option(function)
    for name, kind, _, text in reversed(_LAUNCH):
        help_text = f"PTX and CUDA C++: {text} Give it twice if the two differ."
        function = click.option(f"--{name}", type=kind, multiple=True, help=help_text)(function)
    return function


def pair_of(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the fields of the two launches.

    Raises:
        UserError: an option is given more than twice.
    """
    first, second = {"args": options["args"]}, {"args": options["args"]}
    for name, _, default, _ in _LAUNCH:
        given = options[name] or (default,)
        if len(given) > 2:
            raise UserError(f"--{name} is for both kernels, or once for each; got {len(given)}")
        first[name], second[name] = given[0], given[-1]
    return first, second


def chosen_target(given: str | None, path: Path | None = None) -> str:
    """Returns the given target, else that of a PTX file, else that of ``"auto"``."""
    own = _target_of_ptx(path) if path is not None and path.suffix == ".ptx" else None
    return given or own or default_target() or str(device_target() or "sm_100a")


def _target_of_ptx(path: Path) -> str | None:
    """Returns the target that runs a PTX file, by its ``.target``; None if there is none."""
    named = re.search(r"^\s*\.target\s+sm_(\d+)([af]?)\b", text_of(path), re.M)
    if named is None:
        return None
    number, suffix = int(named[1]), named[2]
    numbers = {name: int(re.sub(r"\D", "", name)) for name in architectures()}
    if suffix == "a":
        return next((name for name, own in numbers.items() if own == number), None)
    later = [name for name, own in numbers.items() if own >= number]
    return min(later, key=numbers.__getitem__, default=None)


def schedules(seeds: int) -> list[str | int]:
    """Returns the schedules of a check: as late as legal, as early as legal, and random ones."""
    if seeds < 0:
        raise UserError(f"--seeds must not be negative, got {seeds}")
    return ["late", "eager", *range(1, seeds + 1)]
