"""A host becomes a machine, and is given back: by metadata, which Nomad changes while the host runs.

Nomad puts the jobs of a fleet on a host when its metadata says that it is of the fleet. It does not take them away when the
metadata says so no more: who gives a host back stops what is there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster.failures import InsufficientCapacity, Transient
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.nomad.api import Api, Host, NotThere, lacking
from tidepool.infrastructures.nomad.jobs import ADDRESS, FLEET, MACHINE, META, NODE, STACK
from tidepool.infrastructures.nomad.jobspec import Constraint

if TYPE_CHECKING:
    from tidepool.infrastructures.nomad.resources import NomadMachineModel

#: Two machines of this process do not look for a host at once.
_CHOOSING: Final = Lock()

#: Before the name of its fleet, in the metadata of a host that is about to be given back.
_LEAVING: Final = "leaving/"


class HostDown(Transient):
    """The host does not answer: it is what it was when it is up again."""


def _meta(desired: NomadMachineModel) -> dict[str, str]:
    """The metadata of the host that is that machine."""
    return {
        STACK: desired.stack,
        FLEET: desired.fleet,
        NODE: desired.machine,
        ADDRESS: desired.address,
    }


def key_of(host: Host) -> MachineKey | None:
    """Return the key of the machine that a host is; None where it is none."""
    if STACK not in host.meta or NODE not in host.meta:
        return None
    stack, node = host.meta[STACK], host.meta[NODE]
    # Those of earlier releases have no number.
    return MachineKey(stack, node, f"{host.id}/{host.meta.get(MACHINE) or f'{stack}/{node}'}")


def find(api: Api, stack: str, node: str = "") -> tuple[Host, ...]:
    """The hosts that are machines of that stack, or of that name."""
    found = api.hosts(**{STACK: stack}, **({NODE: node} if node else {}))
    # One that was given back between the list and the look at it is none any more.
    return tuple(host for host in found if key_of(host) is not None)


def take(api: Api, desired: NomadMachineModel) -> Host:
    """The host that is this machine: the one that is it already, else the first free one that is as it is wished for.

    The servers, who know it some seconds later, say less of it until then.

    Raises:
        InsufficientCapacity: no host is free.
    """
    with _CHOOSING:
        # One on a host that is down is lost: there is another one of its name, and that is swept when it is back.
        for host in (each for each in find(api, desired.stack, desired.machine) if each.is_up):
            if not _is(host.meta, desired):
                _tell(api, host, _meta(desired))
            return _awake(api, host, desired)
        free, why = [], []
        for host in api.hosts(**{STACK: ""}):
            lacks = unfit(host, desired)
            why += [f"{host.name}: {lack}" for lack in lacks]
            if not lacks:
                free.append(host)
        # A host itself knows sooner than the servers what it was told: whose answer was lost may be there already.
        told = api.at_once(lambda host: _metadata(api, host), free)
        known = [_is(meta, desired) for meta in told]
        for host, is_it, meta in sorted(zip(free, known, told, strict=True), key=lambda each: not each[1]):
            number = {} if is_it else {MACHINE: secrets.token_hex(8)}
            if (is_it or not meta.get(STACK)) and _is(
                now := _tell(api, host, {**_meta(desired), **number}), desired
            ):
                return replace(host, meta={**host.meta, **now})
        named = "; ".join(why[:5]) or "all are machines already"
        raise InsufficientCapacity(
            f"{MachineKey(desired.stack, desired.machine)}: no free host is as the fleet wants it ({named}); give another "
            "one the fleet's attributes"
        )


def unfit(host: Host, desired: NomadMachineModel) -> tuple[str, ...]:
    """Why it cannot be that machine."""
    constraints = (each.split(" ", 2) for each in desired.constraints)
    lacks = [*lacking(host, [Constraint(left, right, operand) for left, operand, right in constraints])]
    if not (host.is_up and host.is_eligible):
        lacks.append("it is down" if not host.is_up else "it is not eligible")
    if "*" not in desired.datacenters and host.datacenter not in desired.datacenters:
        lacks.append(f"it is of the datacenter {host.datacenter}")
    if desired.node_pool not in ("all", host.node_pool):
        lacks.append(f"it is of the node pool {host.node_pool}")
    return (
        *lacks,
        *(f"its driver {each} does not work" for each in desired.drivers if each not in host.drivers),
    )


def leave(
    api: Api,
    key: MachineKey,
    jobs_of: Callable[[str], Sequence[str]],
    namespace: str,
    wait: Callable[[], bool],
) -> None:
    """Take that machine from its host, and stop what jobs of its fleet run there. One that is gone is no error.

    ``wait`` waits a little, and says whether there is time left.

    Raises:
        HostDown: nobody can tell the host; what ran there is lost.
        Transient: it is not over yet.
    """
    for host in find(api, key.stack, key.node):
        if not _is_of(host, key):
            continue
        if not host.is_up:
            raise HostDown(f"{key}: its host {host.name} is down, and is given back when it is up again")
        # It is still the machine, so that one that is cut off is gone on with; and of no fleet, so that nothing comes back.
        fleet = host.meta.get(FLEET, "").removeprefix(_LEAVING)
        jobs = jobs_of(fleet)
        _tell(api, host, {FLEET: f"{_LEAVING}{fleet}"})
        while (seen := api.host(host.id)) is not None and seen.meta.get(FLEET) == fleet:
            if not wait():
                raise Transient(f"{key}: Nomad does not know yet that {host.name} is not it any more")
        for allocation in filter(_runs, allocations(api, host.id, jobs, namespace)):
            api.call("POST", f"allocation/{allocation['ID']}/stop", namespace=namespace)
        while running := [
            each for each in allocations(api, host.id, jobs, namespace) if _runs(each) and host.is_up
        ]:
            if not wait():
                names = ", ".join(each["JobID"] for each in running)
                raise Transient(f"{key}: {names} still runs on {host.name}")
        _tell(api, host, dict.fromkeys(META))
        while (seen := api.host(host.id)) is not None and _is_of(seen, key):
            if not wait():
                raise Transient(f"{key}: Nomad does not know yet that {host.name} is free")


def allocations(api: Api, host: str, jobs: Sequence[str], namespace: str) -> list[dict[str, Any]]:
    """Return the allocations of these jobs on the host, past ones too."""
    try:
        found = api.call("GET", f"node/{host}/allocations", namespace=namespace)
    except NotThere:
        return []
    return [each for each in found or () if each["JobID"] in jobs and each.get("Namespace") == namespace]


def _is_of(host: Host, key: MachineKey) -> bool:
    there = key_of(host)
    return there is not None and key.matches(there)


def _is(meta: Mapping[str, str], desired: NomadMachineModel) -> bool:
    return _meta(desired).items() <= meta.items()


def _runs(allocation: dict[str, Any]) -> bool:
    return allocation.get("ClientStatus") in ("pending", "running", "unknown")


def _awake(api: Api, host: Host, desired: NomadMachineModel) -> Host:
    """A host that somebody has taken out of service serves again."""
    if not host.is_eligible:
        api.call("POST", f"node/{host.id}/eligibility", {"NodeID": host.id, "Eligibility": "eligible"})
    return replace(host, is_eligible=True, meta={**host.meta, **_meta(desired)})


def _metadata(api: Api, host: Host) -> dict[str, str]:
    return (api.call("GET", "client/metadata", node_id=host.id) or {}).get("Meta") or {}


def _tell(api: Api, host: Host, meta: Any) -> dict[str, str]:
    """Change a host's metadata; return what it is then."""
    try:
        answer = api.call("POST", "client/metadata", {"NodeID": host.id, "Meta": meta}, node_id=host.id)
    except NotThere:
        return {}
    return (answer or {}).get("Meta") or {}
