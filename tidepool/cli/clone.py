"""`clone`: another stack like one that is described, with a network, a name and keys of its own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from tidepool.cli import show
from tidepool.cli.free_networks import choosing_network
from tidepool.cli.options import Choice, json_option
from tidepool.cli.stack_copy import changes_option, copy_of
from tidepool.cluster.spec_changes import Change


@click.command("clone")
@click.argument("source", metavar="STACK")
@click.argument("name")
@changes_option
@json_option
@click.pass_obj
def clone_verb(choice: Choice, source: str, name: str, changes: Sequence[Change], as_json: bool) -> int:
    """Describe another stack, NAME, as STACK is described.

    Its network is one that is free, unless --set says another; its cluster is called NAME. Of the keys and secrets of STACK it has
    none: those of its machines are made when it comes up, those of its configuration are left out, and told.
    """
    there = choice.find(source, None)
    stack = choice.find(name, None)
    copy = copy_of(there, stack.name, changes)
    with choosing_network(there.data):
        copy = copy.on_free_network()
        copy.write(with_secrets=False)
    secrets = [key.pretty(there.project.name) for key in copy.secrets]
    network = str(copy.document["network"])
    if as_json:
        show.emit({"stack": name, "file": str(stack.file), "network": network, "leftOut": secrets})
        return 0
    show.say(f"wrote {stack.file}, on the network {network}")
    for key in secrets:
        command = f"pulumi config set --secret {shlex.quote(key)} --stack {name}"
        show.say(f"left out: {key}, a secret of {there.name}; its own is set by `{command}`")
    show.say(f"next: `sudo tidepool up --stack {name}`")
    return 0
