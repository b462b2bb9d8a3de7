"""`down`: the cluster goes, with nothing left of it but what is kept on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.errors import JOBS, NOT_THERE, Failure
from tidepool.cli.options import json_option, stack_options, yes_option
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.cli.cluster import Cluster
    from tidepool.cli.leftovers import Deleted
    from tidepool.cli.operation import Outcome
    from tidepool.cli.remote_infrastructure import Deletion, Named
    from tidepool.clients.slurm import Job, SlurmClient


@click.command("down")
@yes_option
@click.option(
    "--force",
    "--cancel-jobs",
    "cancel_jobs",
    is_flag=True,
    help="Cancel all jobs, those that run and those that wait, and kill pods.",
)
@click.option("--purge", is_flag=True, help="Remove what is kept as well: /home, and the stack's history.")
@click.option(
    "-p", "--parallel", "at_once", type=click.IntRange(min=1), help="Resources at once.  [default: 256]"
)
@json_option
@stack_options
def down_verb(
    stack: Stack, yes: bool, cancel_jobs: bool, purge: bool, at_once: int | None, as_json: bool
) -> int:
    """Take the cluster down, and look that nothing is left.

    It is refused while jobs run or wait, or pods run that nobody would make again: --force cancels them. Machines and networks
    of the stack that no state knows of go too, on all its infrastructures. The volume `home` is kept for the next `up`, unless --purge. It may
    be run again, also when half of the cluster is gone.
    """
    stack.require_root()
    from tidepool.cli.leftovers import is_anything_left
    from tidepool.cli.remote_infrastructure import named_infrastructures

    outputs = stack.outputs() if stack.may_have_state else None
    # Before the state is gone, which may alone know of one.
    named = named_infrastructures(stack, outputs)
    if outputs is None:
        _refuse_strange(stack, named)
    if (
        outputs is None
        and not is_anything_left(stack.data, stack.name)
        and not (stack.data / stack.name).exists()
    ):
        if as_json:
            show.emit(_nothing().document(swept=_deleted_json(), kept=[]))
        else:
            show.say(f"There is nothing of stack {stack.name}.")
        return errors.OK
    from tidepool.cli.operation import require_approval, turn

    require_approval(stack, yes, "down")
    if outputs and outputs.get("pools"):
        from tidepool.cli.pools.pod_guard import end_conversions

        # Before the turn, which those that go on with their `up` need.
        end_conversions(stack, cancel=cancel_jobs)
    with turn(stack):
        return _taken_down(stack, outputs, named, yes, cancel_jobs, purge, at_once, as_json)


def _refuse_strange(stack: Stack, named: Named) -> None:
    """Refuse to delete machines that say they are the stack's where no state here knows it: theirs may be kept elsewhere.

    Raises:
        Failure: there are some.
    """
    from tidepool.cli.remote_infrastructure import observe_remote
    from tidepool.cluster.hostlist import fold

    if not named:
        return
    there = observe_remote(stack, named)
    for name, why in there.silent.items():
        show.warn(f"{name} cannot be asked for machines of stack {stack.name}: {why}")
    told = []
    for name in sorted({machine.key.infrastructure for machine in there.machines}):
        nodes = {machine.key.node for machine in there.machines if machine.key.infrastructure == name}
        told.append(f"{name} has {fold(nodes)}")
    if told:
        raise Failure(
            f"no state here knows stack {stack.name}, and machines say that they are of it: {'; '.join(told)}. They may be "
            "those of a state that is kept elsewhere, so nothing was deleted",
            remedy="run it where the state is (PULUMI_BACKEND_URL, TIDEPOOL_DATA); where that is lost, delete them by hand",
        )


def _taken_down(
    stack: Stack,
    outputs: dict[str, object] | None,
    named: Named,
    yes: bool,
    cancel_jobs: bool,
    purge: bool,
    at_once: int | None,
    as_json: bool,
) -> int:
    from tidepool.cli.leftovers import delete_leftovers, kept, remains
    from tidepool.cli.leftovers import purge as purge_all
    from tidepool.cli.operation import exit_code
    from tidepool.cli.remote_infrastructure import DELETING_S, Deletion, delete_remote_machines, machines_of

    if not end_jobs(stack, outputs or {}, named, cancel_jobs, yes):
        return errors.OK
    if outputs and outputs.get("pools"):
        from tidepool.cli.pools.pod_guard import end_pods

        end_pods(stack, outputs, kill=cancel_jobs)
    outcome = _nothing()
    if outputs is not None:
        outcome = _destroy(stack, yes, at_once, as_json, regardless=cancel_jobs)
        if not outcome.is_done:
            if not cancel_jobs and exit_code(outcome.code) == errors.FAILED:
                show.tell(
                    "What is refused for what runs there, `tidepool down --force` takes down regardless."
                )
            if as_json:
                show.emit(outcome.document(swept=_deleted_json(), kept=[]))
            return exit_code(outcome.code)
    elif not yes and not click.confirm(
        f"No state knows of stack {stack.name}. Delete what is left of it?", err=True
    ):
        return errors.OK
    there = Deletion()
    if named and outputs is not None:
        there = delete_remote_machines(machines_of(stack, named, DELETING_S), stack.name, _tell_before)
    swept: Deleted = delete_leftovers(stack.data, stack.name)
    if left := [*there.left, *remains(stack.data, stack.name)]:
        # What is gone is told also where something is not; on standard output stands what came to its end.
        for line in _deleted_lines(swept, there):
            show.tell(line)
        raise Failure(
            f"of stack {stack.name} there is still: {', '.join(left)}",
            remedy="`tidepool doctor` says what keeps it; then `tidepool down` again",
        )
    volumes = kept(stack.data, stack.name)
    if purge:
        purge_all(stack.data, stack.name)
        if outputs is not None:
            stack.remove()
    if as_json:
        show.emit(
            outcome.document(
                swept=_deleted_json(swept, there),
                kept=[] if purge else [{"volume": name, "path": str(path)} for name, path in volumes.items()],
            )
        )
        return errors.OK
    for line in _deleted_lines(swept, there):
        show.say(line)
    _tell(stack.name, volumes, purge)
    return errors.OK


def _deleted_json(here: Deleted | None = None, there: Deletion | None = None) -> dict[str, object]:
    """As JSON has it."""
    return {
        "machines": list(here.machines) if here else [],
        "networks": list(here.networks) if here else [],
        "elsewhere": {name: list(nodes) for name, nodes in there.swept.items()} if there else {},
    }


def _tell_before(machines: Mapping[str, tuple[str, ...]]) -> None:
    from tidepool.cluster.hostlist import fold

    for name, nodes in machines.items():
        show.tell(f"{name}: deleting the machines {fold(nodes)}, which no state knows")


def _deleted_lines(here: Deleted, there: Deletion) -> Iterator[str]:
    from tidepool.cluster.hostlist import fold

    if here.machines:
        yield f"Swept, for no state knew of them: the machines {fold(here.machines)}."
    for name, nodes in there.swept.items():
        yield f"Swept, for no state knew of them: the machines {fold(nodes)} of {name}."
    if here.networks:
        yield f"Swept, for no state knew of them: the networks {', '.join(here.networks)}."


def _tell(stack: str, volumes: dict[str, Path], purge: bool) -> None:
    for name, path in volumes.items():
        if purge:
            show.say(f"Removed: the volume {name}.")
        else:
            show.say(f"Kept: the volume {name}, in {path}. `tidepool down --purge` removes it.")
    show.say(f"The cluster of stack {stack} is down.")


def _nothing() -> Outcome:
    from tidepool.cli.operation import Outcome

    return Outcome(errors.OK, "succeeded", {}, (), 0.0)


def _destroy(stack: Stack, yes: bool, at_once: int | None, as_json: bool, *, regardless: bool) -> Outcome:
    from tidepool.cli.operation import carry_out, parallel
    from tidepool.cluster.desired_state import FORCE_SETTINGS

    stack.prepare()
    approved = ("--yes", "--skip-preview") if yes else ()
    return carry_out(
        stack,
        "destroy",
        *approved,
        "--continue-on-error",
        *parallel(at_once),
        counted=as_json or not yes,
        aside=as_json,
        # Jobs and pods that have come meanwhile, or that nobody could ask about, are no reason to stop either.
        settings=FORCE_SETTINGS if regardless else {},
    )


#: Slurm itself gives a cancelled job 30 s (KillWait) before it is killed.
_CANCEL_S: Final = 90.0
_LOOK_S: Final = 0.1


def end_jobs(stack: Stack, outputs: dict[str, object], named: Named, cancel: bool, yes: bool) -> bool:
    """Return whether to go on: there are no jobs, or it is not known, and the person wants it all the same.

    Raises:
        Failure: jobs run or wait, and are not to be cancelled; or Slurm does not say whether there are some.
    """
    from tidepool.cli.cluster import parse_outputs
    from tidepool.cli.jobs import ask_jobs
    from tidepool.clients.slurm import SlurmError

    if "controller" not in outputs:
        return True
    cluster = parse_outputs(stack.name, outputs)
    try:
        jobs = ask_jobs(stack, cluster)
        if not jobs:
            return True
        if not cancel:
            raise _in_the_way(jobs)
        # Before the engine asks whether to go on, which would be too late for the jobs.
        if not yes and not click.confirm(
            f"{_describe_jobs(jobs)}. Cancel them, and take the cluster down?", err=True
        ):
            return False
        _cancel_all(stack, cluster, jobs)
    except SlurmError as error:
        if not cancel and _may_run(stack, named):
            raise Failure(
                f"Slurm cannot be asked whether jobs run: {error.what} ({error.where})",
                remedy="`tidepool up` mends the cluster; `tidepool down --force` takes it down regardless",
                code=NOT_THERE,
            ) from error
        show.warn(f"Slurm cannot be asked whether jobs run, so it is not known which are lost: {error.what}")
    return True


def _may_run(stack: Stack, named: Named) -> bool:
    """Return whether a machine runs, so that there may be jobs; or may run, where an infrastructure cannot be asked."""
    from tidepool.cli.remote_infrastructure import observe_remote
    from tidepool.infrastructures.local.kernel import list_machines

    if any(machine.state == "running" for machine in list_machines(stack.data, stack.name)):
        return True
    there = observe_remote(stack, named) if named else None
    return there is not None and (
        bool(there.silent) or any(machine.state == "running" for machine in there.machines)
    )


def _in_the_way(jobs: Sequence[Job]) -> Failure:
    return Failure(
        f"the cluster has jobs, which would be lost; {_describe_jobs(jobs)}",
        remedy="wait until they have ended (`tidepool status`), or cancel them: `tidepool down --force`",
        code=JOBS,
    )


def _describe_jobs(jobs: Sequence[Job]) -> str:
    """``running: 1, 2; waiting: 3``."""
    from tidepool.cli.jobs import ids_text, waiting, with_nodes

    kinds = (("running", with_nodes(jobs)), ("waiting", waiting(jobs)))
    told = [f"{what}: {ids_text([job.job_id for job in some])}" for what, some in kinds if some]
    return "; ".join(told) or f"jobs: {ids_text([job.job_id for job in jobs])}"


def _cancel_all(stack: Stack, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Cancel all jobs, and wait for some time until the last has left its nodes.

    Raises:
        SlurmError: Slurm cannot be asked, or refuses.
    """
    from tidepool.cli.jobs import ids_text
    from tidepool.clients.slurm import NotFound

    pause, deadline = threading.Event(), time.monotonic() + _CANCEL_S
    with closing(stack.context.open_slurm(cluster.controller, stack.data)) as slurm:
        # An array is cancelled as one.
        ids = sorted({job.array_job_id or job.job_id for job in jobs})
        show.tell(f"cancelling the jobs {ids_text(ids)}")
        for job_id in ids:
            try:
                slurm.cancel(job_id)
            except NotFound:
                pass  # it ended meanwhile
        while left := _not_ended(slurm):
            if time.monotonic() > deadline:
                show.warn(
                    f"{left}: cancelled {_CANCEL_S:g} s ago, and not ended; they end with their machines"
                )
                return
            pause.wait(_LOOK_S)


def _not_ended(slurm: SlurmClient) -> str:
    """The jobs that are there, else the nodes that are at the end of one: those are busy a little longer."""
    from tidepool.cli.jobs import ids_text
    from tidepool.clients.slurm import NodeFlag
    from tidepool.cluster.hostlist import fold

    if jobs := slurm.jobs():
        return f"jobs {ids_text([job.job_id for job in jobs])}"
    # ALLOCATED alone says nothing: slurmctld 22.05 counts jobs twice when it is reconfigured while they run. And one
    # that does not answer would be waited for in vain.
    busy = [
        node.name
        for node in slurm.nodes()
        if (node.cpus_alloc or NodeFlag.COMPLETING in node.state.flags)
        and NodeFlag.NOT_RESPONDING not in node.state.flags
    ]
    return f"jobs on {fold(busy)}" if busy else ""
