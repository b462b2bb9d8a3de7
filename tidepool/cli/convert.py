"""`convert`: machines of pools move between Slurm and Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidepool.cli.errors import USAGE, Failure
from tidepool.cli.options import Span, json_option, pool_machine_names, stack_options
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.cluster.roles import AtDeadline, Role


@click.command("convert")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=pool_machine_names)
@click.option(
    "--to", "to", type=click.Choice(["slurm", "kubernetes"]), help="The role that they are to have."
)
@click.option("--force", is_flag=True, help="Requeue jobs and kill pods at once, and tell their owners.")
@click.option("--cancel", is_flag=True, help="Have those on their way go back to what they were.")
@click.option(
    "--deadline",
    "deadline_s",
    type=Span(),
    metavar="TIME",
    help="How long to wait for jobs and pods to end: 90s, 10m, 2h.  [default: the pool's]",
)
@click.option(
    "--at-deadline",
    type=click.Choice(["stop", "force"]),
    help="What comes then: give it up, or go on by force.  [default: the pool's]",
)
@click.option("-r", "--reason", help='Why, for all who look.  [default: "by USER with tidepool"]')
@click.option(
    "--no-wait", is_flag=True, help="Begin it, and end at once; `tidepool pool show` says how far it is."
)
@json_option
@stack_options
def convert_verb(
    stack: Stack,
    nodes: tuple[str, ...],
    to: Role | None,
    force: bool,
    cancel: bool,
    deadline_s: float | None,
    at_deadline: AtDeadline | None,
    reason: str | None,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Move machines of converged pools between Slurm and Kubernetes, in place.

    NODE is a machine of a pool or a hostlist of some, such as shared-[1-4]. All that speaks against it is told at once,
    and then nothing is changed. Ctrl-C stops the watching only: the conversion goes on, until --cancel.
    """
    if cancel and (to or force or deadline_s or at_deadline):
        raise click.UsageError(
            "--cancel goes with no other order: it has the machines go back to what they were"
        )
    if not cancel and to is None:
        raise click.UsageError("say --to slurm or --to kubernetes, or --cancel")
    if force and (deadline_s or at_deadline):
        raise click.UsageError("--force waits for nothing: it goes with neither --deadline nor --at-deadline")
    stack.require_root()
    stack.prepare()
    from tidepool.cli.pools.driver import driver
    from tidepool.cluster.hostlist import expand

    wanted = list(dict.fromkeys(name for word in nodes for name in expand(word)))
    if not wanted:
        raise Failure("there is no node in the hostlist", code=USAGE)
    # First of all: it imports the engine while the request is looked at.
    beside = driver(stack)
    try:
        from tidepool.cli.pools.converting import Terms, cancelled, converted

        if to is None:
            return cancelled(stack, wanted, beside, no_wait=no_wait, as_json=as_json)
        who = stack.context.who
        terms = Terms(to, who, reason or f"by {who} with tidepool", force, deadline_s, at_deadline)
        return converted(stack, wanted, terms, beside, no_wait=no_wait, as_json=as_json)
    finally:
        beside.leave()
