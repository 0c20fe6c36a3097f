"""The command ``tilelang``; ``python -m tilelang`` is the same."""

from __future__ import annotations

import click

from . import (
    cache,
    check,
    doctor,
    emulate,
    grade,
    inspect,
    measure,
    profile,
    schema,
    serve,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tilelang-sm100", prog_name="tilelang")
def main() -> None:
    """Checks, times and shows GPU kernels, on any machine.

    Every command takes --json; `tilelang schema` prints the schema of its documents.
    """


for _command in (
    check.check, grade.grade, profile.profile, profile.compare, measure.bench, measure.autotune,
    inspect.ir, inspect.export, inspect.run, emulate.emulate, doctor.doctor, cache.cache,
    schema.schema, serve.mcp,
):  # fmt: skip
    main.add_command(_command)

__all__ = ["main"]
