"""The machines of bare metal as the infrastructure that the scaler looks at and sweeps: hosts, by the claims on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.boot_media.waiting import Wait, waiting_for
from tidepool.infrastructures.machines import NO_ADDRESS
from tidepool.infrastructures.metal.machine import Held, Hosts
from tidepool.infrastructures.metal.published import Published
from tidepool.infrastructures.metal.reading import hosts_of, read_options
from tidepool.infrastructures.reading import addresses_of


def machines_of(spec: ClusterSpec, stack: str, data: Path) -> Infrastructure:
    """The machines on all hosts that the spec names. Whose they are, their AssetTags say."""
    kept = Kept(data, stack)

    def booted(host: str) -> str:
        medium = kept.read(host)
        return medium.node if medium else ""

    return MetalMachines(hosts_of(read_options(spec).place, Published(kept)), addresses_of(spec), booted)


@dataclass(frozen=True, slots=True)
class MetalMachines:
    """`tidepool.infrastructures.Infrastructure`, of hosts; ``address_of`` gives a node's address.

    ``booted`` gives the node that a host was last booted as, or "": of one that does not answer it is unknown, unless the host was
    seen since. It is asked again after ``patience_s``: each question takes its time.
    """

    hosts: Hosts
    address_of: Callable[[str], IPv4Address | None] = lambda _: None
    booted: Callable[[str], str] = lambda _: ""
    delete_s: float = 120.0
    again_s: float = 2.0
    patience_s: float = 30.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    _seen: dict[str, MachineKey | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _silent: dict[str, tuple[float, InfrastructureError]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def read(self, key: MachineKey) -> Machine | None:
        found, silent = self.hosts.find(key.stack, key.node, key.machine_id.partition("/")[0])
        machines = [self.to_machine(held) for held in found if key.matches(held.key)]
        if not machines and silent:
            raise next(iter(silent.values()))
        return machines[0] if machines else None

    def list(self, stack: str) -> tuple[Machine, ...]:
        now = time.monotonic()
        silent = {host: error for host, (until, error) in self._silent.items() if now < until}
        found, more = self.hosts.find(stack, but=silent)
        self._silent.clear()
        self._silent.update({host: (now + self.patience_s, error) for host, error in more.items()})
        self._silent.update({host: (now + self.patience_s, error) for host, error in silent.items()})
        silent |= more
        if silent and len(silent) == len(self.hosts.entries):
            raise next(iter(silent.values()))
        here = {held.host: held.key for held in found}
        self._seen.update({host: here.get(host) for host in self.hosts.entries if host not in silent})
        machines = [self.to_machine(held) for held in found]
        unknown = self._unknown(stack, silent, {machine.key.node for machine in machines})
        return tuple(sorted((*machines, *unknown), key=lambda machine: machine.key))

    def _unknown(
        self, stack: str, silent: Mapping[str, InfrastructureError], seen: set[str]
    ) -> Iterable[Machine]:
        why: dict[str, str] = {}
        for host, error in silent.items():
            last = self._seen.get(host)
            node = self.booted(host) if host not in self._seen else last.node if last else ""
            if node and node not in seen:
                why.setdefault(node, str(error))
        return (
            Machine(MachineKey(stack, node), NO_ADDRESS, "unknown", why=text) for node, text in why.items()
        )

    def delete(self, key: MachineKey) -> None:
        self.hosts.delete(key, self.waiting(self.delete_s))

    def waiting(self, for_s: float) -> Wait:
        """Return what waits, for so long in all."""
        return waiting_for(for_s, self.again_s, self.sleep)

    def to_machine(self, held: Held) -> Machine:
        """A host in the words of the contract."""
        address = self.address_of(held.claim.node) or NO_ADDRESS
        state: Literal["running", "stopped"] = "running" if held.facts.is_on else "stopped"
        return Machine(held.key, address, state, is_volatile=not held.claim.on_disk)
