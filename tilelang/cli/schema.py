"""``tilelang schema``: prints the JSON schema of the documents of ``--json``."""

from __future__ import annotations

from pathlib import Path

import click


def text() -> str:
    """Returns the JSON schema (2020-12) of every document."""
    return Path(__file__).with_name("schema.json").read_text(encoding="utf-8")


@click.command()
def schema() -> None:
    """Print the JSON schema of the documents of --json."""
    click.echo(text(), nl=False)
