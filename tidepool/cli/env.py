"""`env`: the environment in which plain `pulumi` works on the same stack."""

from __future__ import annotations

import shlex

import click

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
