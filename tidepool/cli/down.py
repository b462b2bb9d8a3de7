"""`down`: the cluster goes, with nothing left of it but what is kept on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
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
    from tidepool.cli.operation import Outcome
    from tidepool.slurm import Job, SlurmClient

#: Slurm itself gives a cancelled job 30 s (KillWait) before it is killed.
_CANCEL_S: Final = 90.0
_LOOK_S: Final = 0.1


@click.command("down")
@yes_option
@click.option(
    "--force",
    "--cancel-jobs",
    "cancel_jobs",
    is_flag=True,
    help="Cancel all jobs, those that run and those that wait.",
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

    It is refused while jobs run or wait, for they would be lost: --force cancels them. Machines and networks
    of the stack that no state knows of go too. The volume `home` is kept for the next `up`, unless --purge. It may
    be run again, also when half of the cluster is gone.
    """
    stack.require_root()
    from tidepool.cli.leftovers import is_anything_left

    outputs = stack.outputs() if _has_books(stack) else None
    if (
        outputs is None
        and not is_anything_left(stack.data, stack.name)
        and not (stack.data / stack.name).exists()
    ):
        if as_json:
            show.emit(_nothing().document(swept={"machines": [], "networks": []}, kept=[]))
        else:
            show.say(f"There is nothing of stack {stack.name}.")
        return errors.OK
    from tidepool.cli.operation import require_approval, turn

    require_approval(stack, yes, "down")
    with turn(stack):
        return _taken_down(stack, outputs, yes, cancel_jobs, purge, at_once, as_json)


def _taken_down(
    stack: Stack,
    outputs: dict[str, object] | None,
    yes: bool,
    cancel_jobs: bool,
    purge: bool,
    at_once: int | None,
    as_json: bool,
) -> int:
    from tidepool.cli.leftovers import Swept, kept, remains, sweep
    from tidepool.cli.leftovers import purge as purge_all
    from tidepool.cli.operation import exit_code

    if not _settle_jobs(stack, outputs or {}, cancel_jobs, yes):
        return errors.OK
    outcome = _nothing()
    if outputs is not None:
        outcome = _destroy(stack, yes, at_once, as_json)
        if not outcome.is_done:
            if as_json:
                show.emit(outcome.document(swept={"machines": [], "networks": []}, kept=[]))
            return exit_code(outcome.code)
    elif not yes and not click.confirm(
        f"No state knows of stack {stack.name}. Delete what is left of it?", err=True
    ):
        return errors.OK
    swept: Swept = sweep(stack.data, stack.name)
    if left := list(remains(stack.data, stack.name)):
        raise Failure(
            f"of stack {stack.name} there is still: {', '.join(left)}", remedy="`tidepool down` again"
        )
    volumes = kept(stack.data, stack.name)
    if purge:
        purge_all(stack.data, stack.name)
        if outputs is not None:
            stack.forget()
    if as_json:
        machines, networks = list(swept.machines), list(swept.networks)
        show.emit(
            outcome.document(
                swept={"machines": machines, "networks": networks},
                kept=[] if purge else [{"volume": name, "path": str(path)} for name, path in volumes.items()],
            )
        )
        return errors.OK
    _tell(stack.name, swept, volumes, purge)
    return errors.OK


def _tell(stack: str, swept: object, volumes: dict[str, Path], purge: bool) -> None:
    from tidepool.cli.leftovers import Swept
    from tidepool.cluster.hostlist import fold

    assert isinstance(swept, Swept)
    if swept.machines:
        show.say(f"Swept, for no state knew of them: the machines {fold(swept.machines)}.")
    if swept.networks:
        show.say(f"Swept, for no state knew of them: the networks {', '.join(swept.networks)}.")
    for name, path in volumes.items():
        if purge:
            show.say(f"Removed: the volume {name}.")
        else:
            show.say(f"Kept: the volume {name}, in {path}. `tidepool down --purge` removes it.")
    show.say(f"The cluster of stack {stack} is down.")


def _has_books(stack: Stack) -> bool:
    """Whether there may be a state: where its folder was never made, the engine is not asked, nor a folder made."""
    folder = stack.data / "state"
    return stack.environment.get("PULUMI_BACKEND_URL") != f"file://{folder}" or folder.is_dir()


def _nothing() -> Outcome:
    from tidepool.cli.operation import Outcome

    return Outcome(errors.OK, "succeeded", {}, (), 0.0)


def _destroy(stack: Stack, yes: bool, at_once: int | None, as_json: bool) -> Outcome:
    from tidepool.cli.operation import carry_out, parallel

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
    )


def _settle_jobs(stack: Stack, outputs: dict[str, object], cancel: bool, yes: bool) -> bool:
    """Whether to go on: then there are no jobs, or it is not known, and the person wants it regardless.

    Raises:
        Failure: jobs run or wait, and are not to be cancelled; or Slurm does not say whether there are some.
    """
    from tidepool.cli.cluster import parse_outputs
    from tidepool.cli.keep import ask_jobs
    from tidepool.local import list_machines
    from tidepool.slurm import SlurmError

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
        if not yes and not click.confirm(f"{_told(jobs)}. Cancel them, and take the cluster down?", err=True):
            return False
        _cancel_all(stack, cluster, jobs)
    except SlurmError as error:
        running = any(m.state == "running" for m in list_machines(stack.data, stack.name))
        if running and not cancel:
            raise Failure(
                f"Slurm cannot be asked whether jobs run: {error.what} ({error.where})",
                remedy="`tidepool up` mends the cluster; `tidepool down --force` takes it down regardless",
                code=NOT_THERE,
            ) from error
        show.warn(f"Slurm cannot be asked whether jobs run, so it is not known which are lost: {error.what}")
    return True


def _in_the_way(jobs: Sequence[Job]) -> Failure:
    return Failure(
        f"the cluster has jobs, which would be lost; {_told(jobs)}",
        remedy="wait until they have ended (`tidepool status`), or cancel them: `tidepool down --force`",
        code=JOBS,
    )


def _told(jobs: Sequence[Job]) -> str:
    """``running: 1, 2; waiting: 3``."""
    from tidepool.cli.jobs import ids_text, waiting, with_nodes

    kinds = (("running", with_nodes(jobs)), ("waiting", waiting(jobs)))
    told = [f"{what}: {ids_text([job.job_id for job in some])}" for what, some in kinds if some]
    return "; ".join(told) or f"jobs: {ids_text([job.job_id for job in jobs])}"


def _cancel_all(stack: Stack, cluster: Cluster, jobs: Sequence[Job]) -> None:
    """Cancel all jobs, and wait until the last has left its nodes.

    Raises:
        Failure: some do not end.
        SlurmError: Slurm cannot be asked, or refuses.
    """
    from tidepool.cli.jobs import ids_text
    from tidepool.slurm import NotFound

    pause, deadline = threading.Event(), time.monotonic() + _CANCEL_S
    with closing(stack.world.open_slurm(cluster.controller, stack.data)) as slurm:
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
                raise Failure(
                    f"{left}: cancelled {_CANCEL_S:g} s ago, and not ended",
                    remedy="`tidepool status` shows the nodes",
                )
            pause.wait(_LOOK_S)


def _not_ended(slurm: SlurmClient) -> str:
    """The jobs that are there, else the nodes that are at the end of one: those are busy a little longer."""
    from tidepool.cli.jobs import ids_text
    from tidepool.cluster.hostlist import fold
    from tidepool.slurm import NodeFlag

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
