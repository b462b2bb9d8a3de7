"""Demands of a spec on each host: a preflight compares them with what it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.ssh.reading import Options, connection_of, own_machines


@dataclass(frozen=True, slots=True)
class Demand:
    """Demand on one host. ``path`` is where a person wrote so, ``cpus`` and ``memory_mib`` what its node has."""

    path: str
    host: str
    cpus: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    #: How it is reached, as `tidepool.infrastructures.connection` reads it.
    connection: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack on hosts. ``users`` are the numbers of accounts, of the user and of its group."""

    stack: str
    systems: tuple[str, ...]
    users: Mapping[str, tuple[int, ...]]
    hosts: tuple[Demand, ...]


def demands(spec: ClusterSpec, options: Options, stack: str) -> Demands:
    """Return the demands on each host that can be a node, when every fleet is as large as it may be."""
    place = options.place
    users = {name: (each.uid, each.gid or each.uid) for name, each in place.users.items()}
    return Demands(stack, tuple(place.systems), users, tuple(_demands(spec, options)))


def _demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    own = f"{spec.site_options('ssh').path}.machines"
    for host in options.own[: own_machines(spec)]:
        yield _demand(options, own, host, spec.controller.shape)
    for found in spec.entries("ssh"):
        most = found.fleet.most_nodes(found.entry)
        for host in options.fleets[found.fleet.name][:most]:
            yield _demand(options, f"{found.path}.options.hosts", host, found.fleet.shape)


def _demand(options: Options, path: str, host: str, shape: Shape) -> Demand:
    connection = connection_of(options.place, options.hosts[host])
    return Demand(path, host, shape.cpus, shape.memory_mib, connection)
