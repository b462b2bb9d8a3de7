"""Preflight of Nomad: the demands of a spec, compared with what is there, in previews and by `tidepool doctor`.

Nomad takes jobs that no host can run, and lets them wait without a word. It is asked what it has, and what the token may do;
nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered
from tidepool.infrastructures.nomad.api import (
    Api,
    ApiLocation,
    Host,
    NotAllowed,
    NotThere,
    lacking,
    version_numbers,
)
from tidepool.infrastructures.nomad.jobs import DRIVER, STACK, required_attributes
from tidepool.infrastructures.nomad.jobspec import Constraint, Group, Job, Task, written
from tidepool.infrastructures.nomad.machines import api_of
from tidepool.infrastructures.nomad.options import SiteOptions
from tidepool.infrastructures.nomad.reading import OWN_PORTS, Options, label, own_boots, read_options

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


@dataclass(frozen=True, slots=True)
class Demand:
    """Hosts that are asked for at ``path``: ``count`` of them with these ``drivers``, as ``constraints`` say.

    ``host`` is one by its name, or empty: any that is free. ``ports`` are static ones that nobody else may have there.
    """

    path: str
    host: str = ""
    count: int = 1
    constraints: tuple[Constraint, ...] = ()
    drivers: tuple[str, ...] = (DRIVER,)
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack on a Nomad."""

    api: ApiLocation
    namespace: str
    stack: str
    demands: tuple[Demand, ...]


@gathered
def demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    """All that is asked for, fleets with ``min_nodes``: more come when there are hosts."""
    place = options.place
    for boot, machines in own_boots(spec).items():
        for name in machines:
            taken = (*OWN_PORTS[boot], place.ssh_port)
            yield Demand(f"{options.path}.hosts.{name}", place.hosts[name], ports=taken)
    for (name, key), offering in options.offerings.items():
        at = next(i for i, fleet in enumerate(spec.fleets) if fleet.name == name)
        fleet = spec.fleets[at]
        entry = fleet.infrastructure(key)
        called = label(name, entry.offering)
        beside = {each.driver for each in place.containers if each.fleet == called}
        yield Demand(
            f"fleets[{at}].infrastructures[{fleet.infrastructures.index(entry)}].options.attributes",
            # With several, the others may have them all.
            count=fleet.min_nodes if len(fleet.infrastructures) == 1 else 0,
            constraints=required_attributes(offering.attributes),
            drivers=(DRIVER, *sorted(beside)),
        )
    for i, container in enumerate(place.containers):
        if container.host is not None:
            taken = () if container.port is None else (container.port,)
            path = f"{options.path}.containers[{i}].host"
            yield Demand(path, container.host, drivers=(container.driver,), ports=taken)


#: The least version. Since it, changes of system jobs are healthy before they go on, and revert.
LEAST: Final = (1, 11)


@dataclass(frozen=True, slots=True)
class There:
    """Observation of Nomad: its hosts, and which static ports of them others have, by host and port with the job's name."""

    hosts: tuple[Host, ...]
    ports: Mapping[tuple[str, int], str] = field(default_factory=dict)


@gathered
def lacks(there: There, demands: Sequence[Demand], stack: str) -> Iterator[str]:
    """All that is missing, each with where it was asked for and the remedy."""
    by_name = {host.name: host for host in there.hosts}
    for demand in demands:
        if demand.host:
            yield from _of_host(there, by_name.get(demand.host), demand)
        else:
            yield from _of_fleet(there, demand, stack)
    named = {demand.host for demand in demands if demand.host}
    for host in there.hosts:
        if host.version and version_numbers(host.version) < LEAST and host.name in named:
            yield (
                f"{host.name} has Nomad {host.version}, whose changes of system jobs are neither waited for nor taken "
                "back: install 1.11 or later"
            )


def _of_host(there: There, host: Host | None, demand: Demand) -> Iterator[str]:
    if host is None:
        names = ", ".join(each.name for each in there.hosts[:8]) or "none"
        yield f"{demand.path} is {demand.host}, and no client has this name; there are {names}"
        return
    if not host.is_up or not host.is_eligible:
        state = "down" if not host.is_up else "not eligible"
        yield f"{demand.path} is {host.name}, which is {state}: `nomad node status {host.id[:8]}`"
    if host.meta.get(STACK):
        yield (
            f"{demand.path} is {host.name}, which is a node of the stack {host.meta[STACK]}: name another host, or "
            "give this one back first"
        )
    yield from (f"{demand.path}: {lack}" for lack in _drivers(host, demand.drivers))
    for port in demand.ports:
        whose = there.ports.get((host.name, port))
        if whose is not None:
            yield (
                f"{demand.path}: the static port {port} of {host.name} is taken by the job {whose}: stop that, or take "
                "another host"
            )


def _of_fleet(there: There, demand: Demand, stack: str) -> Iterator[str]:
    fit = [host for host in there.hosts if not lacking(host, demand.constraints)]
    if demand.constraints and not fit:
        told = {f"{each.left} = {each.right}" for each in demand.constraints}
        wrong = next((lacking(host, demand.constraints) for host in there.hosts), ())
        yield (
            f"{demand.path}: no client has {', '.join(sorted(told))}"
            f"{' (' + '; '.join(wrong) + ')' if wrong else ''}: `nomad node meta apply -node-id ID KEY=VALUE` gives it"
        )
        return
    usable = [
        host for host in fit if host.is_up and host.is_eligible and host.meta.get(STACK) in (None, "", stack)
    ]
    able = [host for host in usable if not [*_drivers(host, demand.drivers)]]
    if len(able) < demand.count and usable and len(able) < len(usable):
        lack = next(lack for host in usable for lack in _drivers(host, demand.drivers))
        yield f"{demand.path}: {lack}"
    elif len(able) < demand.count:
        yield (
            f"{demand.path}: {len(able)} clients are free and as they should be, and min_nodes is {demand.count}: lower "
            "it, or give more of them these attributes"
        )


def _drivers(host: Host, drivers: Sequence[str]) -> Iterator[str]:
    for driver in drivers:
        if driver not in host.drivers:
            remedy = (
                'write plugin "raw_exec" { config { enabled = true } } in its configuration'
                if driver == "raw_exec"
                else f"install {driver} there"
            )
            yield f"{host.name} has no working driver {driver}; {remedy}, and start its agent again"


#: No variable has this index, so writing with it writes nothing.
_NEVER: Final = "18446744073709551614"
#: Planned, and never run.
_PROBE: Final = Job(
    "tidepool-probe", "system", (Group("probe", (Task("probe", "raw_exec", {"command": "/bin/true"}),)),)
)


@gathered
def rights_missing(api: Api, namespace: str) -> Iterator[str]:
    """Return the rights of a stack that the token lacks, each with the rule that gives it; and a namespace that is not there.

    Raises:
        InfrastructureError: it cannot be asked.
    """
    in_namespace = f'namespace "{namespace}"'
    job = f'{in_namespace} {{ capabilities = ["submit-job", "read-job", "alloc-lifecycle"] }}'
    try:
        api.call("GET", f"namespace/{namespace}")
    except NotThere:
        yield f"the namespace {namespace} is not there; run: nomad namespace apply {namespace}"
        return
    except NotAllowed:
        yield f"the token does not let into the namespace {namespace}: {job}"
        return
    plan = json.loads(written(replace(_PROBE, namespace=namespace)))
    if not _may(lambda: api.call("POST", f"job/{_PROBE.id}/plan", plan, namespace=namespace)):
        yield f"the token may not submit jobs: {job}"
    variable = {"Path": f"nomad/jobs/{_PROBE.id}", "Namespace": namespace, "Items": {"probe": ""}}
    write = f"var/{variable['Path']}"
    if not _may(lambda: api.call("PUT", write, variable, namespace=namespace, cas=_NEVER)):
        yield (
            f'the token may not write variables: {in_namespace} {{ variables {{ path "nomad/jobs/*" '
            '{ capabilities = ["write", "read", "destroy"] } } }'
        )
    try:
        listed = api.call("GET", "nodes")
    except NotAllowed:
        yield 'the token may not read hosts: node { policy = "write" }'
        return
    if listed:
        told = {"NodeID": listed[0]["ID"], "Meta": {}}
        if not _may(lambda: api.call("POST", "client/metadata", told, node_id=told["NodeID"])):
            yield 'the token may not change what hosts say of themselves: node { policy = "write" }'


def _may(call: Callable[[], Any]) -> bool:
    """Return whether it is let in. What it says else, as that it asks for too little, is an answer as well."""
    try:
        call()
    except NotAllowed:
        return False
    except Permanent:
        return True
    return True


def look(api: Api, named: Sequence[str], stack: str) -> There:
    """All hosts, and the static ports that other stacks' jobs have on those that are ``named``.

    Raises:
        InfrastructureError: it cannot be asked.
    """
    hosts = api.hosts()
    ports = {}
    for host in hosts:
        if host.name not in named:
            continue
        for each in api.call("GET", f"node/{host.id}/allocations", namespace="*") or ():
            is_own = each["JobID"].startswith(f"{stack}-")
            if each.get("ClientStatus") in ("pending", "running") and not is_own:
                for port in _ports(each):
                    ports[host.name, port] = each["JobID"]
    return There(hosts, ports)


def _ports(allocation: dict[str, Any]) -> Iterator[int]:
    shared = (allocation.get("AllocatedResources") or {}).get("Shared") or {}
    for network in shared.get("Networks") or ():
        for port in network.get("ReservedPorts") or ():
            yield int(port["Value"])


def lacks_there(
    open: Callable[[], Api], address: str, namespace: str, demands: Sequence[Demand], stack: str
) -> Iterator[str]:
    """All that it lacks, each with the remedy; that it cannot be asked."""
    missing: tuple[str, ...] = ()
    try:
        api = open()
        missing = rights_missing(api, namespace)
        yield from missing
        found = look(api, [demand.host for demand in demands if demand.host], stack)
    except NotAllowed as error:
        if not missing:
            yield str(error)
        return
    except Permanent as error:
        yield str(error)
        return
    except InfrastructureError as error:
        remedy = "is the agent up, and the address right? try: nomad status -address="
        yield f"{error}; {remedy}{address}"
        return
    yield from lacks(found, demands, stack)


def checks_of(
    spec: ClusterSpec, stack: str, _data: Path, open: Callable[[SiteOptions], Api] = api_of
) -> Iterator[Finding]:
    """Check the rights of the token, and the hosts."""
    options = read_options(spec)
    place = options.place
    asked = demands(spec, options)
    found = lacks_there(lambda: open(place), place.address, place.namespace, asked, stack)
    well = "it answers, and the token and the hosts are as is asked of them"
    return findings(f"Nomad at {place.address}", found, well)


def _missing_in_preview(demands: Demands, home: Home) -> Iterator[str]:
    api = demands.api
    environment = home.environment
    return lacks_there(
        lambda: api.open(environment), api.address, demands.namespace, demands.demands, demands.stack
    )


PREFLIGHT = Preflight(Demands, _missing_in_preview)
