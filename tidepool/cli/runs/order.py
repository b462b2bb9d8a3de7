"""Ordering runs: all that can be checked is checked first; then a stack is described for each, and the run is written down."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidepool.cli.errors import USAGE, Failure
from tidepool.cli.free_networks import choosing_network
from tidepool.cli.options import Choice, Span
from tidepool.cli.runs.run_stack import name_taken, run_id, run_spec
from tidepool.cli.stack import Stack
from tidepool.cli.stack_copy import StackCopy, copy_of
from tidepool.cli.stack_spec import spec_document
from tidepool.cluster.spec_changes import Change

if TYPE_CHECKING:
    from tidepool.runs.journal import Journal
    from tidepool.runs.record import Run
    from tidepool.runs.workload import Workload


@dataclass(frozen=True, slots=True)
class Request:
    """A person's order of runs: the workload, where results are kept, and how long a cluster stays that failed, in seconds."""

    workload: Workload
    results: str
    keep_on_failure_s: int = 0


def check(
    choice: Choice,
    journal: Journal,
    spec: str,
    changes: Sequence[Sequence[Change]],
    file: Path,
    results: str,
    keep: str,
    name: str = "",
) -> tuple[Request, Sequence[StackCopy]]:
    """Check a workload on a stack with each set of ``changes``; returns the copies of the stack, one for each.

    ``name`` is a person's for the run.

    Raises:
        Failure: something is wrong; all of it is told, and nothing was made.
    """
    from tidepool.runs.feasibility import obstacles
    from tidepool.runs.ports import RunError
    from tidepool.runs.results import open_store
    from tidepool.runs.workload_reading import WorkloadError, read_workload_file

    now = datetime.now(UTC)
    template = choice.find(spec, None)
    spec_document(template)
    wrong: list[str] = []
    workload = None
    try:
        workload = read_workload_file(choice.context.cwd / file)
    except WorkloadError as error:
        wrong.append(str(error))
    copies = []
    for each in changes:
        try:
            copy = copy_of(template, run_id("run", now), each)
            copies.append(copy)
            if workload is not None and (found := obstacles(workload, copy.spec, now)):
                raise WorkloadError(found)
        except Failure as error:
            wrong.append(f"{error.what}{f' ({error.remedy})' if error.remedy else ''}")
        except WorkloadError as error:
            wrong.append(f"{f'with {_in_words(each)}: ' if each else ''}{error}")
    try:
        with closing(open_store(results, choice.context.env)) as store:
            store.check()
            if name and (taken := name_taken(name, template.project, journal, store)):
                wrong.append(f"--name = {name!r}: {taken}")
    except (RunError, ValueError) as error:
        wrong.append(f"--results: {error}")
    keep_s = 0 if keep == "0" else _seconds(keep)
    if keep_s is None:
        wrong.append(
            f"--keep-on-failure = {keep!r}: write 2h, 90m, or as Slurm does minutes, hours:minutes:seconds, days-hours"
        )
    if wrong or workload is None:
        raise Failure("\n".join(dict.fromkeys(wrong)), code=USAGE)
    return Request(workload, results, keep_s or 0), copies


def order(journal: Journal, request: Request, copy: StackCopy, by: str, id: str = "") -> tuple[Stack, Run]:
    """Describe a run's stack, on a network that is free, and write the run down in the journal of this machine."""
    from tidepool.cluster.frozen import frozen
    from tidepool.runs.record import Order
    from tidepool.runs.times import limit_s

    now, workload = datetime.now(UTC), request.workload
    id = id or run_id(workload.name, now)
    copy = replace(copy.named(id), document=run_spec(copy.document, id, workload))
    with choosing_network(copy.stack.data):
        under_way = [each for each in journal.runs(limit=0) if each.is_under_way]
        copy = copy.on_free_network(IPv4Network(each.order.spec["network"]) for each in under_way)
        run = journal.order(
            id,
            Order(
                name=workload.name,
                stack=id,
                at=now,
                by=by,
                results=request.results,
                workload=frozen(workload.model_dump(mode="json", by_alias=False)),
                spec=frozen(copy.document),
                deadline_s=limit_s(workload.deadline) if workload.deadline else None,
                budget_usd=workload.budget_usd,
                grace_s=workload.grace_s,
                keep_on_failure_s=request.keep_on_failure_s,
            ),
        )
    # What is in the journal comes to its end, and a stack's file with it.
    copy.write(with_secrets=True)
    return copy.stack, run


def _in_words(changes: Sequence[Change]) -> str:
    return ", ".join(map(str, changes))


def _seconds(time: str) -> int | None:
    """Read a time as Slurm has it, or with a unit: 90s, 2h."""
    if time[-1:].isalpha():
        try:
            return round(Span().convert(time, None, None))
        except click.BadParameter:
            return None
    from pydantic import TypeAdapter, ValidationError

    from tidepool.cluster.part import SlurmTime
    from tidepool.runs.times import limit_s

    try:
        return limit_s(TypeAdapter(SlurmTime).validate_python(time))
    except ValidationError:
        return None
