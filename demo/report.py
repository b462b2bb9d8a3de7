"""The end of the demo: the jobs, the times, the chart."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from demo.breathing import Breathed, Ran
from demo.times import Spread, times
from tidepool.cluster.hostlist import expand, fold


def numbers(ran: Sequence[Ran]) -> Table:
    """A line for each job."""
    table = Table("job", "user", "what", "state", "ran", "nodes", box=None)
    for each in ran:
        states = ", ".join(f"{count} {state}" for state, count in each.states().items())
        begun = [r.start_time for r in each.records if r.start_time]
        ended = [r.end_time for r in each.records if r.end_time]
        nodes = fold(node for record in each.records for node in expand(record.nodelist))
        took = f"{(max(ended) - min(begun)).total_seconds():.0f} s" if begun and ended else ""
        user = next((record.user for record in each.records), "")
        table.add_row(str(each.job_id), user, each.job.what, states, took, nodes)
    return table


def table_of_shares(breathed: Breathed) -> Table:
    """Return a table of accounts and their users: the account's part of the cluster, and what jobs had of it now."""
    table = Table("account", "user", "share", "CPU seconds", box=None)
    table.columns[3].justify = "right"
    used: dict[str, float] = {}
    for record in (record for each in breathed.ran for record in each.records):
        if record.start_time and record.end_time:
            seconds = record.cpus * (record.end_time - record.start_time).total_seconds()
            used[record.user] = used.get(record.user, 0) + seconds
    for account, user, share in breathed.shares:
        table.add_row(account, user, f"{float(share):.0%}", f"{used.get(user, 0):.0f}")
    return table


def table_of_times(breathed: Breathed) -> Table:
    """Return a table of how long jobs waited, how long idle nodes stayed, how many machines were started."""
    told = times(breathed.stamps, _ends(breathed), breathed.intents)
    table = Table("", "number", "p50", "p95", "longest", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for spread in (told.waited, told.made, told.gone):
        table.add_row(spread.name, str(len(spread.seconds)), *_figures(spread))
    table.add_row("machines started", str(told.machines), "", "", "")
    return table


def write_charts(breathed: Breathed, folder: Path, stack: str) -> tuple[Path, ...]:
    """The chart as SVG and PNG; gives where they are.

    Raises:
        DrawingError: they cannot be drawn or written.
    """
    # Late: it takes most of a second.
    from demo.history import history
    from tidepool.charts import DrawingError
    from tidepool.charts.fleets import Series, write_chart

    paths = tuple(folder / f"breathing{suffix}" for suffix in (".svg", ".png"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DrawingError(f"the folder {folder} cannot be made: {error.strerror}") from error
    records = [record for each in breathed.ran for record in each.records]
    drawn = history(records, breathed.intents, breathed.samples, breathed.left)
    write_chart([Series(stack, drawn)], *paths, title="A cluster that breathes")
    # Who ran it with sudo should not need that to remove them.
    if "SUDO_UID" in os.environ:
        for path in (folder, *paths):
            os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "-1")))
    return paths


def _figures(spread: Spread) -> Sequence[str]:
    if not spread.seconds:
        return "", "", ""
    return tuple(f"{spread.percentile(part):.2f} s" for part in (0.5, 0.95, 1.0))


def _ends(breathed: Breathed) -> Mapping[str, Sequence[float]]:
    """By node, when jobs ended there: as small tasks say it themselves; of others as Slurm says it, to the second."""
    ends: dict[str, list[float]] = {}
    for _, stamp in breathed.stamps:
        ends.setdefault(stamp.node, []).append(stamp.ended_s)
    for each in breathed.ran:
        for record in () if each.job.stamped else each.records:
            if record.end_time is not None:
                for node in expand(record.nodelist):
                    ends.setdefault(node, []).append(record.end_time.timestamp())
    return ends
