"""Results as frames in long format, one row for each single value, and their export; units stand in the names of columns.

Warm-ups are in none of them. Disturbed trials, and those that are missing, are in the frame of trials alone, with a status that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import polars as pl
from polars.datatypes import DataTypeClass

from tidepool.lab.campaign import Trial
from tidepool.lab.errors import LabError
from tidepool.lab.outcome import TrialOutcome
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.figures import figures_of
from tidepool.lab.statistics.history import histories
from tidepool.lab.statistics.measure import measure_of

Row = tuple[Any, ...]
Schema = dict[str, DataTypeClass]

_TEXT: Final = pl.String
_NUMBER: Final = pl.Float64
_WHOLE: Final = pl.Int64
_TRIAL: Final[Schema] = {"scheduler": _TEXT, "workload": _TEXT, "repeat": _WHOLE}


def trials(results: Results) -> pl.DataFrame:
    """Return all trials of the campaign: ``status`` is counts, disturbed or missing."""
    schema = _TRIAL | {"status": _TEXT, "began": _TEXT, "lasted_seconds": _NUMBER, "disturbed": _TEXT}
    rows: list[Row] = [_row(each, "counts") for each in results.outcomes()]
    rows += [_row(each, "disturbed") for each in results.disturbed() if each.repeat]
    rows += [(*_key(each), "missing", None, None, None) for each in results.missing()]
    return pl.DataFrame(rows, schema, orient="row")


def figures(results: Results) -> pl.DataFrame:
    """Return the figures of all trials that count, as docs/laboratory-figures.md defines them."""
    schema = _TRIAL | {"measure": _TEXT, "unit": _TEXT, "value": _NUMBER}
    rows = [
        (*_key(trial), name, measure_of(name).unit, value)
        for trial, of_trial in figures_of(results).items()
        for name, value in of_trial.items()
    ]
    return pl.DataFrame(rows, schema, orient="row")


def jobs(results: Results) -> pl.DataFrame:
    """Return all jobs; times are seconds since the beginning of their trial, null where there was none."""
    schema = _TRIAL | {
        "job": _TEXT,
        "tasks": _WHOLE,
        "cpus_per_task": _WHOLE,
        "memory_mib": _WHOLE,
        "priority": _WHOLE,
        "submitted_seconds": _NUMBER,
        "accepted_seconds": _NUMBER,
        "ready_seconds": _NUMBER,
        "started_seconds": _NUMBER,
        "ended_seconds": _NUMBER,
        "restarts": _WHOLE,
        "state": _TEXT,
        "succeeded": pl.Boolean,
        "as_expected": pl.Boolean,
    }

    def rows(outcome: TrialOutcome) -> Iterator[Row]:
        for each in histories(outcome, results.workload(outcome.workload, outcome.repeat)):
            job, seen = each.job, each.outcome
            yield (
                *(job.name, job.tasks, job.cpus_per_task, job.memory_mib, job.priority),
                *(seen.submitted_s, seen.accepted_s, each.ready_s, each.started_s, each.ended_s),
                *(each.restarts, seen.state, seen.succeeded, each.is_as_expected),
            )

    return _frame(results, schema, rows)


def processes(results: Results) -> pl.DataFrame:
    """Return all processes, each attempt of each task: ``cpus`` are processors that it might run on, with commas between them."""
    schema = _TRIAL | {
        "job": _TEXT,
        "rank": _WHOLE,
        "attempt": _WHOLE,
        "machine": _TEXT,
        "cpus": _TEXT,
        "started_seconds": _NUMBER,
        "ended_seconds": _NUMBER,
        "exit_code": _WHOLE,
    }
    return _frame(
        results,
        schema,
        lambda outcome: (
            (
                job.name,
                p.rank,
                p.attempt,
                p.machine,
                ",".join(map(str, p.cpus)),
                p.started_s,
                p.ended_s,
                p.exit_code,
            )
            for job in outcome.jobs
            for p in job.processes
        ),
    )


def process_figures(results: Results) -> pl.DataFrame:
    """Return what kernels measured, by process; units stand in the names of figures."""
    schema = _TRIAL | {"job": _TEXT, "rank": _WHOLE, "attempt": _WHOLE, "figure": _TEXT, "value": _NUMBER}
    return _frame(
        results,
        schema,
        lambda outcome: (
            (job.name, process.rank, process.attempt, name, value)
            for job in outcome.jobs
            for process in job.processes
            for name, value in process.figures.items()
        ),
    )


def scheduler_times(results: Results) -> pl.DataFrame:
    """Return the scheduler's own times of jobs, by its own names."""
    schema = _TRIAL | {"job": _TEXT, "name": _TEXT, "at_seconds": _NUMBER}
    return _frame(
        results,
        schema,
        lambda outcome: ((job.name, name, at_s) for job in outcome.jobs for name, at_s in job.told.items()),
    )


def usage(results: Results) -> pl.DataFrame:
    """Return the samples of what the scheduler's programs used."""
    schema = _TRIAL | {"part": _TEXT, "at_seconds": _NUMBER, "cpu_seconds": _NUMBER, "memory_bytes": _WHOLE}
    return _frame(
        results, schema, lambda outcome: ((s.part, s.at_s, s.cpu_s, s.memory_bytes) for s in outcome.usage)
    )


def host(results: Results) -> pl.DataFrame:
    """Return the samples of the machine that all ran on; counters since its boot."""
    schema = _TRIAL | {
        "at_seconds": _NUMBER,
        "stolen_seconds": _NUMBER,
        "busy_seconds": _NUMBER,
        "other_seconds": _NUMBER,
        "frequency_hz": _NUMBER,
        "throttled": _WHOLE,
        "energy_joules": _NUMBER,
    }
    return _frame(
        results,
        schema,
        lambda outcome: (
            (s.at_s, s.stolen_s, s.busy_s, s.other_s, s.frequency_hz, s.throttled, s.energy_j)
            for s in outcome.host
        ),
    )


def environment(results: Results) -> pl.DataFrame:
    """Return what figures may depend on: kernel, versions, digests, settings; requests by what they were; seconds of other programs."""
    schema = _TRIAL | {"name": _TEXT, "value": _TEXT}
    return _frame(
        results,
        schema,
        lambda outcome: (
            *outcome.environment.items(),
            *((f"requests.{what}", str(number)) for what, number in outcome.requests.items()),
            *((f"others.{name}", f"{cpu_s:.2f}") for name, cpu_s in outcome.others.items()),
        ),
    )


FRAMES: Final[Mapping[str, Callable[[Results], pl.DataFrame]]] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            trials,
            figures,
            jobs,
            processes,
            process_figures,
            scheduler_times,
            usage,
            host,
            environment,
        )
    }
)
"""All frames by their names, which are those of exported files."""


def export(results: Results, folder: Path) -> tuple[Path, ...]:
    """Write all frames into a folder, which is made: each as CSV and as Parquet. Return the files.

    Raises:
        LabError: they cannot be written.
    """
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, made_of in FRAMES.items():
            frame = made_of(results)
            frame.write_csv(folder / f"{name}.csv")
            frame.write_parquet(folder / f"{name}.parquet")
            written += [folder / f"{name}.csv", folder / f"{name}.parquet"]
    except OSError as error:
        raise LabError(
            f"{folder} cannot be written: {error.strerror or error}; name another folder"
        ) from error
    return tuple(written)


def _frame(
    results: Results, schema: Schema, rows: Callable[[TrialOutcome], Iterator[Row] | tuple[Row, ...]]
) -> pl.DataFrame:
    """Return the rows of all trials that count, with the trial before each."""
    found = [
        (outcome.scheduler, outcome.workload, outcome.repeat, *row)
        for outcome in results.outcomes()
        for row in rows(outcome)
    ]
    return pl.DataFrame(found, schema, orient="row")


def _key(trial: Trial) -> Row:
    return (trial.scheduler, trial.workload, trial.repeat)


def _row(outcome: TrialOutcome, status: str) -> Row:
    return (
        *(outcome.scheduler, outcome.workload, outcome.repeat),
        *(status, outcome.began, outcome.lasted_s, outcome.disturbed or None),
    )
