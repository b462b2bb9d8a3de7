"""What a spec asks of each host: what a preflight compares with what it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.ssh.reading import Options, own_machines


@dataclass(frozen=True, slots=True)
class Demand:
    """What one host is to be. ``path`` is where a person wrote so, ``cpus`` and ``memory_mib`` what its node has."""

    path: str
    host: str
    cpus: int
    memory_mib: int


def demands(spec: ClusterSpec, options: Options) -> tuple[Demand, ...]:
    """Of each host that can be a node, when every fleet is as large as it may be."""
    return tuple(_demands(spec, options))


def _demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    own = f"{spec.site_options('ssh').path}.machines"
    for host in options.own[: own_machines(spec)]:
        yield _demand(own, host, spec.controller.shape)
    for found in spec.entries("ssh"):
        most = found.fleet.most_nodes(found.entry)
        for host in options.fleets[found.fleet.name][:most]:
            yield _demand(f"{found.path}.options.hosts", host, found.fleet.shape)


def _demand(path: str, host: str, shape: Shape) -> Demand:
    return Demand(path, host, shape.cpus, shape.memory_mib)
