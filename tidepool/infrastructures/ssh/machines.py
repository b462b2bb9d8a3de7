"""The machines of existing hosts as the infrastructure that the scaler looks at and sweeps.

They are claimed by the provider's resource tidepool:ssh:Host; here claims are found, and hosts are given back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import Transient
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.machines import NO_ADDRESS
from tidepool.infrastructures.ssh.ask import FACTS_S, RELEASE_S, Ask, HostError, ask
from tidepool.infrastructures.ssh.reading import connection_of, read_options

_AT_ONCE: Final = 32


def machines_of(spec: ClusterSpec, _stack: str, _data: Path) -> Infrastructure:
    """The machines on all hosts that the spec names. Whose they are, they say themselves."""
    options = read_options(spec)
    return Machines({name: connection_of(options.place, host) for name, host in options.hosts.items()})


@dataclass(frozen=True, slots=True)
class Machines:
    """`tidepool.infrastructures.Infrastructure`, of hosts' connections by name.

    A host that does not answer fails all of it: its machine is not seen then, and is not gone.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    ask: Ask = ask

    def read(self, key: MachineKey) -> Machine | None:
        return next((found for _, found in self._claims() if key.matches(found.key)), None)

    def list(self, stack: str) -> tuple[Machine, ...]:
        found = (machine for _, machine in self._claims() if machine.key.stack == stack)
        return tuple(sorted(found, key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        for host, machine in self._claims():
            if key.matches(machine.key):
                told = {"key": claim_key(machine.key), "id": machine.machine_id.partition("/")[2]}
                answer = self._ask(host, "release", told, RELEASE_S)
                if not answer["released"]:
                    raise Transient(f"{key}: the host {host} was claimed by another node meanwhile")

    def _claims(self) -> Sequence[tuple[str, Machine]]:
        """All at once: over SSH, each takes a second."""
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(self.hosts)))) as threads:
            told = threads.map(
                lambda host: (host, self._ask(host, "facts", {}, FACTS_S)["claim"]), self.hosts
            )
            return [(host, _machine(host, claim)) for host, claim in told if claim]

    def _ask(self, host: str, verb: str, told: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        try:
            return self.ask(self.hosts[host], verb, told, timeout_s)
        except HostError as error:
            raise error.kind(f"host {host}: {error}") from error


def claim_key(key: MachineKey) -> Mapping[str, Any]:
    """A key as claims have it. Claims are told apart by their ids; ``generation`` is in those of earlier releases."""
    return {"stack": key.stack, "fleet": key.fleet, "node": key.node, "generation": 1}


def _machine(host: str, claim: Mapping[str, Any]) -> Machine:
    key = MachineKey(claim["key"]["stack"], claim["key"]["node"], f"{host}/{claim['id']}")
    address = IPv4Address(claim["address"]) if claim.get("address") else NO_ADDRESS
    # One that is half claimed, or half given back, is to be claimed or given back again.
    state = "running" if claim["state"] == "claimed" else "stopped"
    # Claims of earlier releases do not say it.
    since = datetime.fromtimestamp(claim["since"], UTC) if "since" in claim else None
    return Machine(key, address, state, since)  # type: ignore[arg-type]
