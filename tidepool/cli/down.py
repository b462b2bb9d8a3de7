"""`down`: the cluster goes, with nothing left of it but what is kept on purpose."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidepool.cli import errors, show
from tidepool.cli.errors import Failure
from tidepool.cli.operation import Outcome, carry_out, exit_code, parallel, require_approval, turn
from tidepool.cli.options import json_option, parallel_option, stack_options, yes_option
from tidepool.cli.sharers import look_at_sharers
from tidepool.cli.stack import Stack
from tidepool.cluster.hostlist import fold
from tidepool.infrastructures.local.kernel import delete_machine, delete_network, list_machines, list_networks
from tidepool.infrastructures.local.kernel.layout import machine_paths, network_paths
from tidepool.scaling.stack.turn import remove_turns

if TYPE_CHECKING:
    from tidepool.cli.remote_infrastructure import Deletion, Named


_NOTHING: Final = Outcome(errors.OK, "succeeded", {}, (), 0.0)


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
@parallel_option
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
            show.emit(_NOTHING.document(swept=_deleted_json(), kept=[]))
        else:
            show.say(f"There is nothing of stack {stack.name}.")
        return errors.OK
    if outputs:
        look_at_sharers(stack, outputs, force=cancel_jobs)
    require_approval(stack, yes, "down")
    if outputs and outputs.get("pools"):
        from tidepool.cli.pools.checks import end_conversions

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
    from tidepool.cli.jobs import end_jobs
    from tidepool.cli.remote_infrastructure import DELETING_S, Deletion, delete_remote_machines, machines_of

    if not end_jobs(stack, outputs or {}, named, cancel_jobs, yes):
        return errors.OK
    if outputs and outputs.get("pools"):
        from tidepool.cli.pools.checks import end_pods

        end_pods(stack, outputs, kill=cancel_jobs)
    outcome = _NOTHING
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
        remove_all(stack.data, stack.name)
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
    return {
        "machines": list(here.machines) if here else [],
        "networks": list(here.networks) if here else [],
        "elsewhere": {name: list(nodes) for name, nodes in there.swept.items()} if there else {},
    }


def _tell_before(machines: Mapping[str, tuple[str, ...]]) -> None:
    for name, nodes in machines.items():
        show.tell(f"{name}: deleting the machines {fold(nodes)}, which no state knows")


def _deleted_lines(here: Deleted, there: Deletion) -> Iterator[str]:
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


def _destroy(stack: Stack, yes: bool, at_once: int | None, as_json: bool, *, regardless: bool) -> Outcome:
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


#: The folders of a stack: those that machines mount (`tidepool.infrastructures.local.resources.Volume`), and what its
#: machines boot with.
VOLUMES: Final = "volumes"
_BOOTS: Final = "boots"
#: Ways to its Kubernetes, with their keys (`tidepool.infrastructures.kubernetes_access`).
_WAYS: Final = "kubernetes"


@dataclass(frozen=True, slots=True)
class Deleted:
    """The names of what was there, and is not any more."""

    machines: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.machines or self.networks)


def is_anything_left(data: Path, stack: str) -> bool:
    """Return whether there is a machine or a network of ``stack``."""
    return bool(list_machines(data, stack) or list_networks(data, stack))


def delete_leftovers(data: Path, stack: str) -> Deleted:
    """Delete all machines and networks of ``stack``, the files by which its machines boot, the ways to its Kubernetes.

    Raises:
        LocalError: one of them could not be deleted.
    """
    machines = tuple(machine.name for machine in list_machines(data, stack))
    for name in machines:
        delete_machine(data, stack, name)
    networks = tuple(network.name for network in list_networks(data, stack))
    for name in networks:
        delete_network(data, stack, name)
    folder = data / stack
    for keys in (folder / _BOOTS, folder / _WAYS):
        if keys.is_dir():
            shutil.rmtree(keys)
    # Whoever sweeps has the turn, and nobody is to have one on what is gone.
    remove_turns(folder)
    for name in ("machines", "networks", VOLUMES, ""):
        # What still holds something stays.
        with contextlib.suppress(FileNotFoundError, OSError):
            (folder / name).rmdir()
    return Deleted(machines, networks)


def kept(data: Path, stack: str) -> dict[str, Path]:
    """The volumes of ``stack`` that outlive it, by name."""
    folder = data / stack / VOLUMES
    return {each.name: each for each in sorted(folder.iterdir())} if folder.is_dir() else {}


def remove_all(data: Path, stack: str) -> None:
    """Remove all that is left of ``stack`` in the data folder, what was kept too. It has no machines any more.

    Raises:
        OSError: something could not be removed.
    """
    folder = data / stack
    assert not is_anything_left(data, stack), "machines may still write to what would be removed"
    if folder.is_dir():
        shutil.rmtree(folder)


def remains(data: Path, stack: str) -> Iterator[str]:
    """Yield in words what should not be there any more; nothing after a successful deletion."""
    for machine in list_machines(data, stack):
        yield f"machine {machine.name} ({machine_paths(data, stack, machine.name).folder})"
    for network in list_networks(data, stack):
        yield f"network {network.name} ({network_paths(data, stack, network.name).folder})"
