"""Preflight of Ironic: the demands of a spec, compared with what its nodes have, in previews and by `tidepool doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidepool.cluster.failures import InfrastructureError, Note, marked
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.boot_media.checks import boot_service_lacks
from tidepool.infrastructures.finding import Finding, Preflight, findings, gathered
from tidepool.infrastructures.ironic.api import Enrolment, IronicLocation
from tidepool.infrastructures.ironic.inventory import (
    RAMDISK,
    VIRTUAL_MEDIA,
    Host,
    Need,
    Port,
    named,
    taken,
    unfit,
)
from tidepool.infrastructures.ironic.reading import NAME, Options, location_of, need_of, read_options
from tidepool.infrastructures.reading import has_own_machines

if TYPE_CHECKING:
    from tidepool.resources.kind import Home


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one shape that are asked for at ``path``: so many at least, on some of ``hosts``; on any, where there are none."""

    path: str
    cpus: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    hosts: tuple[str, ...] = ()
    machines: int = 0
    resource_class: str = ""
    traits: tuple[str, ...] = ()
    physical_network: str = ""

    @property
    def need(self) -> Need:
        return Need(self.cpus, self.memory_mib, self.resource_class, self.traits, self.physical_network)


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack. ``path`` is where the options of the place stand."""

    stack: str
    path: str
    ironic: IronicLocation
    boot_service: str
    demands: tuple[Demand, ...] = ()
    enrol: tuple[Enrolment, ...] = ()


def demands(spec: ClusterSpec, stack: str, options: Options) -> Demands:
    """Return all that a stack asks of an Ironic, fleets with ``min_nodes``."""
    place = options.place
    enrol = tuple(
        Enrolment(stack, name, entry.mac, entry.resource_class, entry.traits, place.physical_network)
        for name, entry in place.enrol.items()
    )
    return Demands(
        stack, options.path, location_of(place), place.boot_service, _demands(spec, options), enrol
    )


@gathered
def _demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    place = options.place
    asked = []
    if has_own_machines(spec, NAME):
        asked.append((f"{options.path}.machines", spec.controller.shape, place.machines, len(spec.own_hosts)))
    for found in spec.entries(NAME):
        fleet, offering = found.fleet, options.offerings[found.fleet.name, found.entry.key]
        # With several infrastructures, the others may have them all.
        least = fleet.min_nodes if len(fleet.infrastructures) == 1 else 0
        asked.append((found.options_path, fleet.shape, offering, least))
    for path, shape, offering, machines in asked:
        need = need_of(shape, offering, place)
        yield Demand(
            path,
            need.cpus,
            need.memory_mib,
            offering.hosts or (),
            machines,
            need.resource_class,
            need.traits,
            need.physical_network,
        )


Interfaces = Mapping[str, frozenset[str]]


@gathered
def lacks(asked: Demands, hosts: Sequence[Host], deploys: Interfaces) -> Iterator[str | Note]:
    """Yield all that is wrong with hosts and demands, each with the remedy; of one among many that cannot be had, a note.

    ``deploys`` are the deploy interfaces of hardware types.
    """
    for driver in sorted({host.driver for host in hosts}):
        if RAMDISK not in deploys.get(driver, (RAMDISK,)):
            yield (
                f"{asked.path}.cloud: Ironic has no deploy interface {RAMDISK} for the hardware type {driver}, and {', '.join(sorted(deploys[driver]))}: "
                "add it to enabled_deploy_interfaces of its conductors"
            )
    there = {host.name for host in hosts}
    hosts = (*hosts, *(_to_be(entry) for entry in asked.enrol if entry.name not in there))
    if not hosts:
        yield (
            f"{asked.path}.cloud: the Ironic of the cloud {asked.ironic.cloud} has no node, or shows this user none: enrol hosts, or have "
            "their owner or lessee be the user's project"
        )
        return
    for demand in asked.demands:
        known = {name for host in hosts for name in (host.name, host.uuid)}
        for i, name in enumerate(demand.hosts):
            if name not in known:
                yield f"{demand.path}.hosts[{i}]: Ironic has no node {name}: nodes are {', '.join(host.called for host in hosts)}"
    free: list[Host] = []
    for host in hosts:
        if not any(named(host, demand.hosts) for demand in asked.demands):
            continue
        ours = host.claim is not None and host.claim.stack == asked.stack
        if why := "" if ours else taken(host):
            yield Note(f"the node {host.called} of Ironic: {why}")
        else:
            free.append(host)
        if host.name in there and (host.cpus is None or host.memory_mib is None):
            yield Note(
                f"the node {host.called} of Ironic: its cpus or its memory are not known, so that it is taken last: baremetal node set "
                f"{host.called} --property cpus=N --property memory_mb=N"
            )
    yield from _too_few(asked, free, hosts)


def _to_be(entry: Enrolment) -> Host:
    """Return the host that an enrolment makes, of which nobody knows yet how large it is."""
    return Host(
        entry.name,
        entry.name,
        resource_class=entry.resource_class,
        traits=entry.traits,
        boot_interface=VIRTUAL_MEDIA,
        ports=(Port(entry.mac, entry.physical_network),),
    )


def _too_few(asked: Demands, free: Sequence[Host], hosts: Sequence[Host]) -> Iterator[str]:
    spoken_for: Counter[tuple[str, ...]] = Counter()
    for demand in asked.demands:
        meant = [host for host in hosts if named(host, demand.hosts)]
        reasons = {host.called: why for host in meant if (why := unfit(host, demand.need))}
        if meant and len(reasons) == len(meant):
            said = "; ".join(f"{name}: {'; '.join(why)}" for name, why in reasons.items())
            yield f"{demand.path}: none of its hosts is fit: {said}"
            continue
        fit = [host for host in free if named(host, demand.hosts) and host.called not in reasons]
        spoken_for[demand.hosts] += demand.machines
        if spoken_for[demand.hosts] > len(fit):
            text = (
                f"{demand.path}: {spoken_for[demand.hosts]} machines are wanted at least, and {len(fit)} hosts are fit and nobody "
                "else's: enrol more, or lower min_nodes"
            )
            yield marked(text, "capacity")


def checks_of(spec: ClusterSpec, stack: str, _data: Path) -> Iterator[Finding]:
    """The boot service; Ironic, each of its nodes; and whether they are enough."""
    asked = demands(spec, stack, read_options(spec))
    service = boot_service_lacks(asked.boot_service)
    yield from findings("boot service", [service] if service else [], f"{asked.boot_service} answers")
    try:
        ironic = asked.ironic.open()
        hosts, deploys = ironic.hosts(), ironic.deploy_interfaces()
    except InfrastructureError as error:
        yield from findings("ironic", [str(error)], "")
        return
    for host in hosts:
        yield Finding(f"host {host.called}", "note", described(host))
    found = lacks(asked, hosts, deploys)
    for each in found:
        if isinstance(each, Note):
            yield Finding("nodes of Ironic", "note", each.text)
    yield from findings(
        "nodes of Ironic", [each for each in found if isinstance(each, str)], "they are fit, and enough"
    )


def described(host: Host) -> str:
    """Return a host in a line: what it has, in which state it is, and whose."""
    whose = host.claim
    parts = [
        host.resource_class,
        f"{host.cpus} cpus" if host.cpus else "cpus not known",
        f"{host.memory_mib} MiB" if host.memory_mib else "memory not known",
        host.boot_interface,
        host.state,
        host.power,
        "in maintenance" if host.is_in_maintenance else "",
        f"node {whose.node} of stack {whose.stack}"
        if whose
        else "somebody else's"
        if host.instance
        else "nobody's",
    ]
    return ", ".join(part for part in parts if part)


def _missing(asked: Demands, _home: Home) -> Iterator[str | Note]:
    if service := boot_service_lacks(asked.boot_service):
        yield f"{asked.path}.boot_service: {service}"
    try:
        ironic = asked.ironic.open()
        hosts, deploys = ironic.hosts(), ironic.deploy_interfaces()
    except InfrastructureError as error:
        yield f"{asked.path}.cloud: {error}"
        return
    yield from lacks(asked, hosts, deploys)


PREFLIGHT = Preflight(Demands, _missing)
