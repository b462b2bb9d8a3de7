"""`report_of`: the whole report of a campaign, from its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from tidepool.charts import PALETTE
from tidepool.lab.laboratory import LAB_KEY
from tidepool.lab.report.elements import Command, Element, Folded, Links, Report, Section, Table, Text
from tidepool.lab.report.fairness import fairness
from tidepool.lab.report.figures import answers, box_plots, differences, medians, values_of
from tidepool.lab.report.over_time import gantts, utilization
from tidepool.lab.report.price import price
from tidepool.lab.report.runs import Run, runs_of
from tidepool.lab.report.setup import setup
from tidepool.lab.report.words import figure, listed, number
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.comparison import Difference, compare_all_schedulers
from tidepool.lab.statistics.figures import Figures, figures_of

#: What the question is answered by, for each workload.
_ANSWERED_BY: Final = ("submit_to_start_seconds", "makespan_seconds", "utilization", "scheduler_cpu_seconds")


def report_of(results: Results, files: Sequence[tuple[str, str]], command: str) -> Report:
    """Return the report of a campaign; of one that is not whole without any verdict, and saying so first.

    Args:
        results: the campaign's.
        files: those that lie beside the report, with what they hold.
        command: runs the campaign again.

    Raises:
        LabError: results cannot be read.
    """
    campaign = results.campaign
    runs = runs_of(results)
    missing = results.missing()
    found = () if missing else compare_all_schedulers(results)
    colours = {name: PALETTE[at % len(PALETTE)] for at, name in enumerate(campaign.schedulers)}
    all_trials = len(campaign.schedulers) * len(campaign.workloads) * campaign.repeats
    incomplete = f" (incomplete: {len(runs)} of {all_trials} trials)" if missing else ""
    by_workload = {name: [run for run in runs if run.workload.name == name] for name in campaign.workloads}
    by_workload = {name: found for name, found in by_workload.items() if found}
    return Report(
        f"Laboratory {campaign.name}: {listed(campaign.schedulers)} on the same machines{incomplete}",
        [*_incomplete(results, runs, all_trials)],
        (
            Section("Question", [*_question(results, found)]),
            Section("Set-up", [*setup(results, runs)]),
            Section("Figures", [*_figures(results, figures_of(results), [*by_workload], colours)]),
            Section("Differences", [*_differences(results, found)]),
            Section(
                "Utilization over time",
                [*utilization(results.cpus, campaign.schedulers, by_workload, colours)],
            ),
            Section("Runs, by machine and processor", [*gantts(runs, by_workload)]),
            Section("What schedulers use themselves", [*price(campaign.schedulers, runs)]),
            Section("What is fair, and what is not", [*fairness(campaign.schedulers, runs)]),
            Section("Disturbed trials", [*_disturbed(results), *_others(runs)]),
            Section("How to repeat it", [*_again(results, files, command)]),
        ),
    )


def _incomplete(results: Results, runs: Sequence[Run], all_trials: int) -> Iterator[Element]:
    missing = results.missing()
    if missing:
        yield Text(
            f"These results are incomplete: {number(len(missing), 'trial')} of {all_trials} {'is' if len(missing) == 1 else 'are'} missing. "
            "Figures are those of the trials so far, and nothing is concluded from them. `tidepool lab run` goes on with the campaign.",
            is_warning=True,
        )
        yield Folded(
            "Trials that are missing",
            [
                Table(
                    "",
                    ("scheduler", "workload", "repeat"),
                    [(each.scheduler, each.workload, str(each.repeat)) for each in missing],
                )
            ],
        )
    if runs:
        began = sorted(run.outcome.began for run in runs)
        yield Text(
            f"Measured from {began[0][:16].replace('T', ' ')} to {began[-1][:16].replace('T', ' ')} UTC: {number(len(runs), 'trial')} in all."
        )


def _question(results: Results, found: Sequence[Difference]) -> Iterator[Element]:
    campaign = results.campaign
    schedulers, workloads = campaign.schedulers, campaign.workloads
    with_what = f"with the workload{'' if len(workloads) == 1 else 's'} {listed(workloads)}"
    alone = f"How long does {listed(schedulers)} have jobs wait, how well does it use the machines, and what does it cost itself"
    several = f"Which of {listed(schedulers, 'or')} has jobs wait least, uses the machines best, and costs least itself"
    yield Text(
        f"{several if len(schedulers) > 1 else alone}, {with_what}? "
        "What holds here, holds for these machines, settings and workloads, which stand below."
    )
    if results.missing():
        yield Text("There is no answer yet: results are incomplete.")
    elif len(campaign.schedulers) > 1:
        yield answers(found, _ANSWERED_BY)
    else:
        yield Text("There was one scheduler: nothing is compared.")


def _figures(
    results: Results, figures: Figures, workloads: Sequence[str], colours: Mapping[str, str]
) -> Iterator[Element]:
    schedulers = results.campaign.schedulers
    so_far = "" if results.is_whole else ", of the trials so far"
    for name in workloads:
        values = values_of(figures, name)
        yield medians(name, values, schedulers, so_far)
        yield from box_plots(name, values, schedulers, colours)


def _differences(results: Results, found: Sequence[Difference]) -> Iterator[Element]:
    if results.is_whole and len(results.campaign.schedulers) > 1:
        yield from differences(found)


def _disturbed(results: Results) -> Iterator[Element]:
    found = results.disturbed()
    if not found:
        yield Text("None was: of no trial did the host take more than the laboratory's file allows.")
        return
    yield Text(
        f"{number(len(found), 'trial')} did not count, and {'was' if len(found) == 1 else 'were'} to be repeated. Their values are kept."
    )
    yield Table(
        "",
        ("scheduler", "workload", "repeat", "began, UTC", "why", "other programs, the largest first"),
        [
            (
                each.scheduler,
                each.workload,
                str(each.repeat),
                each.began[:19].replace("T", " "),
                each.disturbed,
                ", ".join(each.others),
            )
            for each in found
        ],
    )


def _others(runs: Sequence[Run]) -> Iterator[Element]:
    """Yield what else ran on the host while trials were measured that count."""
    used_s: dict[str, list[float]] = {}
    for run in runs:
        for name, cpu_s in run.outcome.others.items():
            used_s.setdefault(name, []).append(cpu_s)
    yield Table(
        "Other programs in trials that count, of each the five that used most",
        ("program", "trials", "CPU seconds in all", "in one at most"),
        [
            (name, f"{len(each):,}", figure(sum(each)), figure(max(each)))
            for name, each in sorted(used_s.items(), key=lambda found: -sum(found[1]))
        ],
    )


def _again(results: Results, files: Sequence[tuple[str, str]], command: str) -> Iterator[Element]:
    yield Text(
        "With the laboratory's file below in place, on a machine with as many processors, from a clone with its toolchains built:"
    )
    yield Command(command)
    yield Text("Every single value lies beside this report, with units in the names of columns:")
    yield Links(files)
    yield Text("The laboratory's file, as it was:")
    yield Command(
        yaml.safe_dump(
            {"config": {LAB_KEY: _said(results.laboratory)}}, sort_keys=False, allow_unicode=True
        ).rstrip()
    )


def _said(value: Any) -> Any:
    """A plain value without what says nothing, and so is as it is by default."""
    if isinstance(value, Mapping):
        return {key: said for key, each in value.items() if (said := _said(each)) not in (None, "", {}, [])}
    return [_said(each) for each in value] if isinstance(value, (list, tuple)) else value
