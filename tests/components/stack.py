"""A program of components, as a user of them writes it, run against mocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pulumi.runtime.mocks import MockResourceArgs

from tests.cluster.specs import spec_mapping
from tests.components.graph import Graph, register
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import (
    ComputeFleet,
    ComputeFleetArgs,
    GoldenImage,
    Local,
    SlurmController,
    SlurmControllerArgs,
)

DIGEST = "d" * 64
NODES: Mapping[str, str] = {"cpu": "cpu-[1-2]", "gpu": "gpu-1"}


def spec_with(**changes: Any) -> ClusterSpec:
    return ClusterSpec.model_validate(spec_mapping(**changes))


def registered(
    spec: ClusterSpec, nodes: Mapping[str, str | Iterable[str]] = NODES, *, preview: bool = False
) -> Graph:
    """The graph of a stack with all fleets of ``spec``; a fleet that ``nodes`` does not name has none."""

    def program() -> None:
        local = Local("dev")
        network = local.network("net", spec.network)
        image = GoldenImage("slurm", recipe="/images/debian-12", playbooks="/playbooks").digest
        controller = SlurmController(spec.name, SlurmControllerArgs(spec, local, network, image))
        for fleet in spec.fleets:
            args = ComputeFleetArgs(fleet, nodes.get(fleet.name, ""), controller, local, network, image)
            ComputeFleet(fleet.name, args)

    return register(program, answers, preview=preview)


def answers(args: MockResourceArgs) -> Mapping[str, Any]:
    """What the provider gives beside the inputs."""
    outputs: Mapping[str, Mapping[str, Any]] = {
        "tidepool:image:Image": {"digest": DIGEST},
        "tidepool:keys:MungeKey": {"key": "munge-key"},
        "tidepool:keys:SshKey": {"publicKey": "ssh-ed25519 PUBLIC", "privateKey": "PRIVATE"},
        "tidepool:local:Volume": {"path": f"/volumes/{args.name}"},
        "tidepool:local:Machine": {"connection": connection(args.name)},
        "tidepool:slurm:Configuration": {"digest": "of the files"},
    }
    return outputs.get(args.typ, {})


def connection(machine: str) -> Mapping[str, str]:
    return {"kind": "local", "stack": "dev", "machine": machine}
