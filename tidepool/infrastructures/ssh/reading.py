"""The options of existing hosts in a spec, read with all their mistakes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.part_reading import read_part
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.reading import has_own_machines, pool_mistakes, volume_mistakes
from tidepool.infrastructures.ssh.inventory import Inventory, InventoryError, read_inventory
from tidepool.infrastructures.ssh.options import Host, Offering, SiteOptions

_NAME: Final = "ssh"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of existing hosts in a spec: the place, all hosts by name in their order, and those of each fleet, and of the cluster's own."""

    place: SiteOptions
    hosts: Mapping[str, Host]
    fleets: Mapping[str, tuple[str, ...]]
    own: tuple[str, ...]


def read_options(spec: ClusterSpec, read: Callable[[Path], str] = Path.read_text) -> Options:
    """The options of existing hosts in a spec.

    Raises:
        SpecError: with every mistake in them.
    """
    mistakes: list[Mistake] = []
    placed = spec.site_options(_NAME)
    place = read_part(SiteOptions, placed.path, placed.options, mistakes)
    offerings = {
        found.fleet.name: (
            found.options_path,
            read_part(Offering, found.options_path, found.entry.options, mistakes),
        )
        for found in spec.entries(_NAME)
    }
    mistakes += _unfit(spec)
    if place is None:
        raise SpecError(tuple(mistakes))
    inventory, hosts = _hosts(place, placed.path, read, mistakes)
    fleets = {
        name: _chosen(offering, path, hosts, inventory, mistakes)
        for name, (path, offering) in offerings.items()
        if offering is not None
    }
    own: tuple[str, ...] = ()
    if has_own_machines(spec, _NAME):
        own = _chosen(place.machines, f"{placed.path}.machines", hosts, inventory, mistakes)
    if not mistakes:
        mistakes += _host_mistakes(spec, place, placed.path, fleets, own)
    if mistakes:
        raise SpecError(tuple(mistakes))
    return Options(place, hosts, fleets, own)


def connection_of(place: SiteOptions, host: Host) -> Mapping[str, Any]:
    """Return the way to a host of `Options`, as `tidepool.infrastructures.connection` reads it."""
    way = {"kind": "host", "address": host.address, "user": host.user, "key": host.key}
    known = str(Path(place.known_hosts).expanduser())
    return {**way, "known_hosts": known, **({} if host.port == 22 else {"port": host.port})}


def own_machines(spec: ClusterSpec) -> int:
    """Return how many places the cluster's own machines have, up to the last that is taken: nobody moves when one before is."""
    own = spec.controller
    if not has_own_machines(spec, _NAME):
        return 0
    return (
        3 + own.login_machines if own.login_machines else 3 if own.own_accounting else 2 if own.backup else 1
    )


def _hosts(
    place: SiteOptions, path: str, read: Callable[[Path], str], mistakes: list[Mistake]
) -> tuple[Inventory, Mapping[str, Host]]:
    inventory = Inventory({}, {})
    if place.inventory is not None:
        file = Path(place.inventory).expanduser()
        try:
            inventory = read_inventory(read(file))
        except OSError as error:
            mistakes.append(
                Mistake(f"{path}.inventory", place.inventory, f"it cannot be read: {error.strerror}")
            )
        except InventoryError as error:
            mistakes.append(Mistake(f"{path}.inventory", place.inventory, str(error)))
    found: dict[str, Host] = {}
    for name, told in inventory.hosts.items():
        # Ansible's INI has texts alone.
        plain = {**told, "port": int(told["port"])} if str(told.get("port", "")).isdigit() else told
        host = read_part(Host, f"{path}.inventory, host {name}", plain, mistakes)
        if host is not None:
            found[name] = host
    found |= place.hosts
    filled = {
        name: host.model_copy(
            update={
                "address": host.address or name,
                "user": host.user or place.user,
                "key": str(Path(host.key or place.key).expanduser()),
            }
        )
        for name, host in found.items()
    }
    if not filled and not mistakes:
        mistakes.append(Mistake(f"{path}.hosts", None, "there are none: name hosts, or an inventory"))
    ways: dict[tuple[Any, ...], str] = {}
    for name, host in filled.items():
        other = ways.setdefault((host.address, host.port), name)
        if other != name:
            mistakes.append(Mistake(f"{path}.hosts.{name}", host.address, f"{other} is the same host"))
    return inventory, FrozenDict(filled)


def _chosen(
    offering: Offering, path: str, hosts: Mapping[str, Host], inventory: Inventory, mistakes: list[Mistake]
) -> tuple[str, ...]:
    if offering.hosts is None:
        return tuple(hosts)
    found: list[str] = []
    for i, name in enumerate(offering.hosts):
        named = inventory.groups.get(name) or ((name,) if name in hosts else ())
        if not named:
            known = ", ".join([*list(hosts)[:8], *inventory.groups]) or "none"
            mistakes.append(Mistake(f"{path}.hosts[{i}]", name, f"hosts and groups are {known}"))
        if twice := [each for each in named if each in found]:
            mistakes.append(Mistake(f"{path}.hosts[{i}]", name, f"{', '.join(twice)} stands here twice"))
        found += [each for each in named if each not in found]
    return tuple(found)


def _unfit(spec: ClusterSpec) -> Iterator[Mistake]:
    yield from pool_mistakes(spec, _NAME)
    slot = spec.controller_slot
    if slot is not None and spec.pool_infrastructure(spec.pool(slot.fleet)) == _NAME:
        yield Mistake(
            "controller.runs_on",
            slot.node_name,
            "existing hosts have their volumes mounted all the time, and slurmctld's would be there for pods as well: leave it out, "
            "and `ctl` is in charge",
        )
    seen: set[str] = set()
    for found in spec.entries(_NAME):
        if found.fleet.name in seen:
            yield Mistake(
                found.path, None, "a fleet has one entry of existing hosts; name all of them in the first"
            )
        seen.add(found.fleet.name)


def _host_mistakes(
    spec: ClusterSpec,
    place: SiteOptions,
    path: str,
    fleets: Mapping[str, tuple[str, ...]],
    own: tuple[str, ...],
) -> Iterator[Mistake]:
    taken: dict[str, str] = {}
    claims = [(f"{path}.machines.hosts", own[: own_machines(spec)])] if own else []
    if own and len(own) < own_machines(spec):
        yield Mistake(
            f"{path}.machines.hosts",
            None,
            f"the cluster's own machines have {own_machines(spec)} places (controller, backup, accounting, login machines, "
            f"up to the last that there is), and there are {len(own)} hosts: name more, or lower login_machines",
        )
    for found in spec.entries(_NAME):
        hosts, where = fleets[found.fleet.name], f"{found.options_path}.hosts"
        most = found.fleet.most_nodes(found.entry)
        lower = "machines" if found.path.startswith("pools") else "max_nodes"
        if most > len(hosts):
            yield Mistake(
                where,
                None,
                f"there can be {most} nodes here, and there are {len(hosts)} hosts: name more, or lower {lower}",
            )
        claims.append((f"{found.path}.options.hosts", hosts))
    for where, hosts in claims:
        for host in hosts:
            other = taken.setdefault(host, where)
            if other != where:
                yield Mistake(where, host, f"{other} has it too; a host is one node: name each fleet's hosts")
    remedy = "an NFS export SERVER:/PATH, a Lustre MGS@NET:/FS, or a folder"
    yield from volume_mistakes(spec, _NAME, path, place.volumes, remedy)
    for name in ("munge", "slurm"):
        if name not in place.users:
            yield Mistake(
                f"{path}.users.{name}",
                None,
                "it is missing: Slurm runs as it; give it the number it has elsewhere",
            )


def host_of(hosts: Sequence[str], number: int) -> str:
    """The host of the machine ``number``, from 1.

    A fleet that spans infrastructures may have higher numbers here than it has hosts: they begin anew, and a host that is
    a node already refuses to be another.
    """
    return hosts[(number - 1) % len(hosts)]
