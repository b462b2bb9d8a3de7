"""A cluster over several infrastructures that no release knows, as the project's program registers it, run against mocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import Input, Output
from pulumi.runtime.mocks import MockResourceArgs

from tests.components.stack import answers
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import ComputeFleet, SlurmController
from tidepool.infrastructures import registry
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.testing import Graph, register


class Thing(pulumi.CustomResource):
    """A resource of an infrastructure that this project has never heard of."""

    ref: Output[str]
    address: Output[str]
    connection: Output[Mapping[str, Any]]

    def __init__(self, kind: str, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions | None):
        outputs = {"ref": None, "address": None, "connection": None}
        super().__init__(kind, name, {**outputs, **inputs}, opts)


@dataclass(frozen=True)
class Elsewhere:
    """An infrastructure that is not this machine, called ``name``; ``options`` are those of a fleet's entry."""

    name: str = "elsewhere"
    options: str = ""

    @property
    def forms(self) -> Sequence[str]:
        return (self.name,)

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        return Elsewhere(self.name, str(entry.options.get("instance_type", "")))

    def image(self, name: str, digest: Input[str], opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        return self._thing("Image", name, {"digest": digest}, opts).ref

    def network(
        self, name: str, cidr: IPv4Network, opts: pulumi.ResourceOptions | None = None
    ) -> Output[str]:
        return self._thing("Network", name, {"cidr": str(cidr)}, opts).ref

    def volume(self, order: VolumeOrder, opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        return self._thing("Volume", order.name, {}, opts).ref

    def boot(self, name: str, boot: Boot, opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        files = {file.path: file.content for file in boot.files}
        mounts = [mount.source for mount in boot.mounts]
        return self._thing("Boot", name, {"files": files, "mounts": mounts}, opts).ref

    def machine(self, order: MachineOrder, opts: pulumi.ResourceOptions | None = None) -> Machine:
        inputs = {
            "address": str(order.address),
            "network": order.network,
            "image": order.image,
            "boot": order.boot,
            "options": self.options,
        }
        made = self._thing("Machine", order.name, inputs, opts)
        return Machine(made, made.id, made.address, made.connection)

    def _thing(
        self, kind: str, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions | None
    ) -> Thing:
        return Thing(f"{self.name}:index:{kind}", name, inputs, opts)


def answers_of_elsewhere(args: MockResourceArgs) -> Mapping[str, Any]:
    where = args.typ.partition(":")[0]
    if where in ("pulumi", "tidepool"):
        return answers(args)
    return {"ref": f"{where}-{args.name}", "connection": {"kind": where, "machine": args.name}}


def registered(
    spec: ClusterSpec,
    nodes: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    places: Mapping[str, Mapping[str, str]] | None = None,
) -> Graph:
    """The graph of the project's program. All infrastructures of ``spec`` but `local` are made up."""
    there = {name: Elsewhere(name) for name in spec.infrastructure_names if name != "local"}
    real = registry.infrastructures_of
    monkeypatch.setattr(
        "tidepool.components.locations.infrastructures_of",
        lambda spec, stack: {
            name: there[name] if name in there else real(_local(), stack)["local"]
            for name in spec.infrastructure_names
        },
    )

    def program() -> None:
        controller = SlurmController(spec.name, spec, folder=Path("/project"))
        for fleet in spec.fleets:
            ComputeFleet(
                fleet.name,
                controller=controller,
                nodes=nodes.get(fleet.name, ""),
                placements=(places or {}).get(fleet.name, {}),
            )

    return register(program, answers_of_elsewhere)


def _local() -> ClusterSpec:
    return ClusterSpec.model_validate(
        {"name": "physics", "network": "10.77.0.0/16", "partitions": [{"name": "main"}]}
    )
