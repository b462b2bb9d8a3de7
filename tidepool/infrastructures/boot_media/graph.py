"""The part of a graph that all hosts have who boot from the stack's own boot service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from typing import Any, Final

from pulumi import CustomResource, CustomTimeouts, Output, ResourceOptions

from tidepool.cluster.roles import ROLES
from tidepool.infrastructures.boot_media.resources import MetalBoot
from tidepool.infrastructures.cloud_init import Surroundings, seed
from tidepool.infrastructures.contract import Boot, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.remote import Ssh

#: The form of images that they boot from.
ISO: Final = "iso"
#: The cluster's own machines, among the keys of offerings.
OWN: Final = ("", "")


@dataclass(frozen=True, slots=True)
class BootedHosts:
    """Hosts of one offering: those of the cluster's own machines, or with ``key`` those of a fleet. Machines share ``exports``, by name."""

    stack: str
    opts: ResourceOptions
    ssh: Ssh
    surroundings: Surroundings
    exports: Mapping[str, str]
    key: tuple[str, str]

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """Hosts have theirs, and their addresses in it are the nodes'."""
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """It is on a file server, and nobody here makes it or takes it away."""
        return Output.from_input(self.exports[order.name])

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        parts = seed(replace(boot, files=(*boot.files, *self.ssh.files)), self.surroundings)
        content: Output[str] = parts.apply(lambda known: known.user_data)
        return MetalBoot(
            name, stack=self.stack, boot=name, content=Output.secret(content), opts=self.after_site(opts)
        ).id

    def answering(
        self,
        order: MachineOrder,
        host: CustomResource,
        boot_timeout_s: int,
        way: Mapping[str, Any],
        opts: ResourceOptions | None,
    ) -> Machine:
        """Return the machine that ``host`` is, as it answers by SSH.

        ``way`` is what its infrastructure's `imaging_of` is told besides; empty where conversions give it no other image.
        """
        in_time = ResourceOptions(custom_timeouts=CustomTimeouts(create=f"{boot_timeout_s}s"))
        made = self.ssh.machine(order, host.id, ResourceOptions.merge(opts, in_time))
        if not way:
            return made
        told = {
            **way,
            "stack": self.stack,
            "machine": order.name,
            "id": host.id,
            "address": str(order.address),
            "images": dict(order.role_images) or dict.fromkeys(ROLES, order.image),
        }
        return replace(made, imaging=Output.from_input(told))

    def with_images(self, order: MachineOrder, opts: ResourceOptions | None) -> ResourceOptions:
        """Return the options of a host that may have booted any of its roles' images."""
        # The last of what is merged: of this option Pulumi takes that one's, also where it has none.
        anew = ResourceOptions(replacement_trigger=[*order.role_images.values()] or None)
        return ResourceOptions.merge(self.after_site(opts), anew)

    def after_site(self, opts: ResourceOptions | None) -> ResourceOptions:
        """Return the options of a resource that is there after what all machines need."""
        return ResourceOptions.merge(self.opts, opts)
