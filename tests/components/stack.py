"""A program of components, as a user of them writes it, run against mocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pulumi.runtime.mocks import MockResourceArgs

from tests.cluster.specs import spec_mapping
from tests.components.graph import Graph, register
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import (
    ComputeFleet,
    ComputeFleetArgs,
    GoldenImage,
    Local,
    Site,
    SlurmController,
    SlurmControllerArgs,
)
from tidepool.infrastructures.contract import Infrastructure

DIGEST = "d" * 64
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
    """A stack with all fleets of ``spec``; one that ``nodes`` does not name is empty."""

    def program() -> None:
        network = infrastructure.network("net", spec.network)
        image = GoldenImage("slurm", recipe="/images/debian-12", playbooks="/playbooks").digest
        args = SlurmControllerArgs(spec, infrastructure, network, image)
        controller = SlurmController(spec.name, args)
        for fleet in spec.fleets:
            names = nodes.get(fleet.name, "")
            first = fleet.infrastructures[0]
            sites = {first.key: Site(infrastructure, network, image)}
            of_fleet = ComputeFleetArgs(fleet.only_on(first), names, controller, sites, only)
            ComputeFleet(fleet.name, of_fleet)

    return program


def answers(args: MockResourceArgs) -> Mapping[str, Any]:
    """What the provider gives beside the inputs."""
    outputs: Mapping[str, Mapping[str, Any]] = {
        "tidepool:image:Image": {"digest": DIGEST},
        "tidepool:keys:MungeKey": {"key": "munge-key"},
        "tidepool:keys:SshKey": {"publicKey": "ssh-ed25519 PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:keys:Authority": {
            "certificate": f"CERTIFICATE of {args.name}",
            "key": f"KEY of {args.name}",
        },
        "tidepool:keys:Certificate": {
            "certificate": f"CERTIFICATE of {args.name}",
            "key": f"KEY of {args.name}",
        },
        "tidepool:keys:SigningKey": {"publicKey": "PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:keys:EncryptionKey": {"key": "KEY"},
        "tidepool:kubernetes:Access": {
            "server": "https://10.77.0.6:6443",
            "authorityCertificate": "CERTIFICATE",
        },
        "tidepool:kubernetes:ControlPlane": {"version": "v1.36.3"},
        "tidepool:local:Volume": {"path": f"/volumes/{args.name}"},
        "tidepool:local:Machine": {"connection": connection(args.name)},
        "tidepool:slurm:Configuration": {"digest": "of the files"},
    }
    return outputs.get(args.typ, {})


def connection(machine: str) -> Mapping[str, str]:
    return {"kind": "local", "stack": "dev", "machine": machine}
