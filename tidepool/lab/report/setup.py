"""Set-up of a campaign: schedulers, workloads, machines, and all that figures may depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidepool.lab.report.elements import Element, Table, Text
from tidepool.lab.report.runs import Run, machines_of
from tidepool.lab.report.words import different, listed, number, plain
from tidepool.lab.results.store import Results
from tidepool.lab.workload import Workload

#: Keys of the laboratory's file that have tables of their own.
_SHOWN = ("schedulers", "workloads")


def setup(results: Results, runs: Sequence[Run]) -> Iterator[Element]:
    """Yield what was measured, on what."""
    laboratory, campaign = results.laboratory, results.campaign
    machines = machines_of(runs)
    on = f"{number(len(machines), 'machine')} ({listed(machines)})" if machines else "the machines"
    in_turn = " one after the other" if len(campaign.schedulers) > 1 else ""
    yield Text(
        f"{listed(campaign.schedulers)} had {on}{in_turn}, {number(results.cpus, 'processor')} in all. "
        f"Each workload ran {number(campaign.repeats, 'time')} under each, after a warm-up of each that is in no figure. "
        "A repeat has the same jobs under all of them; their order was drawn anew for each."
    )
    yield Table(
        "Schedulers",
        ("scheduler", "kind", "options"),
        [*_entries(laboratory, "schedulers", campaign.schedulers, "options")],
    )
    first = {run.workload.name: run.workload for run in reversed(runs)}
    yield Table(
        "Workloads",
        ("workload", "kind", "jobs", "tasks", "largest, processors", "machines that die", "parameters"),
        [
            (name, kind, *(_size(first[name]) if name in first else ("-",) * 4), parameters)
            for name, kind, parameters in _entries(laboratory, "workloads", campaign.workloads, "parameters")
        ],
    )
    yield Table(
        "The laboratory's other settings",
        ("setting", "value"),
        [(key, plain(value)) for key, value in laboratory.items() if key not in _SHOWN and plain(value)],
    )
    by_scheduler = {
        name: [run.outcome.environment for run in runs if run.outcome.scheduler == name]
        for name in campaign.schedulers
    }
    alike, differing = environments({name: each for name, each in by_scheduler.items() if each})
    yield Table("The same in all runs", ("", "value"), [*alike.items()])
    yield Table(
        "By scheduler",
        ("", *by_scheduler),
        [(key, *(each.get(name, "-") for name in by_scheduler)) for key, each in differing.items()],
    )


def environments(
    by_scheduler: Mapping[str, Sequence[Mapping[str, str]]],
) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
    """Return what was the same in all runs, and else by key what each scheduler's runs had: several values, where it changed among them."""
    keys = sorted({key for each in by_scheduler.values() for one in each for key in one})
    alike: dict[str, str] = {}
    differing: dict[str, Mapping[str, str]] = {}
    for key in keys:
        seen = {name: [one.get(key, "-") for one in each] for name, each in by_scheduler.items()}
        values = {value for each in seen.values() for value in each}
        if len(values) == 1:
            (alike[key],) = values
        else:
            differing[key] = {name: different(each) for name, each in seen.items()}
    return alike, differing


def _entries(
    laboratory: Mapping[str, Any], key: str, names: Sequence[str], details: str
) -> Iterator[tuple[str, str, str]]:
    """Name, kind and details of each entry of a list in the laboratory's file."""
    entries = {
        each["name"]: each for each in laboratory.get(key, ()) if isinstance(each, Mapping) and "name" in each
    }
    for name in names:
        entry = entries.get(name, {})
        yield name, str(entry.get("kind") or name), plain(entry.get(details, {}))


def _size(workload: Workload) -> tuple[str, str, str, str]:
    jobs = workload.jobs
    return (
        f"{len(jobs):,}",
        f"{sum(job.tasks for job in jobs):,}",
        str(max((job.cpus for job in jobs), default=0)),
        str(len(workload.deaths)),
    )
