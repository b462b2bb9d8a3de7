"""The options of Nomad in a spec, read with all their mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.names import ACCOUNTING_HOST, BACKUP_CONTROLLER_HOST, CONTROLLER_HOST
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.infrastructures.nomad.options import Offering, SiteOptions
from tidepool.infrastructures.reading import Offerings, has_own_machines, read_site, volume_mistakes

_NAME: Final = "nomad"
#: Ports that daemons take of their hosts, by whose they are.
OWN_PORTS: Final = {"ctl": (6817,), "dbd": (6819,), "login": ()}
_SLURMD_PORT: Final = 6818


@dataclass(frozen=True, slots=True)
class Options:
    """Options of Nomad in a spec: the place, and its path; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    path: str
    offerings: Offerings[Offering]


def own_boots(spec: ClusterSpec) -> Mapping[str, Mapping[str, str]]:
    """The cluster's own machines with their addresses, by what they do when they boot; none where others have them."""
    if not has_own_machines(spec, _NAME):
        return {}
    places, controller = spec.own_addresses, spec.controller
    controllers = {CONTROLLER_HOST: str(places.controller)}
    if controller.backup:
        controllers[BACKUP_CONTROLLER_HOST] = str(places.backup_controller)
    boots = {CONTROLLER_HOST: controllers}
    if controller.own_accounting:
        boots[ACCOUNTING_HOST] = {ACCOUNTING_HOST: str(places.accounting)}
    if controller.login_machines:
        boots["login"] = {
            f"login-{number}": str(places.login(number)) for number in range(1, controller.login_machines + 1)
        }
    return boots


def read_options(spec: ClusterSpec) -> Options:
    """The options of Nomad in a spec, for those of its machines that are Nomad's.

    Raises:
        SpecError: with every mistake in them.
    """
    return Options(
        *read_site(spec, _NAME, SiteOptions, Offering, _site_mistakes, without_roles="machines of Nomad")
    )


def _site_mistakes(
    spec: ClusterSpec, path: str, place: SiteOptions, _offerings: Offerings[Offering]
) -> Iterator[Mistake]:
    yield from _of_hosts(spec, path, place)
    yield from volume_mistakes(spec, _NAME, path, place.volumes, "name a folder that the hosts have")
    yield from _of_containers(spec, path, place)
    yield from _of_ports(spec, path, place)


def label(fleet: str, offering: str | None) -> str:
    """Return the name that hosts and jobs have for a fleet's machines: the fleet, and the name of its entry where it has one."""
    return fleet if offering is None else f"{fleet}-{offering}"


def _of_hosts(spec: ClusterSpec, at: str, place: SiteOptions) -> Iterator[Mistake]:
    own = [name for machines in own_boots(spec).values() for name in machines]
    for name in own:
        if name not in place.hosts:
            yield Mistake(
                f"{at}.hosts.{name}",
                None,
                f"it is missing: name the host of {name}, as `nomad node status` has it",
            )
    for name in sorted(set(place.hosts) - {*own}):
        yield Mistake(
            f"{at}.hosts.{name}",
            place.hosts[name],
            f"the cluster's own machines here are {', '.join(own) or 'none'}",
        )


def _of_containers(spec: ClusterSpec, at: str, place: SiteOptions) -> Iterator[Mistake]:
    fleets = [label(found.fleet.name, found.entry.offering) for found in spec.entries(_NAME)]
    taken = {
        "munge",
        *(f"slurm-{boot}" for boot in own_boots(spec)),
        *(f"{job}-{name}" for name in fleets for job in ("slurmd", "munge")),
    }
    for i, container in enumerate(place.containers):
        path = f"{at}.containers[{i}]"
        if container.name in taken:
            yield Mistake(f"{path}.name", container.name, "another job of the cluster has this name")
        taken.add(container.name)
        if container.fleet is not None and container.fleet not in fleets:
            yield Mistake(f"{path}.fleet", container.fleet, f"fleets are {', '.join(fleets)}")


def _of_ports(spec: ClusterSpec, at: str, place: SiteOptions) -> Iterator[Mistake]:
    """Static ports that a host would have to give twice."""
    taken: dict[tuple[str, int], str] = {}
    for where, port, path, whose in _claims(spec, at, place):
        first = taken.setdefault((where, port), whose)
        if first != whose:
            yield Mistake(
                path,
                port if path.endswith("port") else None,
                f"the static port {port} of {where} is {first}'s: a host gives it once; take another host or port",
            )


def _claims(spec: ClusterSpec, at: str, place: SiteOptions) -> Iterator[tuple[str, int, str, str]]:
    """Each static port: where (a host, or hosts of a fleet), which, where a person wrote it, and whose it is."""
    for boot, machines in own_boots(spec).items():
        for name in machines:
            if name in place.hosts:
                for port in (*OWN_PORTS[boot], place.ssh_port):
                    yield place.hosts[name], port, f"{at}.hosts.{name}", name
    for found in spec.entries(_NAME):
        name = label(found.fleet.name, found.entry.offering)
        for port in (_SLURMD_PORT, place.ssh_port):
            yield f"fleet {name}", port, f"{at}.ssh_port", f"a node of {name}"
    for i, container in enumerate(place.containers):
        if container.port is not None:
            where = container.host or f"fleet {container.fleet}"
            yield where, container.port, f"{at}.containers[{i}].port", f"the container {container.name}"
