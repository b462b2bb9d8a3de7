"""`sweep`: a workload on clusters that differ in what is varied, some at once, and what came of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidepool.cli import show
from tidepool.cli.errors import FAILED, OK, USAGE, Failure
from tidepool.cli.options import Choice, json_option
from tidepool.cli.runs.driving import open_journal
from tidepool.cli.runs.order import Request, check
from tidepool.cli.runs.run_stack import run_id
from tidepool.cli.stack_copy import StackCopy, changes_option
from tidepool.cluster.spec_changes import Change
from tidepool.engine import yaml_reading

if TYPE_CHECKING:
    from tidepool.cli.runs.verbs import VerbServer
    from tidepool.runs.journal import Journal
    from tidepool.runs.results.store import Store
    from tidepool.runs.sweeps.comparison import Comparison
    from tidepool.runs.sweeps.sweep import Sweep, Variation


class _VariationOption(click.ParamType[Any]):
    """``PATH=VALUE,VALUE``, the values as YAML reads them."""

    name = "variation"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Variation:
        from tidepool.runs.sweeps.sweep import Variation

        path, equals, text = str(value).partition("=")
        try:
            values = yaml_reading.load(f"[{text}]") if equals and path else []
        except ValueError as error:
            self.fail(f"the values of {path} are no YAML: {error}", param, ctx)
        if not values:
            self.fail(f"{value!r} is no PATH=VALUE,VALUE; write fleets.cpu.shape.cpus=2,4,8", param, ctx)
        if path in ("name", "network"):
            self.fail(f"each run has a {path} of its own; vary what clusters are made of", param, ctx)
        if any(each in values[:i] for i, each in enumerate(values)):
            self.fail(f"{value!r} has a value twice; --repeat runs each several times", param, ctx)
        return Variation(path, tuple(values))


@click.command("sweep")
@click.argument("spec", metavar="[SPEC]", required=False)
@click.argument("workload", metavar="[WORKLOAD]", required=False, type=click.Path(dir_okay=False))
@click.option("--results", metavar="URL", required=True, help="Where results are kept, as of `run`.")
@click.option(
    "--vary",
    "variations",
    metavar="PATH=VALUE,VALUE",
    type=_VariationOption(),
    multiple=True,
    help="Values of the spec that are tried: `fleets.cpu.shape.cpus=2,4,8`. Said again, all combinations are.",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="Run each so often.")
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    help="So many runs side by side. By default as many as this machine has processors and memory for.",
)
@changes_option
@click.option(
    "--keep-on-failure",
    "keep",
    metavar="TIME",
    default="0",
    help="As of `run`, for each that did not succeed.",
)
@click.option("--resume", metavar="SWEEP", help="Go on with a sweep that was cut off.")
@click.option(
    "--show", "shown", metavar="SWEEP", help="Show what came of a sweep, by the records of its runs."
)
@click.option(
    "--chart",
    "charts",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    multiple=True,
    help="Write its chart there too: SVG or PNG, by the suffix.",
)
@json_option
@click.pass_obj
def sweep_verb(
    choice: Choice,
    spec: str | None,
    workload: str | None,
    results: str,
    variations: Sequence[Variation],
    repeat: int,
    at_once: int | None,
    changes: Sequence[Change],
    keep: str,
    resume: str | None,
    shown: str | None,
    charts: Sequence[str],
    as_json: bool,
) -> int:
    """Run a workload on clusters that differ, and compare their time, cost and efficiency.

    Each run is one of `tidepool run`, with a cluster of its own as stack SPEC describes it and --vary changes it. One that fails
    spoils no other. What came of it stands beside the results, and is shown again by --show, without a cluster.
    """
    from tidepool.runs.results import open_store
    from tidepool.runs.results.sweeps import StoredSweeps

    try:
        store = open_store(results, choice.context.env)
    except ValueError as error:
        raise Failure(f"--results: {error}", code=USAGE) from error
    with closing(store):
        sweeps = StoredSweeps(store)
        if shown:
            found = sweeps.compared(sweeps.read(shown))
        elif resume:
            sweep = sweeps.read(resume)
            with _forking(choice, sweep.stack) as verbs, closing(open_journal(choice)) as journal:
                request, copies = _requested(choice, sweep, results)
                found = _driven(choice, verbs, sweep, request, copies, journal, store, as_json)
        elif spec and workload and variations:
            sets = _combined(changes, variations)
            with _forking(choice, spec) as verbs, closing(open_journal(choice)) as journal:
                request, copies = check(choice, journal, spec, sets, Path(workload), results, keep)
                sweep = _new(choice, spec, request, copies, variations, repeat, at_once or 0)
                sweeps.write(sweep)
                found = _driven(choice, verbs, sweep, request, copies, journal, store, as_json)
        else:
            raise Failure(
                "name a stack, a workload's file, and --vary; or --resume SWEEP, or --show SWEEP", code=USAGE
            )
        return _show(choice, found, store, charts, as_json)


@contextmanager
def _forking(choice: Choice, spec: str) -> Iterator[VerbServer]:
    """Fork runs in the project's folder, from a process that imports what all of them need while the sweep is checked."""
    from tidepool.cli.runs.verbs import VerbServer

    with closing(VerbServer.start(choice.find(spec, None), "runs")) as verbs:
        yield verbs


def _combined(changes: Sequence[Change], variations: Sequence[Variation]) -> Sequence[Sequence[Change]]:
    from tidepool.runs.sweeps.sweep import combinations

    paths = [each.path for each in variations]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise Failure(
            f"--vary {twice[0]} is said twice; write all of its values with commas between", code=USAGE
        )
    if network := [each for each in changes if each.path == "network"]:
        raise Failure(f"--set {network[0]}: each run has a network of its own", code=USAGE)
    return [(*changes, *each) for each in combinations(variations)]


def _new(
    choice: Choice,
    spec: str,
    request: Request,
    copies: Sequence[StackCopy],
    variations: Sequence[Variation],
    repeat: int,
    at_once: int,
) -> Sweep:
    from tidepool.cluster.frozen import FrozenDict, frozen
    from tidepool.runs.sweeps.sweep import Point, Sweep, combinations, repeated

    now, name = datetime.now(UTC), request.workload.name
    values = [FrozenDict({each.path: frozen(each.value) for each in one}) for one in combinations(variations)]
    points = [Point(each, frozen(copy.document)) for each, copy in zip(values, copies, strict=True)]
    return Sweep(
        id=run_id(name, now),
        at=now,
        by=choice.context.who,
        stack=spec,
        workload=frozen(request.workload.model_dump(mode="json", by_alias=False)),
        points=tuple(points),
        runs=repeated(len(points), repeat, lambda: run_id(name, now)),
        keep_on_failure_s=request.keep_on_failure_s,
        at_once=at_once,
    )


def _requested(choice: Choice, sweep: Sweep, results: str) -> tuple[Request, Sequence[StackCopy]]:
    """Return what was asked of a sweep that is gone on with, by its record."""
    from tidepool.cluster.spec_reading import read_spec
    from tidepool.runs.workload import Workload

    source = choice.find(sweep.stack, None)
    # What is frozen cannot be put on another network.
    specs = [json.loads(json.dumps(each.spec)) for each in sweep.points]
    copies = [StackCopy(source, replace(source, name=sweep.id), each, read_spec(each)) for each in specs]
    return Request(Workload.model_validate(sweep.workload), results, sweep.keep_on_failure_s), copies


def _driven(
    choice: Choice,
    verbs: VerbServer,
    sweep: Sweep,
    request: Request,
    copies: Sequence[StackCopy],
    journal: Journal,
    store: Store,
    as_json: bool,
) -> Comparison:
    from tidepool.cli.runs.sweeping import Sweeping, progress, this_machine
    from tidepool.runs.results.sweeps import StoredSweeps
    from tidepool.runs.sweeps.capacity import needed_capacity

    sweeps = StoredSweeps(store)
    needs = [needed_capacity(request.workload, copy.spec) for copy in copies]
    if not as_json:
        show.tell(
            f"sweep {sweep.id}: {show.number(len(sweep.runs), 'run')}, {store.location(f'sweeps/{sweep.id}')}"
        )
    told = progress(sweep, as_json=as_json)
    sweeping = Sweeping(choice, verbs, sweep, request, copies, needs, this_machine(), journal, told)
    try:
        sweeping.run(sweeps.compared(sweep).runs)
    except KeyboardInterrupt:
        show.tell(f"`tidepool sweep --resume {sweep.id} --results {request.results}` goes on with it")
        raise
    found = sweeps.compared(sweep)
    sweeps.publish(found)
    return found


def _show(choice: Choice, found: Comparison, store: Store, charts: Sequence[str], as_json: bool) -> int:
    from tidepool.runs.results.sweeps import draw
    from tidepool.runs.sweeps.page import columns, rows_of, to_document

    if charts:
        draw(found, *(choice.context.cwd / each for each in charts))
    if as_json:
        show.emit(to_document(found))
        return OK if found.is_whole else FAILED
    show.show(show.table(f"Sweep {found.sweep.id}", columns(found), rows_of(found)))
    for point, id, run in found.amiss:
        what = "was not begun" if run is None else f"{run.outcome or run.phase}: {run.because or run.text}"
        show.say(f"{id} ({point.label}) {what}")
    for path, values in found.differs.items():
        show.warn(f"{path} was not varied, and differs: {', '.join(each or '(none)' for each in values)}")
    show.say(f"page and chart: {store.location(f'sweeps/{found.sweep.id}/index.html')}")
    return OK if found.is_whole else FAILED
