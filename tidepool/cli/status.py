"""`status`: what there is of a cluster, and what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.cluster import Cluster, local_connection, not_up, parse_outputs
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.overview import BAD_WORDS, Overview, Seen, overview
from tidepool.cli.scaler.document import document
from tidepool.cli.scaler.place import has_journal
from tidepool.cli.scaler.summary import NOBODY, Summary, summary
from tidepool.cli.stack import Stack
from tidepool.cluster.names import CONTROLLER_HOST
from tidepool.local import Machine
from tidepool.slurm import SlurmError

_LEAST_WATCH_S: Final = 0.2
_NO_ANSWER: Final = "slurmctld does not answer"
_NO_ANSWER_REMEDY: Final = "it is started again by itself; if it does not come back, `tidepool logs controller` says why, and `tidepool up`"


@click.command("status")
@click.option(
    "-a", "--all", "all_machines", is_flag=True, help="Each machine, also those of nodes that are well."
)
@click.option(
    "-w",
    "--watch",
    "watch_s",
    type=click.FloatRange(min=_LEAST_WATCH_S),
    is_flag=False,
    flag_value=1.0,
    metavar="[SECONDS]",
    help="Look again and again, each second or as said, until Ctrl-C.",
)
@json_option
@stack_options
def status_verb(stack: Stack, all_machines: bool, watch_s: float | None, as_json: bool) -> int:
    """Show controllers, fleets, the queue and machines, and what is wrong, with what mends it.

    The exit code is 3 where the cluster is not up, or Slurm does not answer.
    """
    if watch_s is not None:
        if as_json:
            raise click.UsageError("--watch and --json do not go together")
        _watch(stack, watch_s, all_machines)
    seen, scaler = look(stack), scaler_of(stack)
    if as_json:
        show.emit({**as_document(seen), "scaler": document(scaler)})
    else:
        show.show(*_tables(seen, scaler, all_machines))
    return errors.OK if seen.is_reached else errors.NOT_THERE


def look(stack: Stack) -> Overview:
    """The cluster of ``stack`` as it is now.

    Raises:
        Failure: there is nothing of it.
    """
    stack.require_root()
    from tidepool.local import list_machines

    with ThreadPoolExecutor(5) as pool:
        machines = pool.submit(list_machines, stack.data, stack.name)
        cluster = _cluster(stack, machines.result)
        return overview(cluster, _seen(stack, cluster, machines.result(), pool))


def scaler_of(stack: Stack) -> Summary:
    """How the scaler of ``stack`` is, as its journal tells."""
    if not has_journal(stack):
        return NOBODY
    # Late: it takes as long to import as all else here, and many clusters have no scaler.
    from tidepool.cli.scaler.opening import Source
    from tidepool.scaling.ports import JournalError

    try:
        with Source(stack) as source:
            return summary(source.read())
    except JournalError as error:
        return Summary("late", f"how it is cannot be known: {error}", None, None, is_well=False)


def _cluster(stack: Stack, machines: Any) -> Cluster:
    outputs = stack.outputs()
    if outputs and "controller" in outputs:
        return parse_outputs(stack.name, outputs)
    # An `up` that did not come to its end leaves machines, and no outputs.
    if not machines():
        raise not_up(stack.name)
    return Cluster(stack.name, stack.name, local_connection(stack.name, CONTROLLER_HOST))


def _seen(stack: Stack, cluster: Cluster, machines: tuple[Machine, ...], pool: ThreadPoolExecutor) -> Seen:
    try:
        with closing(stack.world.open_slurm(cluster.controller, stack.data)) as slurm:
            # First, for it says at once what the others would wait ten seconds to find out.
            controllers = slurm.ping()
            if not any(controller.is_up for controller in controllers):
                return Seen(controllers, machines=machines, failure=_NO_ANSWER, remedy=_NO_ANSWER_REMEDY)
            # Side by side: each is a process on the controller.
            version, nodes, jobs = (
                pool.submit(slurm.version),
                pool.submit(slurm.nodes),
                pool.submit(slurm.jobs),
            )
            return Seen(controllers, version.result(), nodes.result(), jobs.result(), machines)
    except SlurmError as error:
        return Seen(machines=machines, failure=f"{error.what} ({error.where})", remedy=error.remedy)


def as_document(seen: Overview) -> Mapping[str, Any]:
    """The overview as `--json` shows it."""
    return {
        "stack": seen.stack,
        "cluster": seen.cluster,
        "reached": seen.is_reached,
        "version": seen.version,
        "controllers": [{"role": c.role, "host": c.host, "up": c.is_up} for c in seen.controllers],
        "fleets": [
            {
                "name": f.name,
                "up": f.up,
                "present": f.present,
                "states": dict(f.nodes),
                "max": f.max_nodes,
                "jobs": f.jobs,
            }
            for f in seen.fleets
        ],
        "queue": [{"state": q.state, "reason": q.reason, "jobs": q.jobs, "cpus": q.cpus} for q in seen.queue],
        "machines": [
            {
                "name": m.name,
                "state": m.state,
                "address": m.address,
                "cpus": m.cpus,
                "memoryMib": m.memory_mib,
                "memoryKills": m.memory_kills,
                "outdated": m.outdated,
                "services": {s.name: {"state": s.state, "restarts": s.restarts} for s in m.services},
            }
            for m in seen.machines
        ],
        "problems": [{"severity": p.severity, "what": p.what, "remedy": p.remedy} for p in seen.problems],
    }


def _tables(seen: Overview, scaler: Summary, all_machines: bool) -> list[Any]:
    tables = [_problems(seen)] if seen.problems else []
    if seen.is_reached:
        tables += [_controllers(seen), _fleets(seen), _queue(seen)]
    return [*tables, _scaler(scaler), _machines(seen, all_machines)]


def _scaler(scaler: Summary) -> Any:
    return show.table("scaler", ["is"], [((scaler.words, "" if scaler.is_well else "yellow"),)])


def _controllers(seen: Overview) -> Any:
    rows = [
        (c.host, c.role, ("up", "green") if c.is_up else ("DOWN", "bold red"), seen.version)
        for c in seen.controllers
    ]
    return show.table(
        f"{seen.cluster} (stack {seen.stack})", ["controller", "role", "slurmctld", "version"], rows
    )


def _fleets(seen: Overview) -> Any:
    states = sorted({s for fleet in seen.fleets for s in fleet.nodes}, key=lambda s: (s in BAD_WORDS, s))
    rows = [
        (
            fleet.name,
            *(
                (n, "red" if s in BAD_WORDS else "") if (n := fleet.nodes.get(s, 0)) else ("-", "dim")
                for s in states
            ),
            fleet.present,
            fleet.max_nodes,
            fleet.jobs,
        )
        for fleet in seen.fleets
    ]
    return show.table("fleets", ["fleet", *(f"#{s}" for s in states), "#nodes", "#max", "#jobs"], rows)


def _queue(seen: Overview) -> Any:
    rows = [(q.state, q.reason, q.jobs, q.cpus) for q in seen.queue] or [("empty", "", 0, 0)]
    return show.table("queue", ["jobs", "reason", "#number", "#cpus"], rows)


def _machines(seen: Overview, all_of_them: bool) -> Any:
    shown = [m for m in seen.machines if all_of_them or m.name in seen.own or not _is_well(m)]
    rows: list[tuple[object, ...]] = [
        (
            m.name,
            (m.state, "green" if m.state == "running" else "bold red"),
            m.address,
            f"{m.cpus:g}",
            m.memory_mib,
            (m.memory_kills, "red" if m.memory_kills else ""),
            ", ".join(f"{s.name} {s.state}" for s in m.services if s.state not in ("up", "done")),
        )
        for m in shown
    ]
    if rest := len(seen.machines) - len(shown):
        rows.append((f"and {rest} more", ("running", "green"), *([""] * 5)))
    columns = ["machine", "state", "address", "#cpus", "#MiB", "#memory kills", "not up"]
    return show.table("machines", columns, rows)


def _is_well(machine: Machine) -> bool:
    return (
        machine.state == "running"
        and not machine.memory_kills
        and all(service.state in ("up", "done") for service in machine.services)
    )


def _problems(seen: Overview) -> Any:
    styles = {"failure": "red", "note": "yellow"}
    rows = [((p.what, styles[p.severity]), p.remedy) for p in seen.problems]
    return show.table("to look at", ["what", "remedy"], rows)


def _watch(stack: Stack, every_s: float, all_machines: bool) -> None:
    import sys

    from rich.console import Group
    from rich.live import Live

    pause = threading.Event()
    with Live(console=show.console(sys.stdout), auto_refresh=False, screen=sys.stdout.isatty()) as live:
        while True:
            live.update(Group(*_tables(look(stack), scaler_of(stack), all_machines)), refresh=True)
            pause.wait(every_s)
