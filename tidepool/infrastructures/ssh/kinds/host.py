"""tidepool:ssh:Host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from tidepool.cluster.failures import InsufficientCapacity
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.ssh.ask import CLAIM_S, FACTS_S, RELEASE_S, Ask, ask
from tidepool.infrastructures.ssh.errors import HostError
from tidepool.infrastructures.ssh.failures import kind_of
from tidepool.infrastructures.ssh.machines import claim_key
from tidepool.infrastructures.ssh.resources import SshHost, SshHostModel
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Change, Mistake
from tidepool.resources.values import Inputs, Plain


class SshHostKind(Kind[SshHostModel]):
    """A host that is a node, by a claim on the host itself; deleting it gives the host back as it was before.

    Two stacks cannot have one host: whose it is stands on the host, and is written under a lock.
    """

    resource = SshHost
    timeout_s = RELEASE_S

    def __init__(self, home: Home, ask: Ask = ask) -> None:
        self._home, self._ask = home, ask

    def mistakes(self, wanted: SshHostModel) -> Iterable[Mistake]:
        try:
            if wanted.address:
                IPv4Address(wanted.address)
        except ValueError:
            yield Mistake("address", f"it is {wanted.address!r}; an IPv4 address is wanted")
        if wanted.connection.get("kind") != "host":
            yield Mistake("connection", "it is none of kind `host`, with address, user, key and known_hosts")
            return
        try:
            transport(wanted.connection, self._home.data)
        except ValueError as error:
            yield Mistake("connection", str(error))

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        """Another way to a host, with another key or user, is a change; another address is another host."""
        found = super().diff(old, new)
        ways = [each.get("connection") for each in (old, new)]
        places = [(way.get("address"), way.get("port")) for way in ways if isinstance(way, Mapping)]
        if len(places) == 2 and places[0] != places[1]:
            found = tuple(
                replace(change, replaces=True) if change.key == "connection" else change for change in found
            )
        return found

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        known = isinstance(inputs.get("node"), str) and isinstance(inputs.get("stack"), str)
        key = MachineKey(inputs["stack"], inputs["node"]) if known else None
        return {"claim": claim_key(key)} if key else {}

    def create(self, wanted: SshHostModel, task: Task) -> Made:
        told = {"key": claim_key(_key(wanted)), "address": wanted.address}
        answer = self._told(wanted, "claim", told, CLAIM_S)
        if (by := answer["claimed_by"]) != told["key"]:
            raise InsufficientCapacity(
                f"{_key(wanted)} cannot be made: the host {wanted.host} is the node {by['node']} of "
                f"the stack {by['stack']}: give it back there first, or name another host"
            )
        return Made(f"{_key(wanted).stack}/{_key(wanted).node}", {"machine": f"{wanted.host}/{answer['id']}"})

    def look(self, id: str, state: SshHostModel) -> Mapping[str, Plain] | None:
        try:
            claim = self._ask(state.connection, "facts", {}, FACTS_S)["claim"]
        except HostError:
            return AS_KNOWN  # not seen is not gone
        return AS_KNOWN if claim and claim["key"] == claim_key(_key(state)) else None

    def delete(self, id: str, state: SshHostModel, task: Task) -> None:
        try:
            answer = self._ask(state.connection, "release", {"key": claim_key(_key(state))}, task.left_s)
        except HostError as error:
            raise Refusal(
                f"the host {state.host} could not be given back: {error}. Where it is gone for good, forget it: "
                "pulumi state delete, with this resource's URN"
            ) from error
        for each in answer["kept"]:
            task.warn(f"the host {state.host} was given back, but for {each}")

    def _told(
        self, wanted: SshHostModel, verb: str, told: Mapping[str, Any], timeout_s: float
    ) -> Mapping[str, Any]:
        try:
            return self._ask(wanted.connection, verb, told, timeout_s)
        except HostError as error:
            raise kind_of(str(error))(f"the host {wanted.host}: {error}") from error


def _key(wanted: SshHostModel) -> MachineKey:
    return MachineKey(wanted.stack, wanted.node)
