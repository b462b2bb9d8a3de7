"""`reap`: the sweeper. Runs whose drivers are gone are ended, from this machine; with `--listen` also when their clusters ask."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tidepool.cli import show
from tidepool.cli.errors import FAILED, OK, USAGE, Failure
from tidepool.cli.options import Choice, json_option
from tidepool.cli.runs.driving import go_on, open_journal
from tidepool.cli.runs.listening import Drivers, serve
from tidepool.cli.runs.run_stack import restored_stack

if TYPE_CHECKING:
    from tidepool.runs.record import Run


@click.command("reap")
@click.option("--results", metavar="URL", required=True, help="Where results of runs are kept.")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    help="Look again and again; with --listen each 60, unless it says else.",
)
@click.option(
    "--listen",
    metavar="ADDRESS:PORT",
    help="Be the service of runs: keep outputs and end runs when their clusters ask, by tokens that give them nothing else.",
)
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="PEM, for HTTPS.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="Its key.")
@json_option
@click.pass_obj
def reap_verb(
    choice: Choice,
    results: str,
    every_s: float | None,
    listen: str | None,
    certificate: str | None,
    key: str | None,
    as_json: bool,
) -> int:
    """End runs whose drivers are gone: outputs that are there are kept, and clusters go.

    It is run in the project's folder, where the state of stacks and the clusters' machines are reached. A run whose driver may be
    alive is left alone. From cron, or with --every or --listen as a daemon.
    """
    from tidepool.runs.reap import reap
    from tidepool.runs.results import open_store
    from tidepool.runs.results.records import StoredRecords

    first_seen: dict[str, datetime] = {}
    try:
        store = open_store(results, choice.context.env)
    except ValueError as error:
        raise Failure(f"--results: {error}", code=USAGE) from error
    if listen is not None:
        with closing(store):
            serve(Drivers(choice, results, as_json), store, listen, certificate, key, every_s)
    with closing(store), closing(open_journal(choice)) as journal:

        def end(run: Run) -> Run:
            return go_on(restored_stack(choice, run), run, journal, store, as_json=as_json)

        while True:
            found = reap(StoredRecords(store), journal, results, end, lambda: datetime.now(UTC), first_seen)
            for each in found:
                if as_json:
                    show.emit({"run": each.id, "outcome": each.outcome, "text": each.text})
                else:
                    show.say(f"{each.id}: {each.outcome}{f' ({each.text})' if each.text else ''}")
            if every_s is None:
                return FAILED if any(each.outcome == "failed" for each in found) else OK
            time.sleep(every_s)
