"""`status`: what there is of a cluster, and what is wrong with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from tidepool import infrastructures
from tidepool.cli import errors, show
from tidepool.cli.cluster import Cluster, local_connection, not_up, parse_outputs
from tidepool.cli.homes import file_problems
from tidepool.cli.options import json_option, stack_options
from tidepool.cli.overview import NOBODY, Overview, Summary, overview, problems_of_pools, summary, tables
from tidepool.cli.problems import Observations, RemoteMachines
from tidepool.cli.remote_infrastructure import named_infrastructures, observe_remote
from tidepool.cli.show import document
from tidepool.cli.stack import Stack, has_journal
from tidepool.clients.slurm import SlurmError
from tidepool.cluster.names import CONTROLLER_HOST
from tidepool.infrastructures.local.kernel import Machine, started_at

if TYPE_CHECKING:
    from tidepool.cli.pools.view import PoolsView

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
    seen, scaler, pools = look(stack), scaler_of(stack), pools_of_stack(stack)
    if as_json:
        told = document(pools)["pools"] if pools else []
        show.emit({**overview_json(seen, pools), "pools": told, "scaler": document(scaler)})
    else:
        show.show(*tables(seen, scaler, pools, all_machines))
    return errors.OK if seen.is_reached and not (pools and pools.trouble) else errors.NOT_THERE


def look(stack: Stack) -> Overview:
    """The cluster of ``stack`` as it is now.

    Raises:
        Failure: there is nothing of it.
    """
    stack.require_root()
    from tidepool.infrastructures.local.kernel import list_machines

    with ThreadPoolExecutor(6) as pool:
        machines = pool.submit(list_machines, stack.data, stack.name)
        outputs = stack.outputs()
        remote = pool.submit(_remote_machines, stack, outputs)
        cluster = _cluster(stack, outputs, lambda: bool(machines.result() or remote.result().machines))
        seen = _observe(stack, cluster, machines.result(), pool)
        view = overview(cluster, replace(seen, remote=remote.result()))
        return replace(view, problems=(*view.problems, *file_problems(stack, outputs)))


def pools_of_stack(stack: Stack) -> PoolsView | None:
    """The converged pools of ``stack``, from all sides; None where it has none."""
    if not (stack.outputs() or {}).get("pools"):
        return None
    # Late: most clusters have none.
    from tidepool.cli.pools.view import observe_pools

    return observe_pools(stack)


def scaler_of(stack: Stack) -> Summary:
    """Sum up the scaler of ``stack``, as its journal tells."""
    if not has_journal(stack):
        return NOBODY
    # Late: it takes as long to import as all else here, and many clusters have no scaler.
    from tidepool.cli.explain.record import Source
    from tidepool.scaling.ports import JournalError

    try:
        with Source(stack) as source:
            return summary(source.read())
    except JournalError as error:
        return Summary("late", f"how it is cannot be known: {error}", None, None, is_well=False)


def _remote_machines(stack: Stack, outputs: Mapping[str, Any] | None) -> RemoteMachines:
    if outputs is None:
        return RemoteMachines()
    return observe_remote(stack, named_infrastructures(stack, outputs))


def _cluster(
    stack: Stack, outputs: Mapping[str, Any] | None, are_there_machines: Callable[[], bool]
) -> Cluster:
    if outputs and "controller" in outputs:
        return parse_outputs(stack.name, outputs)
    # An `up` that did not come to its end leaves machines, and no outputs.
    if not are_there_machines():
        raise not_up(stack.name)
    return Cluster(stack.name, stack.name, local_connection(stack.name, CONTROLLER_HOST))


def _observe(
    stack: Stack, cluster: Cluster, machines: tuple[Machine, ...], pool: ThreadPoolExecutor
) -> Observations:
    try:
        with closing(stack.open_slurm(cluster.controller)) as slurm:
            # First, for it says at once what the others would wait ten seconds to find out.
            controllers = slurm.ping()
            if not any(controller.is_up for controller in controllers):
                return Observations(
                    controllers, machines=machines, failure=_NO_ANSWER, remedy=_NO_ANSWER_REMEDY
                )
            # Side by side: each is a process on the controller.
            version, nodes, jobs = (
                pool.submit(slurm.version),
                pool.submit(slurm.nodes),
                pool.submit(slurm.jobs),
            )
            return Observations(controllers, version.result(), nodes.result(), jobs.result(), machines)
    except SlurmError as error:
        return Observations(machines=machines, failure=f"{error.what} ({error.where})", remedy=error.remedy)


def overview_json(seen: Overview, pools: PoolsView | None = None) -> Mapping[str, Any]:
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
                "offerings": list(f.offerings),
            }
            for f in seen.fleets
        ],
        "queue": document(seen.queue),
        "machines": [*map(_local_json, seen.machines), *map(_remote_json, seen.remote.machines)],
        "silent": dict(seen.remote.silent),
        "problems": document((*seen.problems, *problems_of_pools(pools))),
    }


def _local_json(machine: Machine) -> Mapping[str, Any]:
    return {
        "name": machine.name,
        "infrastructure": "local",
        "state": machine.state,
        "since": document(started_at(machine.pid)) if machine.pid is not None else None,
        "address": machine.address,
        "cpus": machine.cpus,
        "memoryMib": machine.memory_mib,
        "memoryKills": machine.memory_kills,
        "outdated": machine.outdated,
        "services": {
            each.name: {"state": each.state, "restarts": each.restarts} for each in machine.services
        },
    }


def _remote_json(machine: infrastructures.Machine) -> Mapping[str, Any]:
    return {
        "name": machine.key.node,
        "infrastructure": machine.key.infrastructure,
        "state": machine.state,
        "since": document(machine.since),
        "address": str(machine.address),
        "id": machine.machine_id,
    }


def _watch(stack: Stack, every_s: float, all_machines: bool) -> None:
    import sys

    from rich.console import Group
    from rich.live import Live

    pause = threading.Event()
    with Live(console=show.console(sys.stdout), auto_refresh=False, screen=sys.stdout.isatty()) as live:
        while True:
            live.update(
                Group(*tables(look(stack), scaler_of(stack), pools_of_stack(stack), all_machines)),
                refresh=True,
            )
            pause.wait(every_s)
