"""Demands of a spec on a CloudStack: the machines, by what they are of, and what they need besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidepool.cluster.names import ACCOUNTING_HOST, FILE_SERVER_HOST
from tidepool.cluster.shape import Shape as MachineShape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloudstack.api import ApiLocation
from tidepool.infrastructures.cloudstack.options import Offering
from tidepool.infrastructures.cloudstack.reading import NAME, Options
from tidepool.infrastructures.cloudstack.service_offering import Shape
from tidepool.infrastructures.finding import gathered
from tidepool.infrastructures.reading import has_own_machines


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one shape that are asked for at ``path``: so many at least, apart on as many hosts where they are ``strict``."""

    path: str
    cpus: int
    memory_mib: int
    machines: int = 0
    offering: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    is_strict: bool = False
    disk_gib: int = 0
    host_tags: Sequence[str] = ()

    @property
    def shape(self) -> Shape:
        return Shape(self.cpus, self.memory_mib, self.details, self.offering, tuple(self.host_tags))


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack. ``path`` is where the options of the place stand."""

    api: ApiLocation
    path: str
    stack: str
    zone: str
    cidr: str
    network_offering: str
    hypervisor: str
    os_type: str
    vpc: str = ""
    template: str = ""
    makes_offerings: bool = False
    #: The volume of the file server; 0: there is none.
    store_gib: int = 0
    disk_offering: str = ""
    demands: tuple[Demand, ...] = ()


def shape_of(shape: MachineShape, offering: Offering) -> Shape:
    """Return what a machine needs of a service offering: what jobs are given, and what it has beside that."""
    memory_mib = shape.memory_mib + offering.overhead_mib
    return Shape(
        shape.cpus, memory_mib, offering.details, offering.service_offering or "", offering.host_tags
    )


@gathered
def demanded(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    """Yield all that is asked for, fleets with ``min_nodes``: more come when there is room."""
    place = options.place
    if has_own_machines(spec, NAME):
        own: dict[MachineShape, int] = {}
        accounting = spec.controller.own_accounting
        for name in spec.own_hosts:
            shape = spec.controller.shape
            if accounting and name == ACCOUNTING_HOST:
                shape = accounting.shape
            elif spec.file_server and name == FILE_SERVER_HOST:
                shape = spec.file_server.shape
            own[shape] = own.get(shape, 0) + 1
        for shape, machines in own.items():
            yield _demand(f"{options.path}.machines", shape, place.machines, machines)
    for found in spec.entries(NAME):
        fleet = found.fleet
        offering = options.offerings[fleet.name, found.entry.key]
        # With several infrastructures, the others may have them all.
        least = fleet.min_nodes if len(fleet.infrastructures) == 1 else 0
        yield _demand(found.options_path, fleet.shape, offering, least)


def _demand(path: str, machine: MachineShape, offering: Offering, machines: int) -> Demand:
    shape = shape_of(machine, offering)
    is_strict = offering.affinity == "host anti-affinity"
    return Demand(
        path,
        shape.cpus,
        shape.memory_mib,
        machines,
        shape.name,
        shape.details,
        is_strict,
        offering.disk_gib,
        shape.host_tags,
    )


def demands(spec: ClusterSpec, stack: str, options: Options) -> Demands:
    """Return all that a stack asks of its CloudStack."""
    place = options.place
    return Demands(
        ApiLocation.of(place),
        options.path,
        stack,
        place.zone,
        str(spec.network),
        place.offering_of_network,
        place.hypervisor,
        place.os_type,
        place.vpc or "",
        place.template or "",
        place.make_offerings,
        place.store.size_gib if place.store else 0,
        place.store.disk_offering if place.store else "",
        demanded(spec, options),
    )
