"""`run`: a cluster for one workload, from nothing to results, and nothing again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidepool.cli import show
from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.options import Choice, json_option
from tidepool.cli.runs.driving import go_on, open_journal
from tidepool.cli.runs.order import check, order
from tidepool.cli.runs.run_stack import restored_stack
from tidepool.cli.stack import Stack
from tidepool.cli.stack_copy import changes_option
from tidepool.cluster.spec_changes import Change

if TYPE_CHECKING:
    from tidepool.runs.journal import Journal
    from tidepool.runs.record import Run
    from tidepool.runs.results.store import Store


@click.command("run")
@click.argument("spec", metavar="[SPEC]", required=False)
@click.argument("workload", metavar="[WORKLOAD]", required=False, type=click.Path(dir_okay=False))
@click.option("--results", metavar="URL", help="Where results are kept: s3://BUCKET/FOLDER, file:///FOLDER.")
@click.option(
    "--name", metavar="RUN", help="What the run is called; by default its workload's name and the time."
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on with a run whose driver is gone; one of another machine by its --results.",
)
@click.option("--cancel", metavar="RUN", help="End a run in order: its jobs, its outputs, its cluster.")
@click.option(
    "--keep-on-failure",
    "keep_s",
    metavar="TIME",
    default="0",
    help="Keep the cluster for so long where the run did not succeed: `2h`, `30` (minutes), `2:00:00`.",
)
@changes_option
@click.option(
    "--record",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write its record there too, run.json and index.html, when it has ended or was left.",
)
@json_option
@click.pass_obj
def run_verb(
    choice: Choice,
    spec: str | None,
    workload: str | None,
    results: str | None,
    name: str | None,
    resume: str | None,
    cancel: str | None,
    keep_s: str,
    changes: Sequence[Change],
    record: str | None,
    as_json: bool,
) -> int:
    """Make a cluster for a workload, keep its results, and take it down.

    The cluster is as stack SPEC describes it, in a stack of its own; WORKLOAD is a file. It ends whatever dies: --resume goes on
    with it, and so does `tidepool reap`, from another machine too.
    """
    from tidepool.runs.results import open_store

    context = choice.context
    journal = open_journal(choice)
    with closing(journal):
        if cancel:
            told = journal.cancel(cancel, context.who)
            show.say(f"Run {told.id} ends.")
            return 0
        if resume:
            run = _resumed(choice, journal, resume, results)
            stack = restored_stack(choice, run)
        elif spec and workload and results:
            request, (copy,) = check(
                choice, journal, spec, [changes], Path(workload), results, keep_s, name or ""
            )
            stack, run = order(journal, request, copy, context.who, name or "")
        else:
            raise Failure(
                "name a stack, a workload's file, and --results; or --resume RUN, or --cancel RUN", code=USAGE
            )
        with closing(open_store(run.order.results, context.env)) as store:
            kept = None if record is None else context.cwd / record
            return _driven(stack, run, journal, store, kept, as_json)


def _resumed(choice: Choice, journal: Journal, id: str, results: str | None) -> Run:
    """Return a run as the newer of the journal here and the copy where its results are tells of it."""
    from tidepool.runs.ports import RunError
    from tidepool.runs.results import open_store
    from tidepool.runs.results.records import StoredRecords

    here = None if results else journal.run(id)
    try:
        with closing(
            open_store(results or (here.order.results if here else ""), choice.context.env)
        ) as store:
            copy = StoredRecords(store).read(id)
    except ValueError as error:
        raise Failure(f"--results: {error}", code=USAGE) from error
    except RunError:
        if here is None:
            raise
        # What is away now is no reason not to end what is here.
        return here
    return journal.run(id) if copy is None else journal.adopt(copy)


def _driven(
    stack: Stack, run: Run, journal: Journal, store: Store, record: Path | None, as_json: bool
) -> int:
    from tidepool.cli.runs.progress import exit_code
    from tidepool.runs.ports import TakenOver

    try:
        ended = go_on(stack, run, journal, store, as_json=as_json)
    except TakenOver as error:
        remedy = f"its record tells how far it is: {store.location(run.id)}"
        raise Failure(str(error), remedy=remedy, code=NOT_THERE) from error
    finally:
        # However it was left: a pipeline keeps it.
        if record is not None:
            _write_record(journal.run(run.id), record)
    if not as_json:
        show.say(f"Run {ended.id} {ended.outcome}. {ended.because}".strip())
        show.say(f"Results: {store.location(ended.id)}")
    return exit_code(ended)


def _write_record(run: Run, folder: Path) -> None:
    from tidepool.runs.page import page
    from tidepool.runs.record import to_json

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(to_json(run))
    (folder / "index.html").write_text(page(run))
