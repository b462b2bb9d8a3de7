"""Demands of a spec on a Kubernetes, fleet by fleet: a preflight compares them with what there is."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.hostlist import fold
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.kubernetes.options import Offering
from tidepool.infrastructures.kubernetes.reading import NAME, Options, extended, has_own_machines

#: Kubernetes' words for the machines that images are built on, and for.
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Demand:
    """Machines of one offering. ``path`` is where a person wrote it, ``names`` are all that there can be, a hostlist."""

    path: str
    names: str
    kind: str
    cpu_milli: int = field(metadata={"least": 1})
    memory_mib: int = field(metadata={"least": 1})
    architecture: str
    node_selector: Mapping[str, str] = FrozenDict()
    extended: Mapping[str, int] = FrozenDict()
    #: Whether nodes come when they are asked for.
    autoscaled: bool = False


#: What a stack may make there.
Use = Literal["pods", "machines", "claims", "multus"]


@dataclass(frozen=True, slots=True)
class Demands:
    """All demands of a stack. ``path`` is where its options stand in the spec, ``kubeconfig`` the path of a file."""

    stack: str
    path: str
    namespace: str
    own_namespace: bool
    demands: tuple[Demand, ...]
    kubeconfig: str = ""
    uses: tuple[Use, ...] = ()


def architecture() -> str:
    """Return the architecture of images: they are built on this machine."""
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def uses_of(spec: ClusterSpec, options: Options) -> list[Use]:
    """Return the kinds of objects that a stack makes there."""
    place = options.place
    uses: dict[Use, bool] = {
        "pods": bool(options.fleets_of_pods) or has_own_machines(spec),
        "machines": options.has_machines,
        "claims": any(volume.storage_class for volume in place.volumes.values()),
        "multus": place.addresses == "multus",
    }
    return [name for name, is_used in uses.items() if is_used]


def demands(spec: ClusterSpec, options: Options, stack: str, built_for: str) -> Demands:
    """Return all demands of a stack, when every fleet is as large as it may be; images are ``built_for`` an architecture."""
    return Demands(
        stack,
        options.path,
        options.namespace,
        options.place.own_namespace,
        tuple(_demands(spec, options, built_for, tuple(spec.own_hosts))),
        options.place.kubeconfig,
        tuple(uses_of(spec, options)),
    )


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
        fold(names),
        offering.kind,
        shape.cpus * 1000,
        shape.memory_mib + offering.overhead_mib,
        architecture,
        offering.node_selector,
        FrozenDict(extended(shape, offering)),
        offering.autoscaled,
    )
