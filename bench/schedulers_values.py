"""Single values of a campaign that was run twice, as the CSV beside its page has them: a row for each trial, a column for each measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tidepool.lab.campaign import Trial
from tidepool.lab.errors import LabError
from tidepool.lab.results.store import Results
from tidepool.lab.statistics.figures import Figures, figures_of

_TRIAL = ["run", "scheduler", "workload", "repeat"]


def values_in_order(results: Results) -> Figures:
    """Return the figures of a campaign by scheduler, workload and repeat, in the order of its file.

    Raises:
        LabError: it is not whole.
    """
    if not results.is_whole:
        raise LabError(f"{results.folder} is not whole: go on with it by `tidepool lab run`")
    campaign, found = results.campaign, figures_of(results)
    return {
        trial: found[trial]
        for scheduler in campaign.schedulers
        for workload in campaign.workloads
        for trial in (Trial(scheduler, workload, repeat) for repeat in range(1, campaign.repeats + 1))
    }


def write_values(runs: Iterable[Figures], path: Path) -> None:
    """Write every single value of every measure as CSV, runs 1 and 2."""
    import polars as pl

    rows = [
        {
            "run": run,
            "scheduler": trial.scheduler,
            "workload": trial.workload,
            "repeat": trial.repeat,
            **values,
        }
        for run, figures in enumerate(runs, 1)
        for trial, values in figures.items()
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame.with_columns(pl.selectors.float().round_sig_figs(6)).write_csv(path)


def read_values(path: Path) -> tuple[Figures, ...]:
    """Return what `write_values` wrote, by run: values of six digits, in the same order."""
    import polars as pl

    runs: dict[int, dict[Trial, dict[str, float]]] = {}
    for row in pl.read_csv(path, infer_schema_length=None).iter_rows(named=True):
        run, *trial = (row.pop(key) for key in _TRIAL)
        runs.setdefault(run, {})[Trial(*trial)] = {
            measure: float(value) for measure, value in row.items() if value is not None
        }
    return tuple(runs.values())


def schedulers_of(figures: Figures) -> Sequence[str]:
    """Return the names of all schedulers, in their order."""
    return [*dict.fromkeys(trial.scheduler for trial in figures)]


def workloads_of(figures: Figures) -> Sequence[str]:
    """Return the names of all workloads, in their order."""
    return [*dict.fromkeys(trial.workload for trial in figures)]


def values_of(figures: Figures, measure: str) -> dict[tuple[str, str], list[float]]:
    """Return the values of a measure by scheduler and workload, in the order of repeats."""
    values: dict[tuple[str, str], list[float]] = {}
    for trial, own in figures.items():
        if measure in own:
            values.setdefault((trial.scheduler, trial.workload), []).append(own[measure])
    return values
