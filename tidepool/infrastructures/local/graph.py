"""This machine as an infrastructure: machines of its kernel, by the resources of the provider `tidepool`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import ClassVar

import pulumi
from pulumi import Input, Output

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.flows import Flow, Forward, Peer
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.local import resources


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines."""
    return Local(stack, spec.flows, spec.forwards, spec.peers)


@dataclass(frozen=True, slots=True)
class Local:
    """Machines of this machine. ``stack`` is whose they are: the Pulumi stack's name; ``egress``, ``ingress`` and ``peers`` are of its network.

    A machine has no device but those that every container has: each of a boot's ``devices`` is a stand-in.
    """

    forms: ClassVar[Sequence[str]] = ()

    stack: str
    egress: Sequence[Flow] = ()
    ingress: Sequence[Forward] = ()
    peers: Sequence[Peer] = ()

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        return self

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        """It is used as it is in this machine's store."""
        return Output.from_input(digest)

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        made = resources.Network(
            name,
            stack=self.stack,
            network=name,
            cidr=str(cidr),
            # Not said where nothing is let through, as in states of before.
            egress=self.egress or None,
            ingress=self.ingress or None,
            peers=self.peers or None,
        )
        return made.network

    def volume(self, order: VolumeOrder, opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        made = resources.Volume(
            order.name, stack=self.stack, volume=order.name, retain=order.retain, opts=opts
        )
        return made.path

    def boot(self, name: str, boot: Boot, opts: pulumi.ResourceOptions | None = None) -> Output[str]:
        made = resources.Boot(
            name,
            stack=self.stack,
            boot=name,
            services=boot.services,
            files=boot.files,
            folders=boot.folders,
            mounts=boot.mounts,
            devices=boot.devices,
            containers=boot.containers or None,
            opts=opts,
        )
        return made.boot

    def machine(self, order: MachineOrder, opts: pulumi.ResourceOptions | None = None) -> Machine:
        made = resources.Machine(
            order.name,
            stack=self.stack,
            machine=order.name,
            network=order.network,
            address=str(order.address),
            mac=order.mac,
            image=order.image,
            boot=order.boot,
            cpus=order.shape.cpus,
            memory_mib=order.shape.memory_mib,
            # Not said where it is not so: there are many machines.
            wait_ready=order.wait_ready or None,
            opts=opts,
        )
        return Machine(made, made.id, made.address, made.connection)
