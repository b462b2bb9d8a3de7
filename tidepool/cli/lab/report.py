"""`lab report`: the report of a campaign as a page, and on paper."""

from __future__ import annotations

import click

from tidepool.cli import show
from tidepool.cli.lab.folders import existing_campaign
from tidepool.cli.lab.packages import require_packages
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack


@click.command("report")
@click.argument("campaign", required=False)
@click.option("--pdf", is_flag=True, help="Write it on paper as well.")
@json_option
@stack_options
def report_verb(stack: Stack, campaign: str | None, pdf: bool, as_json: bool) -> None:
    """Write the report of CAMPAIGN: a page without outside parts, and every single value as CSV and Parquet.

    It is written into the campaign's folder. Of one that is not whole it says so first, and concludes nothing.
    """
    require_packages("polars", "scipy", *(["typst"] if pdf else []))
    from tidepool.lab.report.write import write_report
    from tidepool.lab.results.store import Results

    results = Results.open(existing_campaign(stack, campaign))
    command = f"tidepool -s {stack.name} lab"
    written = write_report(results, f"{command} run again && {command} report again", on_paper=pdf)
    missing = len(results.missing())
    if as_json:
        paper = str(written.paper) if written.paper else None
        show.emit(
            {
                "page": str(written.page),
                "paper": paper,
                "values": [*map(str, written.values)],
                "missing": missing,
            }
        )
        return
    if missing:
        name = f" {campaign}" if campaign else ""
        show.warn(
            f"{show.number(missing, 'trial')} missing: the report says that it is incomplete; `{command} run{name}` goes on"
        )
    show.say(str(written.page))
    if written.paper:
        show.say(str(written.paper))
