"""`completion`: the script by which a shell completes verbs, options, stacks, machines and nodes."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tidepool.cli import show


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_verb(context: click.Context, shell: str) -> None:
    r"""Print the shell's script that completes words.

    \b
    bash   eval "$(tidepool completion bash)"             in ~/.bashrc
    zsh    eval "$(tidepool completion zsh)"              in ~/.zshrc
    fish   tidepool completion fish | source              in ~/.config/fish/config.fish
    """
    made = get_completion_class(shell)
    assert made is not None, f"click completes in {shell}"
    root = context.find_root()
    # The same variable as click looks for by itself when the shell asks.
    show.say(made(root.command, {}, "tidepool", "_TIDEPOOL_COMPLETE").source())
