"""`report`: what was used in a month and what it cost, from slurmdbd's records and the scaler's journal."""

from __future__ import annotations

import csv as tables
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from tidepool.cli import show
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.cluster.spec import ClusterSpec
    from tidepool.scaling.memory import Spent
    from tidepool.scaling.report import By, Month, Row, Rule

_MILLION: Final = 1_000_000


class _Month(click.ParamType[datetime]):
    """A month such as 2026-11, as when it begins in UTC."""

    name = "month"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            found = datetime.strptime(str(value), "%Y-%m").replace(tzinfo=UTC)
        except ValueError:
            self.fail(f"{value!r} is no month; write 2026-11", param, ctx)
        if found > datetime.now(UTC):
            self.fail(f"{value} has not begun", param, ctx)
        return found


@dataclass(frozen=True, slots=True)
class _Known:
    """The spec, and what machines had from the journal; None where no scaler counted them."""

    spec: ClusterSpec
    spent: Spent | None
    controller: Mapping[str, Any]


@click.command("report")
@click.option(
    "--month", "begin", type=_Month(), metavar="YYYY-MM",
    help="Which month, in UTC.  [default: this one; --by month: all that the journal counted]",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["account", "user", "fleet", "month"]), default="account", show_default=True,
    help="What to sum up by.",
)  # fmt: skip
@click.option(
    "--idle", "rule", type=click.Choice(["use", "shares", "none"]), default="use", show_default=True,
    help="Who bears what idle machines cost: each as they used the fleet, by fair shares, or nobody.",
)  # fmt: skip
@click.option(
    "--launches", "of_launches", is_flag=True,
    help="Show how long launches of nodes took instead, by infrastructure and phase.",
)  # fmt: skip
@click.option(
    "--csv",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it by month, account, user and fleet; each launch with its phases.",
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw it.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="The same, as PNG.")
@json_option
@stack_options
def report_verb(
    stack: Stack,
    begin: datetime | None,
    by: By,
    rule: Rule,
    of_launches: bool,
    csv: Path | None,
    svg: Path | None,
    png: Path | None,
    as_json: bool,
) -> None:
    """Show what accounts, users and fleets used in a month, and what it cost.

    Seconds of nodes and of processors are slurmdbd's, as `sreport` has them; seconds of machines and money are the scaler's
    journal's, of which jobs had a part each, and the rest was idle. With --launches it is the journal's alone: each node that the
    scaler launched and that came up, in the last 14 days.
    """
    if of_launches:
        source = click.get_current_context().get_parameter_source
        if said := [
            f"--{name}"
            for name in ("by", "idle")
            if source("rule" if name == "idle" else name) is not ParameterSource.DEFAULT
        ]:
            raise click.UsageError(
                f"--launches goes without {' and '.join(said)}: it is about times, by phase"
            )
        from tidepool.cli.launch_report import report_launches

        report_launches(stack, begin, csv, svg, png, as_json=as_json)
        return
    from tidepool.scaling.report import label, rows, summed, total

    known, now = _read_known(stack), datetime.now(UTC)
    found = [
        row
        for month in _months(stack, known, begin, by, now)
        for row in rows(month, rule, known.spec.accounts)
    ]
    table = summed(found, by)
    title = f"What stack {stack.name} used, " + ("by month" if by == "month" else f"{begin or now:%Y-%m}")
    if csv is not None:
        _write_csv(found, csv)
    if drawn := [path for path in (svg, png) if path is not None]:
        # Late: it takes most of a second.
        from tidepool.charts.usage import write_usage_chart

        write_usage_chart(table, by, *drawn, title=title)
    since, until = (known.spent.since, known.spent.until) if known.spent else (None, None)
    if as_json:
        show.emit(
            {
                "by": by,
                "idle": rule,
                "machinesCountedSince": since.isoformat() if since else None,
                "machinesCountedUntil": until.isoformat() if until else None,
                "rows": [{by: getattr(row, by), **_json(row)} for row in table],
                "total": _json(total(table)),
            }
        )
        return
    columns = [by, "#node-seconds", "#CPU-seconds", "#machine-seconds", "#idle", "#jobs $", "#idle $", "#$"]
    lines = [(label(row, by), *_cells(row)) for row in table]
    show.show(show.table(title, columns, [*lines, ("all", *_cells(total(table)))]))
    if since is None or until is None:
        show.warn("no scaler has counted machines yet: what was idle, and all cost, is not known")
    else:
        show.say(f"Machines are counted from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC.")


def _read_known(stack: Stack) -> _Known:
    """Read the journal, and the stack's outputs.

    Raises:
        Failure: there is no cluster, or no slurmdbd.
    """
    stack.require_root()
    from tidepool.cli.cluster import require_cluster
    from tidepool.cli.explain.record import Source
    from tidepool.cli.stack_spec import described_spec

    cluster = require_cluster(stack)
    with Source(stack) as source:
        record = source.read()
        spent = source.journal.kept().memory.spent if source.journal else None
    spec = record.spec or described_spec(stack)
    if spec.controller.accounting is None:
        raise Failure(
            "the cluster has no slurmdbd, which keeps what jobs used",
            remedy="give it one with `controller: {accounting: {}}`, and `tidepool up`",
            code=NOT_THERE,
        )
    return _Known(spec, spent, cluster.controller)


def _months(stack: Stack, known: _Known, begin: datetime | None, by: By, now: datetime) -> Iterator[Month]:
    """Ask slurmdbd for the months of the report, one after the other.

    Raises:
        SlurmError: it does not answer.
    """
    from tidepool.clients.slurm.usage import AccountRecords
    from tidepool.cluster.slurm_conf import fleets_and_pools
    from tidepool.infrastructures.connection import transport
    from tidepool.scaling.decide.budget import month_end
    from tidepool.scaling.report import Month
    from tidepool.scaling.usage import clipped, month_begin, spans, used

    shapes = {each.name: each.shape for each in fleets_and_pools(known.spec)}
    spent = known.spent
    begins = [begin or month_begin(now)]
    if by == "month" and begin is None and spent is not None:
        counted = {datetime.strptime(name, "%Y-%m").replace(tzinfo=UTC) for name in spent.machines}
        begins = sorted({*counted, *begins})
    with closing(AccountRecords(transport(known.controller, stack.data), known.spec.name)) as records:
        for first in begins:
            name = f"{first:%Y-%m}"
            if len(begins) > 1:
                show.tell(f"asking slurmdbd for {name}")
            times = [
                time
                for begun, until in spans(first, min(month_end(first), now))
                for time in records.job_times(int(begun.timestamp()), int(until.timestamp()))
            ]
            machines = spent.machines.get(name, {}) if spent else {}
            within = times
            if spent is not None and spent.since is not None:
                within = clipped(times, round(spent.since.timestamp()), round(spent.until.timestamp()))
            yield Month(name, used(times, shapes), used(within, shapes), machines)


def _amounts(row: Row) -> dict[str, int | Decimal]:
    return {
        "nodeSeconds": row.node_s,
        "cpuSeconds": row.cpu_s,
        "machineSeconds": Decimal(row.machine_us) / _MILLION,
        "idleMachineSeconds": Decimal(row.idle_us) / _MILLION,
        "usd": Decimal(row.micro_usd) / _MILLION,
        "idleUsd": Decimal(row.idle_micro_usd) / _MILLION,
    }


def _json(row: Row) -> dict[str, int | float]:
    return {key: value if isinstance(value, int) else float(value) for key, value in _amounts(row).items()}


def _cells(row: Row) -> tuple[str, ...]:
    return (
        f"{row.node_s:,}",
        f"{row.cpu_s:,}",
        f"{row.machine_us / _MILLION:,.0f}",
        f"{row.idle_us / _MILLION:,.0f}",
        f"{row.micro_usd / _MILLION:,.2f}",
        f"{row.idle_micro_usd / _MILLION:,.2f}",
        f"{(row.micro_usd + row.idle_micro_usd) / _MILLION:,.2f}",
    )


def _write_csv(rows: Sequence[Row], path: Path) -> None:
    from tidepool.scaling.report import Row

    try:
        with path.open("w", encoding="utf-8", newline="") as stream:
            written = tables.writer(stream)
            written.writerow(["month", "account", "user", "fleet", *_amounts(Row())])
            for row in rows:
                written.writerow([row.month, row.account, row.user, row.fleet, *_amounts(row).values()])
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}") from error
