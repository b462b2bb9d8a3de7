"""What a spec asks of a Kubernetes, fleet by fleet: what a preflight compares with what there is."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.kubernetes.options import Offering
from tidepool.infrastructures.kubernetes.reading import NAME, Options, extended, has_own_machines

#: Kubernetes' words for the machines that images are built on, and for.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one offering. ``path`` is where a person wrote it, ``names`` are all that there can be."""

    path: str
    names: tuple[str, ...]
    kind: str
    cpu_milli: int
    memory_mib: int
    architecture: str
    node_selector: Mapping[str, str] = FrozenDict()
    extended: Mapping[str, int] = FrozenDict()
    #: Whether nodes come when they are asked for.
    autoscaled: bool = False


def architecture() -> str:
    """What images are for: they are built on this machine."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def uses_of(spec: ClusterSpec, options: Options) -> list[str]:
    """What a stack makes there, in the words of `tidepool:kubernetes:Place`."""
    place = options.place
    uses = {
        "pods": bool(options.fleets_of_pods) or has_own_machines(spec),
        "machines": options.has_machines,
        "claims": any(volume.storage_class for volume in place.volumes.values()),
        "multus": place.addresses == "multus",
    }
    return [name for name, is_used in uses.items() if is_used]


def demands(
    spec: ClusterSpec, options: Options, architecture: str, own: tuple[str, ...]
) -> tuple[Demand, ...]:
    """All that is asked; ``own`` are the names of the cluster's own machines."""
    return tuple(_demands(spec, options, architecture, own))


def _demands(
    spec: ClusterSpec, options: Options, architecture: str, own: tuple[str, ...]
) -> Iterator[Demand]:
    if has_own_machines(spec):
        path = f"{options.path}.machines"
        yield _demand(path, own, spec.controller.shape, options.place.machines, architecture)
    for found in spec.entries(NAME):
        fleet = found.fleet
        # Which of them are here is decided later.
        names = tuple(slot.node_name for slot in fleet.slots())
        offering = options.offerings[fleet.name, found.entry.key]
        yield _demand(f"{found.path}.options", names, fleet.shape, offering, architecture)


def _demand(path: str, names: tuple[str, ...], shape: Shape, offering: Offering, architecture: str) -> Demand:
    return Demand(
        path,
        names,
        offering.kind,
        shape.cpus * 1000,
        shape.memory_mib + offering.overhead_mib,
        architecture,
        offering.node_selector,
        FrozenDict(extended(shape, offering)),
        offering.autoscaled,
    )
