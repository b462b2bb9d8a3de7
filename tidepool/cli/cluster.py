"""A cluster as its stack's outputs tell of it, and the machines by which a person names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidepool.cli.context import Connection
from tidepool.cli.errors import FAILED, NOT_THERE, Failure
from tidepool.cli.stack import Stack
from tidepool.cluster.names import CONTROLLER_HOST, FILE_SERVER_HOST
from tidepool.cluster.offerings import entries_naming
from tidepool.cluster.slots import fleet_and_number

#: What a person may call the machine of slurmctld.
CONTROLLER: Final = "controller"
#: The types whose input `machine` is the connection of a machine that has slots.
_OF_MACHINES: Final = frozenset({"tidepool:slurm:Node", "tidepool:pool:Role"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that a stack's outputs tell of. ``fleets`` are hostlists of the nodes that there should be, maybe empty."""

    stack: str
    name: str
    controller: Connection
    logins: tuple[Connection, ...] = ()
    #: By machine name, those that the outputs tell of: the cluster's own at least.
    machines: Mapping[str, Connection] = field(default_factory=dict)
    fleets: Mapping[str, str] = field(default_factory=dict)
    #: By fleet a hostlist of machines that are no nodes, and are kept suspended.
    suspended: Mapping[str, str] = field(default_factory=dict)
    #: By pool, and by role, hostlists of its machines.
    pools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: By fleet, the offerings that its machines are, in order of preference.
    offerings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_cluster(stack: Stack) -> Cluster | None:
    """The cluster of ``stack``, as its last `up` left it; None where it is not up.

    Raises:
        Failure: the outputs cannot be read, or are not a cluster's.
    """
    outputs = stack.outputs()
    return parse_outputs(stack.name, outputs) if outputs else None


def require_cluster(stack: Stack) -> Cluster:
    """The same, where it must be there.

    Raises:
        Failure: it is not up.
    """
    cluster = read_cluster(stack)
    if cluster is None:
        raise not_up(stack.name)
    return cluster


def not_up(stack: str) -> Failure:
    """Return the failure of a verb whose cluster is not up."""
    return Failure(f"the cluster of stack {stack} is not up", remedy="`tidepool up`", code=NOT_THERE)


def parse_outputs(stack: str, outputs: Mapping[str, Any]) -> Cluster:
    """Read a cluster from a stack's ``outputs``.

    Raises:
        Failure: they are not a cluster's.
    """
    controller = outputs.get("controller")
    if not isinstance(controller, dict):
        raise Failure(
            f"the stack {stack} has no output `controller`: its program makes no cluster, or its last `up` failed",
            remedy="`tidepool up`",
            code=FAILED,
        )
    logins = tuple(outputs.get("logins") or ())
    server = {FILE_SERVER_HOST: outputs["fileServer"]} if "fileServer" in outputs else {}
    named = {
        CONTROLLER_HOST: controller,
        **server,
        **{f"login-{i}": each for i, each in enumerate(logins, 1)},
    }
    return Cluster(
        stack=stack,
        name=str(outputs.get("cluster") or stack),
        controller=controller,
        logins=logins,
        machines={**named, **(outputs.get("machines") or {})},
        fleets=outputs.get("fleets") or {},
        suspended=outputs.get("suspended") or {},
        pools=outputs.get("pools") or {},
        offerings=_offerings(outputs.get("spec") or {}),
    )


def _offerings(spec: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """Return the offerings of each fleet of a spec as it was brought up; none of a spec that has no offerings."""
    if not spec.get("offerings"):
        return {}
    return {
        fleet["name"]: tuple(dict.fromkeys(name for _, _, name in entries_naming(fleet)))
        for fleet in spec.get("fleets", ())
    }


def find_machine(stack: Stack, name: str) -> Connection:
    """The machine ``name``, or that of the ``controller``.

    One that runs here is found without the engine, and so is one of an `up` that did not come to its end.

    Raises:
        Failure: there is none.
    """
    return find_machines(stack, [name])[0]


def find_machines(stack: Stack, names: Iterable[str]) -> list[Connection]:
    """The machines of these names, in their order.

    Raises:
        Failure: one of them is not there.
    """
    from tidepool.infrastructures.local.kernel.layout import names_in

    wanted = [CONTROLLER_HOST if name == CONTROLLER else name for name in names]
    here = set(names_in(stack.data, stack.name, "machines"))
    found: dict[str, Connection] = {
        name: local_connection(stack.name, name) for name in wanted if name in here
    }
    if missing := [name for name in wanted if name not in found]:
        cluster = read_cluster(stack)
        known = dict(cluster.machines) if cluster else {}
        if any(name not in known for name in missing):
            known |= recorded_connections(stack)
        if lost := [name for name in missing if name not in known]:
            raise _no_such(stack.name, lost, sorted({*here, *known}))
        found.update({name: known[name] for name in missing})
    return [found[name] for name in wanted]


def recorded_connections(stack: Stack) -> dict[str, Connection]:
    """Return by node the connections that the stack's state has, of machines of other infrastructures than this machine.

    Raises:
        Failure: the state cannot be read.
    """
    document = stack.exported()
    found: dict[str, Connection] = {}
    for resource in (document.get("deployment") or {}).get("resources") or ():
        if resource.get("type") in _OF_MACHINES and not resource.get("delete"):
            connection = (resource.get("inputs") or {}).get("machine")
            if isinstance(connection, dict) and "kind" in connection:
                found[str(resource["urn"]).rpartition("::")[2]] = connection
    return found


def local_connection(stack: str, machine: str) -> Connection:
    """The connection of a machine of this machine."""
    return {"kind": "local", "stack": stack, "machine": machine}


def fleet_of(node: str) -> str:
    """The fleet of a node; of what is none's, its name."""
    try:
        return fleet_and_number(node)[0]
    except ValueError:
        return node


def _no_such(stack: str, lost: list[str], known: list[str]) -> Failure:
    from tidepool.cluster.hostlist import fold

    if not known:
        return not_up(stack)
    return Failure(
        f"there is no machine {fold(lost)} in stack {stack}",
        remedy=f"the machines are {fold(known)}; `{CONTROLLER}` is one of slurmctld",
        code=NOT_THERE,
    )
