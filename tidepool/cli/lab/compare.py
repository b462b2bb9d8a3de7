"""`lab compare`: what changed between two campaigns, and whether it is more than noise."""

from __future__ import annotations

from pathlib import Path

import click

from tidepool.cli import show
from tidepool.cli.lab.folders import existing_campaign
from tidepool.cli.lab.packages import require_packages
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack


@click.command("compare")
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@json_option
@stack_options
def compare_verb(stack: Stack, left: str, right: str, as_json: bool) -> None:
    """Compare campaign B with campaign A, scheduler by scheduler: settings that changed, and figures that did by more than noise.

    Each is the name of a campaign of this project, or the path of a folder of results.
    """
    require_packages("scipy")
    from tidepool.lab.report.changes import changes
    from tidepool.lab.report.figures import difference_table
    from tidepool.lab.results.store import Results
    from tidepool.lab.statistics.comparison import changed_workloads, compare

    one, other = (Results.open(_folder(stack, each)) for each in (left, right))
    found = compare(one, other)
    settings = changes(one, other)
    not_compared = changed_workloads(one, other)
    shown = [each for each in found if each.is_better is not None]
    if as_json:
        show.emit(
            {
                "left": str(one.folder),
                "right": str(other.folder),
                "settings": [show.document(each) for each in settings],
                "workloadsNotCompared": list(not_compared),
                "figures": [{**show.document(each), "isBetter": each.is_better} for each in found],
            }
        )
        return
    rows = [(each.where, each.setting, each.left, each.right) for each in settings]
    if rows:
        show.show(show.table("Settings that are not the same", ["of", "setting", left, right], rows))
    else:
        show.say("No setting has changed.")
    if not_compared:
        show.say(f"Not compared, because their jobs are not the same in both: {', '.join(not_compared)}.")
    if shown:
        table = difference_table("Figures that differ by more than noise", shown)
        show.show(show.table(table.title, table.columns, table.rows))
    show.say(f"{len(shown)} of {show.number(len(found), 'figure')} differ by more than noise.")


def _folder(stack: Stack, campaign: str) -> Path:
    """Return the folder that is said: a path has a stroke in it, and a name none."""
    return stack.context.cwd / campaign if "/" in campaign else existing_campaign(stack, campaign)
