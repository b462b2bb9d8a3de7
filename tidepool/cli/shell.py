"""`env`: the environment in which plain `pulumi` works on the same stack."""

from __future__ import annotations

import shlex

import click
from click.shell_completion import get_completion_class

from tidepool.cli import show
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack


@click.command("env")
@json_option
@stack_options
def env_verb(stack: Stack, as_json: bool) -> None:
    r"""Print the environment in which `pulumi` finds the same stack.

    \b
    eval "$(tidepool env)"
    pulumi up
    """
    stack.prepare()
    # The engine's own flags name the stack; a person of `pulumi` has it selected by this.
    settings = {**stack.settings, "PULUMI_STACK": stack.name}
    if as_json:
        show.emit(settings)
        return
    for name, value in sorted(settings.items()):
        show.say(f"export {name}={shlex.quote(value)}")


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
