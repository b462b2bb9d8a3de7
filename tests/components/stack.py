"""A program of components, as a user of them writes it, run against mocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.cluster.specs import spec_mapping
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import (
    ComputeFleet,
    GoldenImage,
    Location,
    Locations,
    SlurmController,
)
from tidepool.infrastructures.contract import Infrastructure
from tidepool.infrastructures.local.graph import Local
from tidepool.testing import DIGEST, Graph, connection, provider_outputs, register

#: Of the provider, on this machine.
answers = provider_outputs
__all__ = ["DIGEST", "answers", "connection"]  # found here, too
NODES: Mapping[str, str] = {"cpu": "cpu-[1-2]", "gpu": "gpu-1"}


def spec_with(**changes: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(spec_mapping(**changes))


def registered(
    spec: ClusterSpec,
    nodes: Mapping[str, str | Iterable[str]] = NODES,
    *,
    preview: bool = False,
    only: HostSet | None = None,
) -> Graph:
    """The graph of `program_of`."""
    return register(program_of(spec, nodes=nodes, only=only), answers, preview=preview)


def program_of(
    spec: ClusterSpec,
    infrastructure: Infrastructure = Local("dev"),  # noqa: B008 (frozen)
    nodes: Mapping[str, str | Iterable[str]] = NODES,
    only: HostSet | None = None,
) -> Callable[[], None]:
    """A stack with all fleets of ``spec``, each on its first infrastructure; one that ``nodes`` does not name is empty."""
    spec = on_first(spec)

    def program() -> None:
        controller = SlurmController(spec.name, locations=of_one_image(spec, infrastructure))
        for fleet in spec.fleets:
            ComputeFleet(fleet.name, controller=controller, nodes=nodes.get(fleet.name, ""), only=only)

    return program


def on_first(spec: ClusterSpec) -> ClusterSpec:
    """The same, as if each fleet had its first infrastructure alone."""
    fleets = tuple(fleet.only_on(fleet.infrastructures[0]) for fleet in spec.fleets)
    return spec.model_copy(update={"fleets": fleets})


def of_one_image(spec: ClusterSpec, infrastructure: Infrastructure) -> Locations:
    """All machines on one infrastructure, of an image ``slurm``, whatever ``spec`` says."""
    network = infrastructure.network("net", spec.network)
    image = GoldenImage("slurm", recipe="/images/debian-12", playbooks="/playbooks").digest
    location = Location(infrastructure, network, dict.fromkeys(spec.images, image))
    return Locations(spec, "dev", dict.fromkeys(spec.infrastructure_names, location))
