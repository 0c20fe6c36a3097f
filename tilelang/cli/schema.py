"""``tilelang schema``: what the documents of ``--json`` hold."""

from __future__ import annotations

from pathlib import Path

import click


def text() -> str:
    """The JSON schema (2020-12) of every document."""
    return Path(__file__).with_name("schema.json").read_text(encoding="utf-8")


@click.command()
def schema() -> None:
    """Prints the JSON schema of what --json prints."""
    click.echo(text(), nl=False)
