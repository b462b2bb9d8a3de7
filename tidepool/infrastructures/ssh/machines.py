"""The machines of existing hosts as the infrastructure that the scaler looks at and sweeps.

They are claimed by the provider's resource tidepool:ssh:Host; here claims are found, and hosts are given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.failures import InfrastructureError, Transient
from tidepool.cluster.roles import LAYOUTS
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import Infrastructure, Machine, MachineKey
from tidepool.infrastructures.machines import NO_ADDRESS
from tidepool.infrastructures.reading import has_own_machines, own_addresses
from tidepool.infrastructures.several import Answer
from tidepool.infrastructures.ssh.ask import FACTS_S, RELEASE_S, Ask, HostError, ask
from tidepool.infrastructures.ssh.reading import Options, connection_of, host_of, read_options

_NAME: Final = "ssh"
_AT_ONCE: Final = 32


def machines_of(spec: ClusterSpec, _stack: str, _data: Path) -> Infrastructure:
    """The machines on all hosts that the spec names. Whose they are, they say themselves."""
    options = read_options(spec)
    connections = {name: connection_of(options.place, host) for name, host in options.hosts.items()}
    return Machines(connections, nodes_of_hosts(spec, options))


#: What a host says of itself: the machine that it is, none, or why that is not known.
Claim = Machine | InfrastructureError | None


@dataclass(frozen=True, slots=True)
class Late:
    """Why a host did not answer, and the answer that is waited for."""

    error: InfrastructureError
    answer: Answer[Claim]


@dataclass(frozen=True, slots=True)
class Machines:
    """`tidepool.infrastructures.Infrastructure`, of hosts' connections by name.

    ``nodes`` are those that each host may be: of one that does not answer they are unknown. `list` waits once for such a
    host; from then on it is asked beside, until it answers.
    """

    hosts: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Sequence[str]]
    ask: Ask = ask
    _late: dict[str, Late] = field(default_factory=dict, init=False, repr=False, compare=False)

    def read(self, key: MachineKey) -> Machine | None:
        claims, silent = self._claims(key)
        if silent and not claims:
            raise next(iter(silent.values()))
        return next((machine for _, machine in claims), None)

    def list(self, stack: str) -> tuple[Machine, ...]:
        claims, silent = self._ask_hosts(self._claim_or_late)
        if silent and len(silent) == len(self.hosts):
            raise next(iter(silent.values()))
        found = [machine for _, machine in claims if machine.key.stack == stack]
        unknown = [
            Machine(MachineKey(stack, node), NO_ADDRESS, "unknown", why=str(error))
            for host, error in silent.items()
            for node in self.nodes.get(host, ())
        ]
        return tuple(sorted((*found, *unknown), key=lambda machine: machine.key))

    def delete(self, key: MachineKey) -> None:
        claims, silent = self._claims(key)
        for host, machine in claims:
            told = {**release_request(machine.key), "id": machine.machine_id.partition("/")[2]}
            try:
                answer = self.ask(self.hosts[host], "release", told, RELEASE_S)
            except HostError as error:
                raise _of_host(host, error) from error
            if not answer["released"]:
                raise Transient(f"{key}: the host {host} was claimed by another node meanwhile")
        if silent:
            raise next(iter(silent.values()))

    def _claims(
        self, key: MachineKey
    ) -> tuple[Sequence[tuple[str, Machine]], Mapping[str, InfrastructureError]]:
        """The claims that a key matches; and of hosts that may have one and do not answer, why."""
        where = key.machine_id.partition("/")[0]
        claims, silent = self._ask_hosts(self._claim, where)
        return (
            [(host, machine) for host, machine in claims if key.matches(machine.key)],
            {host: each for host, each in silent.items() if where or key.node in self.nodes.get(host, ())},
        )

    def _ask_hosts(
        self, ask: Callable[[str], Claim], where: str = ""
    ) -> tuple[Sequence[tuple[str, Machine]], Mapping[str, InfrastructureError]]:
        """The claims of all hosts, or of the one that is named, asked at once: over SSH, each takes a second."""
        asked = [host for host in self.hosts if where in ("", host)]
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(asked)))) as threads:
            told = list(zip(asked, threads.map(ask, asked), strict=True))
        claims = [(host, each) for host, each in told if isinstance(each, Machine)]
        return claims, {host: each for host, each in told if isinstance(each, InfrastructureError)}

    def _claim_or_late(self, host: str) -> Claim:
        late = self._late.get(host)
        if late is None:
            claim = self._claim(host)
        elif late.answer.is_awaited:
            return late.error
        else:
            claim = late.answer.wait(0)
        if isinstance(claim, InfrastructureError):
            self._late[host] = Late(claim, Answer(partial(self._claim, host)))
        else:
            self._late.pop(host, None)
        return claim

    def _claim(self, host: str) -> Claim:
        try:
            claim = self.ask(self.hosts[host], "facts", {}, FACTS_S)["claim"]
        except HostError as error:
            return _of_host(host, error)
        return _machine(host, claim) if claim else None


def nodes_of_hosts(spec: ClusterSpec, options: Options) -> Mapping[str, Sequence[str]]:
    """The nodes that each host may be, by its name: their numbers decide that, here as in the program."""
    found: dict[str, list[str]] = {}
    if has_own_machines(spec, _NAME):
        numbers = {address: number for number, address in enumerate(own_addresses(spec), 1)}
        for node, address in spec.own_hosts.items():
            found.setdefault(host_of(options.own, numbers[address]), []).append(node)
    for entry in spec.entries(_NAME):
        for slot in entry.fleet.slots():
            host = host_of(options.fleets[entry.fleet.name], slot.number)
            found.setdefault(host, []).append(slot.node_name)
    return found


def _of_host(host: str, error: HostError) -> InfrastructureError:
    return error.kind(f"host {host}: {error}")


def claim_key(key: MachineKey) -> Mapping[str, Any]:
    """A key as claims have it. Claims are told apart by their ids; ``generation`` is in those of earlier releases."""
    return {"stack": key.stack, "fleet": key.fleet, "node": key.node, "generation": 1}


def release_request(key: MachineKey) -> Mapping[str, Any]:
    """Return the request to give a host back: whose it is, and what may be there of a pool's roles."""
    return {"key": claim_key(key), "layouts": {role: asdict(layout) for role, layout in LAYOUTS.items()}}


def _machine(host: str, claim: Mapping[str, Any]) -> Machine:
    key = MachineKey(claim["key"]["stack"], claim["key"]["node"], f"{host}/{claim['id']}")
    address = IPv4Address(claim["address"]) if claim.get("address") else NO_ADDRESS
    # One that is half claimed, or half given back, is to be claimed or given back again.
    state = "running" if claim["state"] == "claimed" else "stopped"
    # Claims of earlier releases do not say it.
    since = datetime.fromtimestamp(claim["since"], UTC) if "since" in claim else None
    return Machine(key, address, state, since)  # type: ignore[arg-type]
