"""The command ``tilelang``; ``python -m tilelang`` is the same."""

from __future__ import annotations

import click

from . import cache, check, doctor, inspect, profile


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tilelang-sm100", prog_name="tilelang")
def main() -> None:
    """Checks, times and shows GPU kernels, on any machine.

    Every command takes --json; the documents are described in docs/command_line.md.
    """


for _command in (
    check.check, profile.profile, profile.compare, inspect.ir, inspect.export, inspect.run,
    inspect.emulate, doctor.doctor, cache.cache,
):  # fmt: skip
    main.add_command(_command)

__all__ = ["main"]
