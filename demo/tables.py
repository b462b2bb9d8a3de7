"""The end of the demo of pools: times that jobs, pods and conversions took, in a table and as box plots."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from demo.moving import Moved
from demo.times import Spread
from tidepool.conversion.report import quantiles, rows, said_way, write_table


def waits_table(moved: Moved) -> Table:
    """Return a table of how long tasks and pods waited for a machine."""
    table = _table("", "number", "p50", "p95", "longest")
    for name, waits in (
        ("tasks: submitted -> running", moved.job_waits_s),
        ("pods: made -> running", moved.pod_waits_s),
    ):
        table.add_row(name, str(len(waits)), *_figures(waits))
    return table


def conversions_table(moved: Moved) -> Table:
    """By direction, how many conversions there were and how long they took; above each, its phases."""
    table = _table("conversions", "phase", "number", "p50", "p90", "longest")
    for each in quantiles(rows(moved.conversions)):
        seconds = (f"{value:.2f} s" for value in (each.p50, each.p90, each.longest))
        table.add_row(said_way(each.direction), each.phase, str(each.count), *seconds)
    return table


def write_report(moved: Moved, folder: Path) -> tuple[Path, ...]:
    """The table of all phases and the box plots; gives where they are.

    Raises:
        DrawingError: there is nothing to draw, or it cannot be written.
    """
    # Late: it takes most of a second.
    from tidepool.charts.box_plot import write_box_plots

    table, *plots = (folder / f"conversions{suffix}" for suffix in (".csv", ".svg", ".png"))
    folder.mkdir(parents=True, exist_ok=True)
    found = rows(moved.conversions)
    with table.open("w", encoding="utf-8", newline="") as stream:
        write_table(found, stream)
    write_box_plots(found, *plots, title="A pool between Slurm and Kubernetes")
    # Who ran it with sudo should not need that to remove them.
    if "SUDO_UID" in os.environ:
        for path in (folder, table, *plots):
            os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ.get("SUDO_GID", "-1")))
    return table, *plots


def _figures(seconds: Sequence[float]) -> Sequence[str]:
    if not seconds:
        return "", "", ""
    spread = Spread("", tuple(sorted(seconds)))
    return tuple(f"{spread.percentile(part):.2f} s" for part in (0.5, 0.95, 1.0))


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    return table
