"""`replay`: what the scaler would have done with the jobs of a trace, under one policy or several."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml

from tidepool.charts import DrawingError
from tidepool.charts.fleets import Series, write_chart
from tidepool.cli import show
from tidepool.cli.errors import FAILED, USAGE, Failure
from tidepool.cli.options import chosen, folder_option, json_option
from tidepool.cli.stack_spec import described_spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.simulation.replay import Replayed, Trace, TraceError, read_trace, replay

#: Of what could not be used, so many lines are told.
_TOLD: Final = 5


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--spec",
    "spec_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file with a cluster's spec, in place of the stack's.",
)
@click.option(
    "--compare",
    "others",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="A file with keys of a spec, such as `scaling`, that take the place of those of the spec. Several are compared.",
)
@click.option(
    "--chart",
    "charts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="Write a chart: SVG or PNG, by its suffix. May be said several times.",
)
@click.option(
    "--backfill/--no-backfill",
    default=True,
    help="Whether Slurm lets short jobs go first where there is room.",
)
@click.option("-s", "--stack", metavar="NAME", help="The stack whose spec it is.")
@folder_option("The project's folder.")
@json_option
def replay_verb(
    file: Path,
    spec_file: Path | None,
    others: Sequence[Path],
    charts: Sequence[Path],
    backfill: bool,
    stack: str | None,
    folder: str | None,
    as_json: bool,
) -> None:
    """Run the jobs of a trace in a simulated cluster, and compare policies.

    The decisions are the scaler's own. FILE is a trace in the Standard Workload Format, packed with gzip or not, or a journal of the scaler's. Nothing
    real is touched. Lines that are broken are counted, named and left out.
    """
    specs = _specs(spec_file, others, stack, folder)
    try:
        trace = read_trace(file)
    except TraceError as error:
        raise Failure(str(error), code=USAGE) from None
    found = {name: _replayed(trace, spec, name, backfill) for name, spec in specs.items()}
    try:
        if charts:
            series = [Series(name, each.samples) for name, each in found.items()]
            write_chart(series, *charts, title=f"{file.name}: {len(trace.jobs)} jobs")
    except DrawingError as error:
        raise Failure(str(error), code=USAGE) from None
    if as_json:
        show.emit(_document(trace, found))
    else:
        _tell_broken(trace)
        show.show(_table(file, trace, found))


def _specs(
    spec_file: Path | None, others: Sequence[Path], stack: str | None, folder: str | None
) -> dict[str, ClusterSpec]:
    """Return the specs by the names that they have in what is shown."""
    if spec_file is not None:
        keys = _mapping(spec_file)
        specs = {spec_file.stem: _read(keys, spec_file)}
    else:
        found = chosen(click.get_current_context()).find(stack, folder)
        spec = described_spec(found)
        keys = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        specs = {found.name: spec}
    for other in others:
        name = other.stem if other.stem not in specs else str(other)
        specs[name] = _read({**keys, **_mapping(other)}, other)
    return specs


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Failure(f"{path} is no YAML: {error}", code=USAGE) from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", code=USAGE) from None
    if not isinstance(read, dict):
        raise Failure(
            f"{path} should be keys and values of a spec; docs/cluster-spec.md lists them", code=USAGE
        )
    return read


def _read(keys: Mapping[str, Any], path: Path) -> ClusterSpec:
    try:
        spec = read_spec(keys)
    except SpecError as error:
        raise Failure(f"{path}: {error}", code=USAGE) from None
    if not spec.fleets:
        raise Failure(f"{path}: the spec has no fleets, so no job would ever run", code=FAILED)
    return spec


def _replayed(trace: Trace, spec: ClusterSpec, name: str, backfill: bool) -> Replayed:
    if not sys.stderr.isatty():
        return replay(trace, spec, backfill=backfill)
    from rich.progress import Progress

    with Progress(console=show.console(sys.stderr), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        return replay(
            trace, spec, backfill=backfill, progress=lambda share: bar.update(task, completed=share)
        )


def _tell_broken(trace: Trace) -> None:
    if trace.broken:
        told = "\n".join(f"  {broken}" for broken in trace.broken[:_TOLD])
        more = f"\n  and {len(trace.broken) - _TOLD} more" if len(trace.broken) > _TOLD else ""
        show.warn(f"{len(trace.broken)} broken lines are left out:\n{told}{more}")
    if trace.not_run:
        show.tell(f"{trace.not_run} jobs never ran, and are left out")


def _table(file: Path, trace: Trace, found: Mapping[str, Replayed]) -> Any:
    figures = [each.figures for each in found.values()]
    rows: list[tuple[str, list[str]]] = [
        ("jobs that ran", [f"{each.jobs:,}" for each in figures]),
        (
            "jobs that cannot run here",
            [f"{each.figures.left_waiting + len(each.refused):,}" for each in found.values()],
        ),
        ("wait, mean", [_time(each.wait_mean_s) for each in figures]),
        ("wait, half of them", [_time(each.wait_p50_s) for each in figures]),
        ("wait, 95 % of them", [_time(each.wait_p95_s) for each in figures]),
        ("wait, longest", [_time(each.wait_max_s) for each in figures]),
        ("bounded slowdown", [f"{each.bounded_slowdown:.2f}" for each in figures]),
        ("machines started", [f"{each.machines_started:,}" for each in figures]),
        ("node hours", [f"{each.node_hours:,.1f}" for each in figures]),
        ("cost, US$", [f"{each.cost_usd:,.2f}" for each in figures]),
        ("utilisation", [f"{each.utilisation:.1%}" for each in figures]),
        ("from first to last job", [_time(each.span_s) for each in figures]),
        ("simulated in", [_time(each.took_s) for each in figures]),
    ]
    title = f"{file.name}: {len(trace.jobs):,} jobs from {trace.begin:%Y-%m-%d %H:%M} UTC"
    return show.table(title, ["", *(f"#{name}" for name in found)], [(name, *cells) for name, cells in rows])


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _document(trace: Trace, found: Mapping[str, Replayed]) -> Mapping[str, Any]:
    return {
        "begin": trace.begin.isoformat(),
        "jobs": len(trace.jobs),
        "notRun": trace.not_run,
        "broken": [{"line": each.line, "reason": each.reason} for each in trace.broken],
        "outcomes": {
            name: {**show.document(each.figures), "refused": each.refused} for name, each in found.items()
        },
    }
