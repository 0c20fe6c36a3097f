"""``tilelang completion``: completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options and targets in a shell.

    \b
    bash:  eval "$(tilelang completion bash)"      in ~/.bashrc
    zsh:   eval "$(tilelang completion zsh)"       in ~/.zshrc
    fish:  tilelang completion fish | source       in ~/.config/fish/config.fish
    """
    from . import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "tilelang", "_TILELANG_COMPLETE").source())
