"""`lab show`: how far a campaign is, and what came of it. One that is not whole is never shown as if it was."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from tidepool.cli import show
from tidepool.cli.lab.folders import existing_campaign
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.lab.results.store import Results

#: Figures of a whole campaign that a glance is for; the report has all.
GLANCE = ("submit_to_start_seconds", "makespan_seconds", "utilization")


@click.command("show")
@click.argument("campaign", required=False)
@json_option
@stack_options
def show_verb(stack: Stack, campaign: str | None, as_json: bool) -> None:
    """Show how far a campaign is, and what came of it.

    CAMPAIGN is its folder below results/lab, by default of the stack's name. Figures are shown of a whole campaign alone.
    """
    from tidepool.lab.results.store import Results

    results = Results.open(existing_campaign(stack, campaign))
    if as_json:
        show.emit(campaign_document(results))
        return
    show.say(headline(results))
    rows, figures = _rows(results)
    show.show(show.table("", ["scheduler", "workload", "#repeats", "#disturbed", *figures], rows))
    for outcome in results.disturbed():
        show.say(
            f"does not count: {outcome.scheduler}.{outcome.workload}.{outcome.repeat}: {outcome.disturbed}"
        )
    if results.is_whole:
        show.say("`tidepool lab report` makes a page of it")


def headline(results: Results) -> str:
    """Return what a person has to know first: whether it is whole."""
    missing = results.missing()
    total = sum(not trial.is_warm_up for trial in results.campaign.trials())
    name = results.campaign.name
    if not missing:
        return f"Campaign {name}: whole, {show.number(total, 'trial')}"
    return (
        f"Campaign {name} is NOT WHOLE: {total - len(missing)} of {show.number(total, 'trial')} are there. It has no figures yet; "
        "`tidepool lab run` goes on with it"
    )


def campaign_document(results: Results) -> dict[str, Any]:
    """Return the same for programs: ``figures`` are medians by scheduler and workload, null where it is not whole."""
    missing = results.missing()
    return {
        "campaign": results.campaign.name,
        "folder": str(results.folder),
        "isWhole": not missing,
        "schedulers": results.campaign.schedulers,
        "workloads": results.campaign.workloads,
        "repeats": results.campaign.repeats,
        "missing": [trial.id for trial in missing],
        "disturbed": [
            {"trial": f"{each.scheduler}.{each.workload}.{each.repeat}", "why": each.disturbed}
            for each in results.disturbed()
        ],
        "figures": [
            {"scheduler": scheduler, "workload": workload, **figures}
            for (scheduler, workload), figures in medians(results).items()
        ]
        if not missing
        else None,
    }


def medians(results: Results) -> dict[tuple[str, str], dict[str, float]]:
    """Return by scheduler and workload the median of each figure over the repeats."""
    from statistics import median

    from tidepool.lab.statistics.measures import measures_of

    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for outcome in results.outcomes():
        own = values.setdefault((outcome.scheduler, outcome.workload), {})
        for name, value in measures_of(
            outcome, results.workload(outcome.workload, outcome.repeat), results.cpus
        ).items():
            own.setdefault(name, []).append(value)
    return {pair: {name: median(each) for name, each in own.items()} for pair, own in values.items()}


def _rows(results: Results) -> tuple[list[list[str]], list[str]]:
    """Return a row for each pair, and the columns of figures: none where the campaign is not whole."""
    missing = results.missing()
    counts = Counter((trial.scheduler, trial.workload) for trial in missing)
    disturbed = Counter((each.scheduler, each.workload) for each in results.disturbed())
    found = {} if missing else medians(results)
    figures = [name for name in GLANCE if any(name in each for each in found.values())]
    rows = []
    for scheduler in results.campaign.schedulers:
        for workload in results.campaign.workloads:
            pair = scheduler, workload
            repeats = results.campaign.repeats
            done = f"{repeats - counts[pair]} of {repeats}" if counts[pair] else str(repeats)
            cells = [f"{found[pair][name]:.3g}" if name in found.get(pair, {}) else "" for name in figures]
            rows.append([scheduler, workload, done, str(disturbed[pair]), *cells])
    return rows, [f"#{name.replace('_', ' ')}" for name in figures]
