"""The command ``tilelang``; ``python -m tilelang`` is the same."""

from __future__ import annotations

import difflib
import importlib

import click

from .. import __version__

#: The commands of each section of the help, with the module that defines them. A module is imported
#: when its command runs, since most of them import the compiler.
_SECTIONS: dict[str, dict[str, str]] = {
    "Check": {"check": "check", "merge": "many", "grade": "grade", "explain": "explain"},
    "Time": {
        "profile": "profile", "compare": "profile", "bench": "measure", "autotune": "measure",
    },
    "Look inside": {"ir": "inspect", "export": "inspect", "run": "inspect", "emulate": "emulate"},
    "Write files": {"stream": "frames"},
    "This machine": {"doctor": "doctor", "cache": "cache", "completion": "completion"},
    "For other programs": {"schema": "schema", "mcp": "serve"},
}  # fmt: skip

_START = """\
tilelang checks, times and explains GPU kernels. It needs no GPU.

Start with one of these:
  tilelang check kernel.py     Are the kernels right? Finds wrong results, races and missing waits.
  tilelang profile kernel.py   How long do they take on a GPU, and which lines take the time?
  tilelang doctor              What is installed on this machine, and what is missing?

`tilelang --help` lists all commands, `tilelang COMMAND --help` the options of one."""


class _Commands(click.Group):
    """The group of all commands, listed by section."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in _SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for section in _SECTIONS.values():
            if cmd_name in section:
                module = importlib.import_module(f".{section[cmd_name]}", __package__)
                return getattr(module, cmd_name)  # type: ignore[no-any-return]
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            advice = ""
            if close := difflib.get_close_matches(args[0], self.list_commands(ctx), n=1):
                advice = f" Did you mean {close[0]!r}?"
            elif args[0].endswith((".py", ".cu", ".ptx")):
                advice = f" To check a file: tilelang check {args[0]}"
            raise click.UsageError(error.message + advice, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in _SECTIONS.items():
            rows = []
            for name in section:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name.ljust(10), _summary(command)))
            with formatter.section(title):
                formatter.write_dl(rows)


def _summary(command: click.Command) -> str:
    """Returns the first paragraph of a command's help."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tilelang")
@click.pass_context
def main(context: click.Context) -> None:
    """Check, time and explain GPU kernels on any machine. No GPU is needed.

    Commands print one JSON document with --json; `tilelang schema` prints the schema.
    """
    if context.invoked_subcommand is None:
        click.echo(_START)


__all__ = ["main"]
