"""Kinds of resources of existing hosts: the claim of a host, and the roles that playbooks apply to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from tidepool.cluster.failures import InsufficientCapacity
from tidepool.images.store import Image, ImageStore
from tidepool.infrastructures import MachineKey
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local.boots import stored_boot
from tidepool.infrastructures.ssh.ask import CLAIM_S, FACTS_S, RELEASE_S, Ask, HostError, ask
from tidepool.infrastructures.ssh.boot import host_boot, of_image
from tidepool.infrastructures.ssh.machines import claim_key, release_request
from tidepool.infrastructures.ssh.play import Play, roles_digest, roles_there, run_play
from tidepool.infrastructures.ssh.resources import SshHost, SshHostModel, SshPlaybook, SshPlaybookModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Kind, Made, Refusal, Task
from tidepool.resources.reading import Change, Mistake
from tidepool.resources.values import Inputs, Plain


class SshHostKind(Kind[SshHostModel]):
    """A host that is a node, by a claim on the host itself; deleting it gives the host back as it was before.

    Two stacks cannot have one host: whose it is stands on the host, and is written under a lock.
    """

    resource = SshHost
    timeout_s = RELEASE_S

    def __init__(self, home: Home, ask: Ask = ask) -> None:
        super().__init__(home)
        self._ask = ask

    def mistakes(self, wanted: SshHostModel) -> Iterable[Mistake]:
        try:
            if wanted.address:
                IPv4Address(wanted.address)
        except ValueError:
            yield Mistake("address", f"it is {wanted.address!r}; an IPv4 address is wanted")
        yield from _connection_mistakes(wanted.connection, self._home)

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
        try:
            answer = self._ask(wanted.connection, "claim", told, CLAIM_S)
        except HostError as error:
            raise error.kind(f"the host {wanted.host}: {error}") from error
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
            answer = self._ask(state.connection, "release", release_request(_key(state)), task.left_s)
        except HostError as error:
            raise Refusal(
                f"the host {state.host} could not be given back: {error}. Where it is gone for good, forget it: "
                "pulumi state delete, with this resource's URN",
                error.kind.cause,
            ) from error
        for each in answer["kept"]:
            task.warn(f"the host {state.host} was given back, but for {each}")


def _key(wanted: SshHostModel) -> MachineKey:
    return MachineKey(wanted.stack, wanted.node)


Run = Callable[[Play, Task, Path], str]


class SshPlaybookKind(IdempotentKind[SshPlaybookModel]):
    """Roles applied to a host: when they, what they are told, or the host change, and in no other case."""

    resource = SshPlaybook
    #: Packages come from a mirror that may be slow.
    timeout_s = 1800.0

    def __init__(self, home: Home, run: Run = run_play, ask: Ask = ask) -> None:
        super().__init__(home)
        self._run, self._ask = run, ask

    def mistakes(self, wanted: SshPlaybookModel) -> Iterable[Mistake]:
        there = roles_there(Path(wanted.playbooks))
        if not there:
            yield Mistake("playbooks", f"{wanted.playbooks} has no folder `roles` with roles in it")
        elif unknown := sorted(set(wanted.roles) - there):
            yield Mistake(
                "roles", f"there is no role {', '.join(unknown)}; there are {', '.join(sorted(there))}"
            )
        if both := sorted(set(wanted.variables) & set(wanted.secrets)):
            yield Mistake("secrets", f"{', '.join(both)} is among the variables too")
        yield from _connection_mistakes(wanted.connection, self._home)

    def derived(self, wanted: SshPlaybookModel) -> Mapping[str, Plain]:
        return {"digest": roles_digest(Path(wanted.playbooks), wanted.roles)}

    def create(self, wanted: SshPlaybookModel, task: Task) -> Made:
        variables, files = dict(wanted.variables), dict[str, bytes]()
        if wanted.boot:
            boot = stored_boot(self._home, wanted.stack, wanted.boot)
            told = host_boot(boot, str(wanted.variables.get("tidepool_node", "")))
            variables |= told.variables
            files |= told.files
        if wanted.image:
            variables |= of_image(self._image(wanted.image), variables["tidepool_daemon_packages"])
        play = Play(
            Path(wanted.playbooks), tuple(wanted.roles), wanted.connection, variables, wanted.secrets, files
        )
        try:
            self._run(play, task, self._home.data / "plays")
        finally:
            # Whatever it came to: what it changed is ours to undo.
            self._note(wanted)
        return Made(f"{wanted.connection['address']}:{int(wanted.connection.get('port', 22))}")

    def delete(self, id: str, state: SshPlaybookModel, task: Task) -> None:
        """Leave what roles did, until the host is given back: `ssh_host` knows what was there before."""

    def _image(self, digest: str) -> Image:
        image = ImageStore(self._home.images).find(digest)
        if image is None:
            raise Refusal(
                f"the image {digest[:20]} is gone, from which the host gets its kubelet: `tidepool up --refresh` builds it anew"
            )
        return image

    def _note(self, wanted: SshPlaybookModel) -> None:
        if not wanted.claim:
            return
        try:
            told = self._ask(wanted.connection, "note", {"key": dict(wanted.claim)}, CLAIM_S)
        except HostError as error:
            raise Refusal(
                f"what the play changed could not be noted, for it to be undone one day: {error}",
                error.kind.cause,
            ) from error
        if not told["noted"]:
            raise Refusal(
                f"{wanted.connection['address']} is not claimed by {wanted.claim['node']} any more: somebody gave it back"
            )


def _connection_mistakes(connection: Mapping[str, Any], home: Home) -> Iterable[Mistake]:
    if connection.get("kind") != "host":
        yield Mistake("connection", "it is none of kind `host`, with address, user, key and known_hosts")
        return
    try:
        transport(connection, home.data)
    except ValueError as error:
        yield Mistake("connection", str(error))
