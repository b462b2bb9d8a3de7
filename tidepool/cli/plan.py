"""`plan`: what the scaler would do now, what it would cost, and Pulumi's preview of it. Nothing is done."""

from __future__ import annotations

import click

from tidepool.cli import errors, show
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.scaler.afresh import decided_now, preview
from tidepool.cli.scaler.document import document
from tidepool.cli.scaler.drawing import put
from tidepool.cli.scaler.opening import Source
from tidepool.cli.scaler.planning import nodes_to_change, plan_lines, planning
from tidepool.cli.stack import Stack


@click.command("plan")
@click.option(
    "--preview/--no-preview",
    "with_preview",
    default=True,
    help="Whether to show Pulumi's preview of the nodes.",
)
@json_option
@stack_options
def plan_verb(stack: Stack, with_preview: bool, as_json: bool) -> int:
    """Show what the scaler would do now, for which jobs, and what it would cost. Nothing of it is done.

    It looks at the queue afresh, whether a daemon runs or not.
    """
    with Source(stack) as source:
        record = decided_now(stack, source)
    decision = record.decision
    assert decision is not None
    nodes = nodes_to_change(decision)
    previewed = preview(stack, decision, nodes) if with_preview and nodes else None
    plan = planning(record, decision, previewed)
    if as_json:
        show.emit(document(plan))
    else:
        put(plan_lines(plan))
    return errors.OK
