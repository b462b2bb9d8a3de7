"""Boots on machines of this machine, without Pulumi: what the resources do, in a few lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tidepool import local
from tidepool.cluster import addresses
from tidepool.cluster.shape import Shape
from tidepool.components.infrastructure.boot import Boot


@dataclass(frozen=True, slots=True)
class Bare:
    """Makes machines of a stack from a boot whose texts are plain."""

    data: Path
    stack: str
    root: Path

    def create(self, name: str, address: str, shape: Shape, boot: Boot) -> local.Machine:
        from ipaddress import IPv4Address

        return local.create_machine(
            self.data,
            local.MachineSpec(
                stack=self.stack,
                name=name,
                network="net",
                address=address,
                mac=addresses.mac(IPv4Address(address)),
                image=str(self.root),
                cpus=shape.cpus,
                memory_mib=shape.memory_mib,
                services=tuple(local.Service(**asdict(each)) for each in boot.services),
                files=tuple(local.File(**asdict(each)) for each in boot.files),
                folders=tuple(local.Folder(**asdict(each)) for each in boot.folders),
                mounts=tuple(local.Mount(**asdict(each)) for each in boot.mounts),
                devices=tuple(local.Device(path) for path in boot.devices),
            ),
        )
