"""Hosts that are there already as an infrastructure: each is claimed for a node, and playbooks make it one.

A machine is an SshHost, which is the claim and gives the host back, and an SshPlaybook. Nothing here is made of an image:
what the image would have, roles bring.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, ClassVar, Final

from pulumi import Input, Output, ResourceOptions

from tidepool import shipped
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.local.graph import Local
from tidepool.infrastructures.reading import own_addresses
from tidepool.infrastructures.ssh import resources
from tidepool.infrastructures.ssh.preflight import demands
from tidepool.infrastructures.ssh.reading import Options, connection_of, host_of, read_options
from tidepool.resources.declarations import Preflight, preflight

_OF_NODES: Final = ("munge", "slurm-client", "slurmd")
_OF_OWN: Final = ("slurmctld", "slurmdbd", "mariadb-client-core", "mariadb-server-core")
_DAEMONS: Final = ("munge", "slurmd", "slurmctld", "slurmdbd")
_OF_KUBERNETES: Final = ("containerd",)


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what asks all hosts, in previews."""
    options = read_options(spec)
    users = [
        {"name": name, "uid": each.uid, "gid": each.gid or each.uid, "home": each.home, "shell": each.shell}
        for name, each in options.place.users.items()
    ]
    fit = preflight("ssh@hosts", "ssh", spec.site_options("ssh").path, demands(spec, options, stack))
    shared = {
        "tidepool_users": users,
        "tidepool_hosts": {name: str(address) for name, address in spec.own_hosts.items()},
        "tidepool_firewall_cluster": [str(spec.network)],
        **({"tidepool_interface": options.place.interface} if options.place.interface else {}),
        # As YAML had it: lists and maps that are not frozen.
        **json.loads(json.dumps(options.place.variables)),
    }
    numbers = {address: number for number, address in enumerate(own_addresses(spec), 1)}
    pools = frozenset(pool.name for pool in spec.pools)
    return Ssh(stack, options, fit, spec.network.prefixlen, shared, options.own, numbers, pools, own=True)


@dataclass(frozen=True, slots=True)
class Ssh:
    """Existing hosts: of ``hosts`` each machine has the one that its number says, by its address.

    ``shared`` is what roles are told on every host; ``own`` whether these are the cluster's own machines, ``converged`` whether
    they are a pool's, of those that ``pools`` names.
    """

    forms: ClassVar[Sequence[str]] = ()

    stack: str
    options: Options
    fit: Preflight
    prefix: int
    shared: Mapping[str, Any]
    hosts: tuple[str, ...]
    numbers: Mapping[IPv4Address, int]
    pools: frozenset[str] = frozenset()
    own: bool = False
    converged: bool = False

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        numbers = {slot.address: slot.number for slot in fleet.slots()}
        hosts, converged = self.options.fleets[fleet.name], fleet.name in self.pools
        return replace(self, hosts=hosts, numbers=numbers, own=False, converged=converged)

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        return Output.from_input(digest)

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """Hosts have theirs, and get an address beside it."""
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """It is there already, and nobody here makes it or takes it away."""
        return Output.from_input(self.options.place.volumes[order.name])

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        # Of devices that hosts lack there are no stand-ins: they are real, or the node is not up.
        kept = Local(self.stack).boot(f"{name}-hosts", replace(boot, mounts=(), devices=()), opts)
        mounts = [
            {"source": mount.source, "target": mount.target, "read_only": mount.read_only}
            for mount in boot.mounts
        ]
        return Output.json_dumps({"boot": kept, "mounts": mounts})

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        place = self.options.place
        name = host_of(self.hosts, self.numbers[order.address])
        connection = connection_of(place, self.options.hosts[name])
        claimed = resources.SshHost(
            order.name,
            stack=self.stack,
            node=order.name,
            host=name,
            address=str(order.address),
            connection=connection,
            opts=ResourceOptions.merge(
                opts, ResourceOptions(depends_on=[self.fit], delete_before_replace=True)
            ),
        )
        boot: Output[Mapping[str, Any]] = Output.from_input(order.boot).apply(json.loads)
        packages = (*_OF_NODES, *(_OF_OWN if self.own else ()))
        variables = {
            **self.shared,
            "tidepool_node": order.name,
            "tidepool_address": f"{order.address}/{self.prefix}",
            "tidepool_daemon_packages": list(packages),
            "tidepool_daemons": [
                *(name for name in _DAEMONS if name in packages),
                *(_OF_KUBERNETES if self.converged else ()),
            ],
            "tidepool_mounts": boot.apply(lambda known: known["mounts"]),
            **({"tidepool_wait_ready": True} if order.wait_ready else {}),
        }
        if self.converged:
            # A kubelet takes the address of its node from the names that the host knows, before it takes the host's own.
            variables["tidepool_hosts"] = {**self.shared["tidepool_hosts"], order.name: str(order.address)}
            # A role has its stack from the way to its machine.
            connection = {**connection, "stack": self.stack}
        played = resources.SshPlaybook(
            order.name,
            playbooks=str(Path(place.playbooks).expanduser() if place.playbooks else shipped.PLAYBOOKS),
            roles=self._roles(),
            connection=connection,
            variables=variables,
            stack=self.stack,
            boot=boot.apply(lambda known: known["boot"]),
            image=order.image if self.converged else None,
            claim=claimed.claim,
            host=claimed.machine,
            opts=opts,
        )
        return Machine(played, claimed.machine, Output.from_input(str(order.address)), played.connection)

    def _roles(self) -> list[str]:
        """In their order: whoever daemons run as first, what runs last."""
        sources = self.options.place.volumes.values()
        needed = [
            "slurm_node",
            *(["slurm_controller"] if self.own else []),
            *(["kubernetes_node"] if self.converged else []),
            *(["nfs_client"] if any(":/" in each and "@" not in each for each in sources) else []),
            *(["lustre_client"] if any("@" in each for each in sources) else []),
        ]
        others = [role for role in self.options.place.roles if role not in needed]
        return [
            "users",
            "at_rest",
            *needed,
            *others,
            "services",
            *(["converged_node"] if self.converged else []),
        ]
