"""Demands of a spec on Nomad: a preflight compares them with what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.nomad.api import ApiLocation
from tidepool.infrastructures.nomad.jobs import DRIVER, required_attributes
from tidepool.infrastructures.nomad.jobspec import Constraint
from tidepool.infrastructures.nomad.reading import Options, label, own_boots


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


def demands(spec: ClusterSpec, options: Options) -> tuple[Demand, ...]:
    """All that is asked for, fleets with ``min_nodes``: more come when there are hosts."""
    return tuple(_demands(spec, options))


def _demands(spec: ClusterSpec, options: Options) -> Iterator[Demand]:
    place = options.place
    ports = {"ctl": (6817,), "dbd": (6819,)}
    for boot, machines in own_boots(spec).items():
        for name in machines:
            taken = (*ports.get(boot, ()), place.ssh_port)
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
