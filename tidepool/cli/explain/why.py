"""`why`: the reason for what a job, a node, a fleet or a pod is and does, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import click

from tidepool.cli import options, show
from tidepool.cli.cluster import fleet_of, require_cluster
from tidepool.cli.errors import NOT_THERE, USAGE, Failure
from tidepool.cli.explain.lines import Line, give
from tidepool.cli.explain.record import Record, Source
from tidepool.cli.explain.why_job import find_job, fits, job_lines, limit_words, why_job
from tidepool.cli.explain.why_node import fleet_lines, node_lines, why_fleet, why_node
from tidepool.cli.explain.why_pool import (
    in_the_way,
    in_the_way_lines,
    known,
    machine_lines,
    pod_lines,
    why_machine,
    why_pod,
)
from tidepool.cli.jobs import ids_text
from tidepool.cli.pools import observe_kubernetes, read_conversions, require_pools
from tidepool.cli.pools.view import observe_pools
from tidepool.cli.scaler_ports import read_or_recompute
from tidepool.cli.show import document
from tidepool.cli.stack import Stack
from tidepool.clients.slurm import Job, JobState, NotFound, SlurmClient, SlurmError
from tidepool.clients.slurm.limits import limit_of
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.slots import fleet_and_number
from tidepool.cluster.spec import ClusterSpec

if TYPE_CHECKING:
    from tidepool.conversion.record import Conversion
    from tidepool.scaling.ports import Intent, JobRecord

_T = TypeVar("_T")
Kind = Literal["job", "node", "fleet", "pod"]

#: A job's id, or a task of an array.
_JOB: Final = re.compile(r"[1-9][0-9]*(_[0-9]+)?")
_EVENTS: Final = 30
#: Among so many actions are those that were for one job.
_ACTIONS: Final = 2_000
_REMEMBERED: Final = timedelta(days=31)


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    if context.params.get("kind") == "node":
        return options.node_names(context, parameter, incomplete)
    return (
        options.fleet_names(context, parameter, incomplete) if context.params.get("kind") == "fleet" else []
    )


@click.command("why")
@click.argument("kind", type=click.Choice(["job", "node", "fleet", "pod"]))
@click.argument("name", shell_complete=_names)
@options.json_option
@options.stack_options
def why_verb(stack: Stack, kind: Kind, name: str, as_json: bool) -> None:
    """Say why a job or a pod waits, a node is where it is, or a fleet has the nodes that it has.

    NAME is a job's id (4711, or 4711_3 of an array), a node's name, a fleet's, or a pod's (default/web-0). The journal of
    the daemon knows. Where no daemon runs, it is decided afresh, once, and nothing is done.
    """
    with Source(stack) as source:
        asker = _Asker(stack, source, read_or_recompute(stack, source))
        ask = {"job": asker.job, "node": asker.node, "fleet": asker.fleet, "pod": asker.pod}[kind]
        why, lines = ask(name)
    give(why, lines, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Asker:
    stack: Stack
    source: Source
    record: Record

    def job(self, wanted: str) -> tuple[object, Iterable[Line]]:
        if not _JOB.fullmatch(wanted):
            raise Failure(
                f"{wanted!r} is no job's id; write 4711, or 4711_3 for a task of an array", code=USAGE
            )
        listed = self.record.state.jobs if self.record.state else ()
        found = find_job(listed, wanted)
        noted = self._noted_job(int(wanted.partition("_")[0]))
        if not found:
            asked = self._ask("for the job", lambda slurm: slurm.job(int(wanted.partition("_")[0])))
            found = find_job(asked or (), wanted)
            if not found and noted is None:
                raise self._unknown_job(wanted, listed, asked is not None)
        job = found[0] if found else None
        begun = (
            job.submit_time if job else noted.submitted if noted else None
        ) or self.record.now - _REMEMBERED
        why = why_job(
            self.record,
            job,
            noted,
            self._intents(since=begun),
            fits(self.record, job) if job else (),
            self._limits(job) if job and limit_of(job.reason) else (),
            self._peak_mib(job) if job and job.state is JobState.OUT_OF_MEMORY else None,
        )
        if not (waits := in_the_way(self._conversions(), "job", wanted)):
            return why, job_lines(why)
        told = {**document(why), "inTheWay": document(waits)}
        return told, (*job_lines(why), *in_the_way_lines(waits, self.record.now))

    def pod(self, name: str) -> tuple[object, Iterable[Line]]:
        wanted = name if "/" in name else f"default/{name}"
        pools = require_pools(self.stack, self.stack.outputs())
        seen = observe_kubernetes(self.stack, pools.kubernetes, with_pods=True)
        if seen.failure:
            raise Failure(f"Kubernetes cannot be asked: {seen.failure}", code=NOT_THERE)
        found = next((pod for pod in seen.pods if pod.key == wanted), None)
        if found is None:
            raise Failure(f"there is no pod {wanted}", remedy=known(seen.pods), code=NOT_THERE)
        why = why_pod(self.record, found, self._conversions())
        return why, pod_lines(why)

    def node(self, name: str) -> tuple[object, Iterable[Line]]:
        if fleet_of(name) == name:
            raise Failure(f"{name!r} is no node's name: those are FLEET-NUMBER, such as cpu-17", code=USAGE)
        if fleet_of(name) in {pool.name for pool in self._spec().pools}:
            return self._machine(name)
        fleet = self._fleet(fleet_of(name))
        slots = f"{fleet.name}-[1-{fleet.max_nodes}]" if fleet.max_nodes > 1 else f"{fleet.name}-1"
        intents = self._intents(node=name)
        is_slot = fleet_and_number(name)[1] <= fleet.max_nodes
        decision = self.record.decision
        if not (is_slot or intents or (decision is not None and name in decision.nodes)):
            raise Failure(
                f"there is no node {name}: the slots of fleet {fleet.name} are {slots}", code=NOT_THERE
            )
        why = why_node(self.record, name, intents)
        return why, node_lines(why)

    def _machine(self, name: str) -> tuple[object, Iterable[Line]]:
        """Explain a machine of a converged pool."""
        view = observe_pools(self.stack, fleet_of(name))
        machine = next((each for pool in view.pools for each in pool.machines if each.node == name), None)
        if machine is None:
            there = ", ".join(f"{pool.pool}-[1-{len(pool.machines)}]" for pool in view.pools)
            raise Failure(f"there is no machine {name}: those of the pool are {there}", code=NOT_THERE)
        for trouble in view.trouble:
            show.warn(trouble)
        why = why_machine(self.record, fleet_of(name), machine, self._conversions(name))
        return why, machine_lines(why)

    def fleet(self, name: str) -> tuple[object, Iterable[Line]]:
        fleet = self._fleet(name)
        why = why_fleet(self.record, self._spec(), fleet, self._intents(fleet=name))
        return why, fleet_lines(why)

    def _intents(self, *, since: datetime | None = None, node: str = "", fleet: str = "") -> Sequence[Intent]:
        journal = self.source.journal
        if journal is None:
            return ()
        return journal.intents(
            node=node, fleet=fleet, since=since, limit=_EVENTS if node or fleet else _ACTIONS
        )

    def _conversions(self, node: str = "") -> Sequence[Conversion]:
        journal = read_conversions(self.stack)
        if journal is None:
            return ()
        with closing(journal):
            return journal.conversions(node=node, limit=_EVENTS if node else _ACTIONS)

    def _noted_job(self, job_id: int) -> JobRecord | None:
        journal = self.source.journal
        known = journal.jobs(job_id=job_id) if journal else ()
        # The newest: slurmctld may have lost its state, and begun to count anew.
        return known[-1] if known else None

    def _ask(self, what: str, ask: Callable[[SlurmClient], tuple[_T, ...]]) -> tuple[_T, ...] | None:
        """Ask Slurm; where it cannot be asked, as after a `down`, say so and give None."""
        try:
            cluster = require_cluster(self.stack)
            with closing(self.stack.open_slurm(cluster.controller)) as slurm:
                return ask(slurm)
        except NotFound:
            return ()
        except SlurmError as error:
            show.warn(f"Slurm could not be asked {what}: {error.what} ({error.where})")
        except Failure as failure:
            show.warn(f"Slurm could not be asked {what}: {failure.what}")
        return None

    def _limits(self, job: Job) -> Iterator[str]:
        return limit_words(job, self._ask("for its limits", lambda slurm: slurm.limits()) or ())

    def _peak_mib(self, job: Job) -> int | None:
        if self._spec().controller.accounting is None:
            return None
        found = self._ask("what it used", lambda slurm: (slurm.peak_memory_mib(job.job_id),))
        return found[0] if found else None

    def _unknown_job(self, wanted: str, listed: Sequence[Job], is_asked: bool) -> Failure:
        if not is_asked:
            return Failure(
                f"the journal knows no job {wanted}, and Slurm could not be asked",
                remedy="ask again when Slurm answers: `tidepool status`",
                code=NOT_THERE,
            )
        known = (
            f"jobs that have not ended: {ids_text({job.job_id for job in listed}, 10)}"
            if listed
            else "no job waits or runs"
        )
        return Failure(
            f"no job {wanted} is known, neither to Slurm nor to the journal",
            remedy=f"{known}; `squeue` lists them",
            code=NOT_THERE,
        )

    def _spec(self) -> ClusterSpec:
        if self.record.spec is not None:
            return self.record.spec
        from tidepool.cli.stack_spec import described_spec

        return described_spec(self.stack)

    def _fleet(self, name: str) -> Fleet:
        fleets = {fleet.name: fleet for fleet in self._spec().fleets}
        if name not in fleets:
            raise Failure(
                f"there is no fleet {name}",
                remedy=f"the fleets are {', '.join(fleets) or 'none'}",
                code=NOT_THERE,
            )
        return fleets[name]
