"""The infrastructures of a stack that are not this machine, as its spec and its state name them, and the machines there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.cli.errors import Failure
from tidepool.cli.problems import RemoteMachines
from tidepool.cli.stack import Stack
from tidepool.cli.stack_spec import described_spec
from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.engine.errors import EngineError
from tidepool.infrastructures import Infrastructure, Machine
from tidepool.infrastructures.registry import infrastructure_of_type
from tidepool.infrastructures.several import PATIENCE_S, Several, Unknown, machines_or_reason

#: The one that verbs look at anyhow.
_HERE: Final = "local"
#: Deletions at a time.
_AT_ONCE: Final = 16
#: Who deletes waits longer than who looks; and as long until what was deleted is not listed any more.
DELETING_S: Final = 60.0
_AGAIN_S: Final = 1.0

#: By name, with the spec that says how it is reached; None where the state alone names it.
Named = Mapping[str, ClusterSpec | None]


def named_infrastructures(stack: Stack, outputs: Mapping[str, Any] | None) -> Named:
    """Name the infrastructures of the last `up`, of the stack's file, and of the state; each with the first spec that has it.

    Raises:
        Failure: the state cannot be read.
    """
    found: dict[str, ClusterSpec | None] = {}
    for spec in _specs(stack, outputs):
        for name in spec.infrastructure_names:
            found.setdefault(name, spec)
    if outputs is not None:
        for recorded in _recorded(stack):
            found.setdefault(recorded, None)
    found.pop(_HERE, None)
    return found


def unnamed(name: str) -> str:
    """Tell why an infrastructure that the state alone names cannot be asked."""
    return (
        f"the stack's state has machines of {name}, and neither its outputs nor its file say how it is reached: write it "
        "into the spec as it was"
    )


def machines_of(stack: Stack, named: Named, patience_s: float = PATIENCE_S) -> Several:
    """The machines there. Packages of others are not imported."""
    sides: Mapping[str, Infrastructure] = {
        name: Unknown(unnamed(name))
        if spec is None
        else machines_or_reason(name, spec, stack.name, stack.data)
        for name, spec in named.items()
    }
    return Several(lambda: sides, patience_s=patience_s)


def observe_remote(stack: Stack, named: Named) -> RemoteMachines:
    """Each is asked at once, and waited for a few seconds."""
    found = machines_of(stack, named).reachable(stack.name)
    specs = [spec for spec in named.values() if spec is not None]
    unseen = {
        fleet.name
        for spec in specs
        for fleet in spec.all_fleets
        if any(each.name in found.silent for each in fleet.infrastructures)
    }
    return RemoteMachines(found.machines, found.silent, frozenset(unseen))


@dataclass(frozen=True, slots=True)
class Deletion:
    """Machines that are gone now, by infrastructure; and in words, what may be there still."""

    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def delete_remote_machines(
    machines: Several,
    stack: str,
    before: Callable[[Mapping[str, tuple[str, ...]]], None],
    sleep: Callable[[float], object] = time.sleep,
) -> Deletion:
    """Delete all machines that say that they are the stack's. ``before`` is told which, by infrastructure.

    One that is refused, and one that cannot be asked, hold up no other.
    """
    found = machines.reachable(stack)
    left = [_not_known(name, why) for name, why in found.silent.items()]
    # An infrastructure that tells of another stack's would have a fault; it must not cost a department its machines.
    ours = [machine for machine in found.machines if machine.key.stack == stack]
    if not ours:
        return Deletion({}, tuple(left))
    before(_by_infrastructure(ours))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        refused = dict(zip(ours, threads.map(lambda each: _deleted(machines, each), ours), strict=True))
    left += [f"machine {machine.key}: {why}" for machine, why in refused.items() if why]
    gone = [machine for machine, why in refused.items() if not why]
    late, silent = _still_there(machines, stack, gone, sleep)
    left += [f"machine {machine.key} was deleted, and is listed still" for machine in late]
    left += [
        _not_known(name, why)
        for name, why in silent.items()
        if name not in found.silent and any(each.key.infrastructure == name for each in gone)
    ]
    sure = [each for each in gone if each not in late and each.key.infrastructure not in silent]
    return Deletion(_by_infrastructure(sure), tuple(left))


def _deleted(machines: Several, machine: Machine) -> str:
    """Delete a machine; tells why it is not, where it is not."""
    try:
        machines.delete(machine.key)
    except (InfrastructureError, OSError) as error:
        return str(error)
    return ""


def _still_there(
    machines: Several, stack: str, gone: list[Machine], sleep: Callable[[float], object]
) -> tuple[list[Machine], Mapping[str, str]]:
    """Return the machines that are still listed after their time, and the infrastructures that do not answer."""
    until = time.monotonic() + DELETING_S
    while True:
        found = machines.reachable(stack)
        keys = {machine.key for machine in found.machines}
        late = [machine for machine in gone if machine.key in keys]
        if not late or time.monotonic() >= until:
            return late, found.silent
        sleep(_AGAIN_S)


def _not_known(name: str, why: str) -> str:
    return f"machines of {name}, for it cannot be asked: {why}"


def _by_infrastructure(machines: list[Machine]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for machine in machines:
        found.setdefault(machine.key.infrastructure, []).append(machine.key.node)
    return {name: tuple(dict.fromkeys(nodes)) for name, nodes in sorted(found.items())}


def _specs(stack: Stack, outputs: Mapping[str, Any] | None) -> Iterator[ClusterSpec]:
    # One with mistakes is told of where somebody goes by it; what it made is recorded.
    if outputs and isinstance(outputs.get("spec"), dict):
        with suppress(SpecError):
            yield read_spec(outputs["spec"])
    with suppress(Failure, EngineError):
        yield described_spec(stack)


def _recorded(stack: Stack) -> Iterator[str]:
    deployment = stack.exported().get("deployment") or {}
    cut_off = (each.get("resource") or {} for each in deployment.get("pending_operations") or ())
    for resource in (*(deployment.get("resources") or ()), *cut_off):
        if name := infrastructure_of_type(str(resource.get("type") or "")):
            yield name
